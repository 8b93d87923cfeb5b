// Finds splits that name a node twice. They are kept as they were given, but a user should know.
#pragma once
#include <string>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Returns a line for each split of nodes with ids that it has already: which, how many, and the first of
/// them.
std::vector<std::string> repeated_ids(const RawGraph& graph);

}  // namespace hopfeed
