// The one order of a dataset: by partition, inside a partition by falling hotness as seen by that partition's
// own training nodes (all of them where it has none), ties by smaller imported id.
#pragma once
#include "cache/hotness.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

struct NodeOrder {
  std::vector<std::int64_t> partition_offsets;  // [P + 1]
  std::vector<std::int64_t> original;           // [N] dataset id -> imported id
  IdArray new_ids;                              // [N] imported id -> dataset id
  std::vector<double> hotness;                  // [N] by dataset id
};

/// `partition_of` holds the partition of each imported id and is empty for one partition. The hotness is
/// computed in the imported numbering, so the order does not depend on how the input was cut.
NodeOrder order_nodes(const RawGraph& graph, std::span<const std::int32_t> partition_of, int partitions,
                      const HotnessOptions& options, const Progress& progress);

}  // namespace hopfeed
