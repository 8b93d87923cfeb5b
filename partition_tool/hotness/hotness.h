// Hotness is the probability that a node's row is read by one mini-batch (vertex inclusion probability, VIP;
// Kaler et al., SALIENT++, MLSys 2023). Seeds are drawn from the training nodes, each hop draws `fanout`
// neighbours without replacement:
//
//   p_0(v) = min(1, batch / |train|) for training nodes, 0 for others
//   p_h(v) = 1 - prod over out-neighbours u of v of (1 - t_h(u) p_{h-1}(u))
//   t_h(u) = min(1, fanout_h / in-degree(u))
//   P(v)   = 1 - prod over h = 0..L of (1 - p_h(v))
//
// With several edge types the product runs over the out-neighbours under each of them, and in-degrees are
// those of the type.
//
// All is computed in float64, each factor folded in by additions and multiplications alone and in the order
// of the rows. The order of the nodes hangs on it, so the result is bit-identical with any number of threads,
// on any processor and with any C library.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "partition_tool/hotness/neighbour_rows.h"

namespace hopfeed {

/// HotnessEdges is one edge type: the in-neighbours of the u-th destination are indices[indptr[u] .. indptr[u
/// + 1]). Destinations and sources are numbered inside their types; the graph's numbers begin at first_dst
/// and first_src.
struct HotnessEdges {
  std::span<const std::int64_t> indptr;  // [destinations + 1]
  NeighbourRows indices;                 // [E]
  std::int64_t first_dst = 0, first_src = 0;
  /// These are the fanouts of this type, as many as HotnessOptions has; empty: those hold. 0 leaves the type
  /// out in a hop.
  std::vector<std::int64_t> fanouts = {};
};

/// A HotnessGraph is a graph in any numbering of its nodes, those of all types in one.
struct HotnessGraph {
  std::int64_t num_nodes = 0;
  std::vector<HotnessEdges> edges;
  std::span<const std::int64_t> train;  // training nodes, repeats count once; empty: every node is one
};

struct HotnessOptions {
  std::vector<std::int64_t> fanouts{15, 10, 5};  // from the seeds outwards; -1 takes all neighbours
  std::int64_t batch_size = 1024;
  int threads = 1;
  /// It is told how many edges were read of how many, each hop reading all; may throw to stop.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Returns P(v) for every node, in the graph's numbering: [N], each in [0, 1].
std::vector<double> inclusion_probability(const HotnessGraph& graph, const HotnessOptions& options);

}  // namespace hopfeed
