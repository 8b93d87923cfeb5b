// The inverse of what a dataset says of its nodes' ids, for those who read all of it.
#pragma once
#include <cstdint>
#include <vector>

#include "core/dataset/dataset.h"

namespace hopfeed {

/// Returns dataset id -> original id of a node type, of a whole dataset. Throws kCorrupt naming the file and
/// the two nodes where two share a dataset id.
std::vector<std::int64_t> inverse_ids(const Dataset& dataset, int node_type);

}  // namespace hopfeed
