// Asks for degrees of nodes wherever their rows lie: one question for each machine.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/dataset/dataset.h"

namespace hopfeed {

/// Returns the edges of the type into each of `nodes` (dataset ids in range). Throws what PartitionPeers
/// throws, kCorrupt where a row is damaged.
std::vector<std::int64_t> degrees_of_all(const Dataset& dataset, int edge_type,
                                         std::span<const std::int64_t> nodes);

}  // namespace hopfeed
