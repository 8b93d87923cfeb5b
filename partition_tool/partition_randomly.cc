// See partition_nodes.h.
#include "partition_tool/partition_nodes.h"
#include "partition_tool/random_permutation.h"

namespace hopfeed {

std::vector<std::int32_t> partition_randomly(const RawGraph& graph, const PartitionOptions& options) {
  std::vector<std::int32_t> partition_of(graph.num_nodes());
  for (int t = 0; t < static_cast<int>(graph.nodes.size()); ++t) {
    const std::int64_t first = graph.first_node(t), count = graph.nodes[t].count;
    std::visit(
        [&](const auto& shuffled) {
          for (std::int64_t i = 0; i < count; ++i)
            partition_of[first + shuffled[i]] = static_cast<std::int32_t>(i * options.partitions / count);
        },
        random_permutation(count, {.purpose = Purpose::kPartition, .seed = options.seed, .number = t}));
  }
  return partition_of;
}

}  // namespace hopfeed
