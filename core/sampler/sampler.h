// A Sampler is the interface that batch_maker.h knows every sampler by; a Sample is what each gives. Samplers
// are neighbor_sampler.h (GraphSAGE and its kin), walk_sampler.h, cluster_sampler.h, and what a user adds
// (sample_builder.h, sampler_registry.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/saturating.h"
#include "core/batch/batch_layout.h"
#include "core/batch/block_writer.h"
#include "core/batch/gpu_use.h"
#include "core/draws/excluded_edges.h"

namespace hopfeed {

/// SampledNodes are the nodes of one type in a sample. They view the sampler's scratch, and are valid until
/// the next sample.
struct SampledNodes {
  std::span<const std::int64_t> dataset_ids;  // [n]
  std::span<const std::int64_t>
      original_ids;  // [expanded]: known for the nodes whose rows were read, the first ones
  std::span<const std::int64_t> per_hop;  // [hops + 1]: seeds, then new nodes of each hop
  std::span<const std::int64_t>
      trees;  // [n] position of the seed that reached the node; disjoint batches only
};

/// SampledEdges are the edges of one type in a sample, hop by hop, within a hop grouped by destination in
/// local-id order.
struct SampledEdges {
  std::span<const std::uint32_t> sources;  // [E] local ids in the source type
  /// Destinations are told in one of two ways: either how many edges each of the first destinations has, in
  /// turn, or one local id an edge.
  std::span<const std::uint32_t> per_dst;  // [expanded]
  std::span<const std::uint32_t> targets;  // [E]
  std::span<const std::int64_t> edge_ids;  // [E] original edge positions; empty unless asked for
  std::span<const std::int64_t>
      positions;  // [E] in the dataset's order (CscPart::first_edge); for edge attributes
  std::span<const std::int64_t> per_hop;  // [hops]
};

/// An ArraySpec is an int64 array of a batch beside the nodes and edges that every batch has.
struct ArraySpec {
  std::string name;
  Store store = Store::kBatch;
  int type = 0;  // of nodes or edges
  BlockShape shape;
};
struct SampledArray {
  ArraySpec spec;
  std::span<const std::int64_t> values;
};

struct Sample {
  std::vector<SampledNodes> nodes;  // per node type
  std::vector<SampledEdges> edges;  // per edge type
  std::vector<SampledArray> arrays;
  std::int64_t num_seeds = 0;  // distinct seeds of all entries of the request; in disjoint batches all
  /// It has the local id of each seed, entry after entry of the request; empty unless a seed repeats in its
  /// entry.
  std::span<const std::uint32_t> seed_index;
};

/// TypedSeeds are seeds of one node type.
struct TypedSeeds {
  int node_type = 0;
  std::span<const std::int64_t> ids;    // dataset ids
  std::span<const std::int64_t> times;  // of each, where the options name a time
};

struct SampleRequest {
  BatchKey key;
  /// Entries are in the order of their local ids, no node type twice: nodes as seeds are one entry, links
  /// between two types have two. The trees of a disjoint batch are numbered on from entry to entry.
  std::span<const TypedSeeds> seeds;
  /// These edges count as absent before the draw, in every hop; null: none.
  const ExcludedEdges* excluded = nullptr;

  std::size_t num_seeds() const {
    std::size_t sum = 0;
    for (const TypedSeeds& entry : seeds) sum += entry.ids.size();
    return sum;
  }
};

/// A SeedCount says how many seeds there are of a node type.
struct SeedCount {
  int node_type = 0;
  std::int64_t count = 0;
};
/// SeedCounts are the seeds of a request that is still to come, entry by entry.
using SeedCounts = std::span<const SeedCount>;

/// SampleBounds are what no sample of so many seeds exceeds.
struct SampleBounds {
  std::vector<std::int64_t> nodes, edges;  // per type
  std::int64_t seeds = 0;                  // with repeats
  std::vector<ArraySpec> arrays;
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Samples, as a pure function of dataset, options and request; the views hold until the next call. Throws
  /// kCorrupt naming file and row where the graph is damaged.
  virtual const Sample& sample(const SampleRequest& request) = 0;
  /// Returns bounds, which saturate at kFarTooMany instead of wrapping.
  virtual SampleBounds bounds(SeedCounts seeds) const = 0;
  /// Returns the entries of `per_hop` of edges; nodes have one more.
  virtual std::size_t num_hops() const = 0;
  /// Returns the bytes of scratch held.
  virtual std::size_t scratch_bytes() const = 0;
  /// Returns what tables that the graph bounds may take once it samples, in bytes beyond what it holds when
  /// it is made.
  virtual std::size_t later_table_bytes() const { return 0; }
  /// Returns what scratch_bytes() can come to with samples of so many seeds.
  virtual std::size_t max_scratch_bytes(SeedCounts seeds) const = 0;
  /// Returns what a GPU sampled and holds; empty for samplers without one.
  virtual GpuUse gpu_use() const { return {}; }
};

inline std::int64_t total_of(SeedCounts seeds) {
  std::int64_t sum = 0;
  for (const SeedCount& entry : seeds) sum = saturating_sum(sum, entry.count);
  return sum;
}

}  // namespace hopfeed
