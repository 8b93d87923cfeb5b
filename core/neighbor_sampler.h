// Multi-hop neighbour sampling on the CPU (GraphSAGE; PyG's neighbor_sample, hetero_neighbor_sample and their disjoint and
// temporal forms), on graphs of any node and edge types. A pipeline over groups of frontier nodes hides memory latency
// (row_expander.h); what is drawn is a picker's business (uniform_picker.h, weighted_picker.h, temporal_picker.h); local ids
// follow the order of first appearance, seeds first, edge types in the dataset's order.
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
  std::span<const std::int64_t>
      trees;  // [n] position of the seed that reached the node; disjoint batches only
};

/// The edges of one type in a sample, hop by hop, within a hop grouped by destination in local-id order.
struct SampledEdges {
  std::span<const std::uint32_t> sources;  // [E] local ids in the source type
  std::span<const std::uint32_t> per_dst;  // [expanded]: edges of destination 0, 1, ...
  std::span<const std::int64_t> edge_ids;  // [E] original edge positions; empty unless asked for
  std::span<const std::int64_t>
      positions;  // [E] in the dataset's order (CscPart::first_edge); for edge attributes
  std::span<const std::int64_t> per_hop;  // [hops]
};

struct Sample {
  std::vector<SampledNodes> nodes;  // per node type
  std::vector<SampledEdges> edges;  // per edge type
  std::int64_t num_seeds = 0;       // distinct; in disjoint batches all
  std::span<const std::uint32_t>
      seed_index;  // [count] local id of each position; empty unless a seed repeats
};

struct SampleRequest {
  BatchKey key;
  int seed_type = 0;
  std::span<const std::int64_t> seeds;       // dataset ids
  std::span<const std::int64_t> seed_times;  // of each seed, where the options name a time
};

/// Bounds of a batch, per type.
struct SampleBounds {
  std::span<const std::int64_t> nodes, edges;
  std::int64_t seeds = 0;
};

class NeighborSampler {
 public:
  /// `dataset` must outlive the sampler. Throws kInvalid for bad options, kNotFound for edge types, weights and times that
  /// the dataset does not have, kUnsupported for edge ids that are not stored.
  NeighborSampler(const Dataset& dataset, const BatchOptions& options);
  ~NeighborSampler();
  /// Throws kCorrupt naming file and row where the graph is damaged.
  const Sample& sample(const SampleRequest& request);
  /// What is drawn per node of an edge type in a hop; -1: all.
  std::int64_t fanout(int edge_type, std::size_t hop) const;
  /// Bytes of scratch held.
  std::size_t scratch_bytes() const;
  /// What that can come to with batches within `bounds`.
  std::size_t max_scratch_bytes(const SampleBounds& bounds) const;
  /// Weighted rows so far that few heavy edges made slow: they cost O(degree) each (weighted_rule.h).
  std::uint64_t rows_summed() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
