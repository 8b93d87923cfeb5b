// See repeated_ids.h.
#include "partition_tool/repeated_ids.h"

#include <fmt/format.h>

namespace hopfeed {

std::vector<std::string> repeated_ids(const RawGraph& graph) {
  std::vector<std::string> lines;
  for (const RawNodes& nodes : graph.nodes) {
    for (const auto& [name, ids] : nodes.splits) {
      std::vector<bool> seen(static_cast<std::size_t>(nodes.count));
      std::int64_t repeats = 0, first = 0;
      for (const std::int64_t id : ids) {
        if (seen[static_cast<std::size_t>(id)] && repeats++ == 0) first = id;
        seen[static_cast<std::size_t>(id)] = true;
      }
      if (repeats == 0) continue;
      lines.push_back(fmt::format(
          "split '{}'{} has {} repeated ids, the first of them {}; all are "
          "kept, so these nodes are seeds more than once in an epoch",
          name, graph.nodes.size() > 1 ? " of node type '" + nodes.name + "'" : "", repeats, first));
    }
  }
  return lines;
}

}  // namespace hopfeed
