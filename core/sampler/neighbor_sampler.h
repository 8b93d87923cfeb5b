// NeighborSampler is multi-hop neighbour sampling on the CPU (GraphSAGE; PyG's neighbor_sample,
// hetero_neighbor_sample and their disjoint and temporal forms), on graphs of any node and edge types. A
// pipeline over groups of frontier nodes hides memory latency (row_pipeline.h); what is drawn is a picker's
// business (uniform_picker.h, weighted_picker.h, temporal_picker.h); local ids follow the order of first
// appearance, seeds first, edge types in the dataset's order.
#pragma once
#include <cstdint>
#include <memory>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/sampler.h"

namespace hopfeed {

class NeighborSampler : public Sampler {
 public:
  /// `dataset` must outlive the sampler. Throws kInvalid for bad options, kNotFound for edge types, weights
  /// and times that the dataset does not have, kUnsupported for edge ids that are not stored.
  NeighborSampler(const Dataset& dataset, const BatchOptions& options);
  ~NeighborSampler() override;
  const Sample& sample(const SampleRequest& request) override;
  /// A frontier never exceeds the nodes of its type (of each tree), and each node is expanded once.
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t num_hops() const override;
  std::size_t scratch_bytes() const override;
  std::size_t later_table_bytes() const override;
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;
  /// Returns how many weighted rows few heavy edges made slow so far: they cost O(degree) each
  /// (weighted_rule.h).
  std::uint64_t rows_summed() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
