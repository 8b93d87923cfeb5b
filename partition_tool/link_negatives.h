// Draws negative links: pairs of nodes that are no edge, evenly. Each is a pure function of (seed, edge type,
// split, its number).
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct NegativeLinkOptions {
  std::int64_t num_sources = 0;
  bool square = false;  // both ends are of one node type: no negative leads from a node to itself
  std::uint64_t seed = 0;
  std::uint32_t edge_type = 0;
  std::int64_t split = 0;  // tells the splits of a type apart
  int threads = 1;
  std::string origin;  // named in errors: the edge type
};

/// Returns {source, destination} of `count` pairs that are neither edges of `csc` nor in `known`, which is
/// sorted. Repeats may occur. Throws kInvalid where there is no such pair.
IdArray draw_negative_links(const Csc& csc, const std::vector<std::pair<std::int64_t, std::int64_t>>& known,
                            std::int64_t count, const NegativeLinkOptions& options);

}  // namespace hopfeed
