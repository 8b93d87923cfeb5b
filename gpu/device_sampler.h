// Neighbour sampling on a device, behind the interface of all samplers: for a request it gives what
// NeighborSampler gives, byte for byte. What the device does not do, and each batch in which it finds
// something odd (hop_engine.h: Fallback), goes to a NeighborSampler as a whole, and is counted; of a damaged
// graph that one throws the error. docs/gpu.md has the table of what runs where.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/scratch.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/pickers/seed_places.h"
#include "core/sampler/edge_type_plan.h"
#include "core/sampler/neighbor_sampler.h"
#include "core/sampler/sampler.h"
#include "gpu/hop_engine.h"

namespace hopfeed {

/// "kind", "too large", ...: why a batch went to the CPU.
const char* to_string(gpu::Fallback reason);

struct DeviceSamplerOptions {
  gpu::GraphPlace place = gpu::GraphPlace::kHost;
  int device = 0;  // number of the GPU
  gpu::EngineFactory make_engine;
  /// EnginePlan's; 0: count the edges of every hop.
  std::uint64_t most_uncounted_edges = gpu::EnginePlan{}.most_uncounted_edges;
};

class DeviceSampler : public Sampler {
 public:
  /// `dataset` must outlive the sampler. Throws what NeighborSampler and the engine throw.
  DeviceSampler(const Dataset& dataset, const BatchOptions& options, const DeviceSamplerOptions& device);
  const Sample& sample(const SampleRequest& request) override;
  SampleBounds bounds(SeedCounts seeds) const override { return cpu_.bounds(seeds); }
  std::size_t num_hops() const override { return cpu_.num_hops(); }
  /// Of the host: pinned memory, and what the CPU sampler holds.
  std::size_t scratch_bytes() const override;
  std::size_t later_table_bytes() const override { return cpu_.later_table_bytes(); }
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

  /// Batches so far, on the device (kNone) and, by reason, on the CPU.
  std::uint64_t batches(gpu::Fallback reason) const { return batches_[static_cast<std::size_t>(reason)]; }
  /// How often the host has waited for the device; 0 where nothing of these options runs there.
  std::uint64_t waits() const { return engine_ ? engine_->waits() : 0; }

 private:
  gpu::EnginePlan make_plan(const DeviceSamplerOptions& device) const;
  gpu::Fallback sample_there(const SampleRequest& request);
  void name_streams(const BatchKey& key);
  bool take_excluded(const ExcludedEdges& excluded);
  void take_times(const SampleRequest& request);
  void take_result(std::size_t num_seeds);

  const Dataset& dataset_;
  const BatchOptions options_;
  NeighborSampler cpu_;
  std::vector<EdgeTypePlan> types_;
  int node_bits_ = 0;
  std::unique_ptr<gpu::HopEngine> engine_;  // null: the device does not sample so
  std::size_t fixed_pinned_ = 0;            // of it, before the first batch
  std::array<std::uint64_t, static_cast<std::size_t>(gpu::Fallback::kEnd)> batches_{};
  std::vector<gpu::EngineSeeds> seeds_;
  std::vector<NodeStream> streams_;
  std::vector<gpu::EngineExcluded> excluded_;
  ScratchArray<std::int64_t> seed_times_;  // of each tree
  std::vector<SeedPlaces> time_places_;    // by edge type
  std::vector<gpu::EngineTimes> times_;
  Sample result_;
};

}  // namespace hopfeed
