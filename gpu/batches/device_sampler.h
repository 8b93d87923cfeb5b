// A DeviceSampler samples neighbours on a device, behind the interface of all samplers: for a request it
// gives what NeighborSampler gives, byte for byte. What the device does not do, and each batch in which it
// finds something odd (hop_engine.h: Fallback), goes to a NeighborSampler as a whole, and is counted; of a
// damaged graph that one throws the error. docs/gpu.md has the table of what runs where.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/scratch.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/draws/seed_places.h"
#include "core/sampler/edge_type_plan.h"
#include "core/sampler/neighbor_sampler.h"
#include "core/sampler/sampler.h"
#include "gpu/engine/hop_engine.h"

namespace hopfeed {

/// Returns why a batch went to the CPU: "kind", "too large", ...
const char* to_string(gpu::Fallback reason);

struct DeviceSamplerOptions {
  gpu::GraphPlace place = gpu::GraphPlace::kHost;
  int device = 0;                  // number of the GPU
  gpu::EngineFactory make_engine;  // null: the sampler is asked for bounds alone
  /// It is EnginePlan's; 0: count the edges of every hop.
  std::uint64_t most_uncounted_edges = gpu::EnginePlan{}.most_uncounted_edges;
  std::uint64_t most_weights_left = gpu::EnginePlan{}.most_weights_left;  // EnginePlan's
  /// The engine is made on a thread of its own, since a CUDA context and a graph that is copied or pinned
  /// take seconds; the CPU samples meanwhile, also behind each restart of a worker. What goes wrong is thrown
  /// by the next sample().
  bool warm = false;
  CacheSize hot;                   // EnginePlan's
  bool results_on_device = false;  // EnginePlan's; then sample_there() is to be called, and not sample()
  /// Where the device gives an error, the CPU samples: that batch where memory is short, else from then on.
  /// One warning of each of the two says what it was (notes.h). Without it the error is thrown.
  bool cpu_fallback = false;
  /// A BrokenProcess is thrown all the same: another process takes this one's place, and the GPU may come up
  /// there.
  bool ends_when_broken = false;
};

class DeviceSampler : public Sampler {
 public:
  /// `dataset` must outlive the sampler. Throws what NeighborSampler and the engine throw.
  DeviceSampler(const Dataset& dataset, const BatchOptions& options, const DeviceSamplerOptions& device);
  const Sample& sample(const SampleRequest& request) override;
  /// Samples on the device alone, and calls `meanwhile` while it works; the request's arrays hold until it
  /// has done. Returns kNone, and device_sample() is the batch; else why the CPU has to sample it.
  gpu::Fallback sample_there(const SampleRequest& request, const std::function<void()>& meanwhile = nullptr);
  /// Returns the batch of the last sample_there(). Where results stay on the device its views are of memory
  /// there, but for per_hop and seed_index: EngineNodes' ids, and for each edge its target in place of
  /// per_dst.
  const Sample& device_sample() const { return result_; }
  SampleBounds bounds(SeedCounts seeds) const override { return cpu_.bounds(seeds); }
  std::size_t num_hops() const override { return cpu_.num_hops(); }
  /// Returns the bytes of the host's memory: pinned memory, and what the CPU sampler holds.
  std::size_t scratch_bytes() const override;
  std::size_t later_table_bytes() const override { return cpu_.later_table_bytes(); }
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

  /// Returns the bits of a dataset id, where an id is packed behind its tree.
  int node_bits() const { return node_bits_; }
  /// Returns the batches so far, on the device (kNone) and, by reason, on the CPU.
  std::uint64_t batches(gpu::Fallback reason) const { return batches_[static_cast<std::size_t>(reason)]; }
  GpuUse gpu_use() const override;
  /// Returns the batches that were asked of the device as a recording (HopEngine::replays).
  std::uint64_t replays() const { return engine_ ? engine_->replays() : 0; }
  /// Waits until the engine is there, where it is made meanwhile. Throws what went wrong.
  void wait_until_up();
  /// Returns how often the host has waited for the device; 0 where nothing of these options runs there.
  std::uint64_t waits() const { return engine_ ? engine_->waits() : 0; }

 private:
  gpu::EnginePlan make_plan(const DeviceSamplerOptions& device) const;
  gpu::Fallback try_there(const SampleRequest& request, const std::function<void()>& meanwhile);
  gpu::Fallback start(const SampleRequest& request, const std::function<void()>& meanwhile);
  bool is_up();
  /// Has the CPU sample from now on. Throws the error, which is being handled, where it is not to.
  void give_up(const Error& error);
  void name_streams(const BatchKey& key);
  bool take_excluded(const ExcludedEdges& excluded);
  void take_times(const SampleRequest& request);
  void take_result(std::size_t num_seeds);

  const Dataset& dataset_;
  const BatchOptions options_;
  const bool results_on_device_, cpu_fallback_, ends_when_broken_;
  NeighborSampler cpu_;
  std::vector<EdgeTypePlan> types_;
  int node_bits_ = 0;
  bool samples_there_ = false;                                  // the device does sample so
  std::shared_ptr<gpu::HopEngine> engine_;                      // null: it does not, or not yet
  std::shared_future<std::shared_ptr<gpu::HopEngine>> coming_;  // where it is made meanwhile
  bool lost_ = false;                                           // it did not come up, or is gone
  std::size_t fixed_pinned_ = 0;                                // of it, before the first batch
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
