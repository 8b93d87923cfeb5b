// METIS is given this graph: the nodes of all types numbered through, edges of all types undirected, without
// loops and parallel edges, an edge as heavy as the edges that it stands for, and thinned where it would not
// fit. Of the neighbours of a node about K are kept: edge {u, v} with probability K / min(degree u, degree
// v), by one keyed draw for the pair, and then it weighs as much more. So the expected weight of any cut is
// the number of edges that it really cuts, a node of K neighbours or fewer keeps all, and hubs keep more than
// K.
#pragma once
#include <cstdint>
#include <vector>

#include "partition_tool/partition_nodes.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// An UndirectedGraph is in METIS's layout and numbers.
struct UndirectedGraph {
  std::vector<std::int32_t> offsets;     // [N + 1]
  std::vector<std::int32_t> neighbours;  // both directions of each edge
  std::vector<std::int32_t> weights;     // of each of them
};

/// Makes the graph, a pure function of the given one, `options.seed` and `options.metis_degree`. Throws
/// kUnsupported where nodes or directed edges are more than `options.metis_limit`.
UndirectedGraph symmetrise(const RawGraph& graph, const PartitionOptions& options);

/// Returns the bytes of memory that this graph and METIS's work on it take together: measured, a little to
/// the high side.
std::uint64_t metis_bytes(std::int64_t num_nodes, std::int64_t directed_edges);

}  // namespace hopfeed
