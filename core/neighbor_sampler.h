// Multi-hop uniform neighbour sampling on the CPU (GraphSAGE; PyG's neighbor_sample). A staged pipeline over groups of about
// 32 frontier nodes hides memory latency: prefetch row records, draw, prefetch neighbours, read them, prefetch relabel slots,
// insert. What is drawn is core/sampling_rule.h; local ids follow the order of first appearance, seeds first.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/batch_layout.h"
#include "core/batch_options.h"
#include "core/dataset.h"

namespace hopfeed {

/// The nodes of one type in a sample. Views into the sampler's scratch, valid until the next sample.
struct SampledNodes {
  std::span<const std::int64_t> dataset_ids;  // [n]
  std::span<const std::int64_t>
      original_ids;  // [expanded]: known for the nodes whose rows were read, the first ones
  std::span<const std::int64_t> per_hop;  // [hops + 1]: seeds, then new nodes of each hop
};

/// The edges of one type in a sample, hop by hop, within a hop grouped by destination in local-id order.
struct SampledEdges {
  std::span<const std::uint32_t> sources;  // [E] local ids in the source type
  std::span<const std::uint32_t> per_dst;  // [expanded]: edges of destination 0, 1, ...
  std::span<const std::int64_t> edge_ids;  // [E] original edge positions; empty unless asked for
  std::span<const std::int64_t> per_hop;   // [hops]
};

struct Sample {
  std::vector<SampledNodes> nodes;  // per node type
  std::vector<SampledEdges> edges;  // per edge type
  std::int64_t num_seeds = 0;       // distinct
  std::span<const std::uint32_t>
      seed_index;  // [count] local id of each position; empty unless a seed repeats
};

struct SampleRequest {
  BatchKey key;
  int seed_type = 0;
  std::span<const std::int64_t> seeds;  // dataset ids
};

/// Bounds of a batch, per type.
struct SampleBounds {
  std::span<const std::int64_t> nodes, edges;
  std::int64_t seeds = 0;
};

class NeighborSampler {
 public:
  /// `dataset` must outlive the sampler. Throws kInvalid for bad options, kUnsupported for edge ids that are not stored.
  NeighborSampler(const Dataset& dataset, const BatchOptions& options);
  ~NeighborSampler();
  /// Throws kCorrupt naming file and row where the graph is damaged.
  const Sample& sample(const SampleRequest& request);
  /// Bytes of scratch held.
  std::size_t scratch_bytes() const;
  /// What that can come to with batches within `bounds`.
  std::size_t max_scratch_bytes(const SampleBounds& bounds) const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
