// See partition_nodes.h.
#include "partition_tool/partition_nodes.h"
#include "partition_tool/random_permutation.h"

namespace hopfeed {

std::vector<std::int32_t> partition_randomly(const RawGraph& graph, const PartitionOptions& options) {
  const std::int64_t num_nodes = graph.num_nodes();
  std::vector<std::int32_t> partition_of(num_nodes);
  std::visit(
      [&](const auto& shuffled) {
        for (std::int64_t i = 0; i < num_nodes; ++i)
          partition_of[shuffled[i]] = static_cast<std::int32_t>(i * options.partitions / num_nodes);
      },
      random_permutation(num_nodes, {.purpose = Purpose::kPartition, .seed = options.seed}));
  return partition_of;
}

}  // namespace hopfeed
