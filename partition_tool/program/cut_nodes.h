// Deals nodes for `partition` and `cluster`: by METIS, with as much of the graph as memory allows, or at
// random.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partition_tool/partition_nodes.h"
#include "partition_tool/program/tool.h"

namespace hopfeed {

/// A CutChoice is what a user chooses.
struct CutChoice {
  std::string method = "metis";
  std::uint64_t seed = 0;
  std::optional<std::int64_t> metis_degree;  // default: what memory allows
};

struct NodeCut {
  std::vector<std::int32_t> partition_of;  // [N]
  std::int64_t metis_degree = 0;           // the degree that METIS was given; 0: all
  double seconds = 0;
};

/// Throws kInvalid for choices that contradict each other.
void check_choice(const CutChoice& choice);

/// Deals the nodes, and says on stdout where METIS does not get the whole graph.
NodeCut cut_nodes(const RawGraph& graph, const CutChoice& choice, int partitions, int threads, Bars& bars);

}  // namespace hopfeed
