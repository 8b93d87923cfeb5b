// See node_order.h.
#include "partition_tool/node_order.h"

#include <algorithm>
#include <numeric>

namespace hopfeed {
namespace {

/// Imported ids by partition, rising inside each.
void group_by_partition(std::span<const std::int32_t> partition_of, int partitions, NodeOrder& order) {
  order.partition_offsets.assign(partitions + 1, 0);
  if (partition_of.empty()) {
    std::iota(order.original.begin(), order.original.end(), 0);
    order.partition_offsets[partitions] = std::ssize(order.original);
    return;
  }
  for (std::int32_t p : partition_of) ++order.partition_offsets[p + 1];
  std::partial_sum(order.partition_offsets.begin(), order.partition_offsets.end(),
                   order.partition_offsets.begin());
  std::vector<std::int64_t> next(order.partition_offsets.begin(), order.partition_offsets.end() - 1);
  for (std::int64_t v = 0; v < std::ssize(partition_of); ++v) order.original[next[partition_of[v]]++] = v;
}

std::vector<std::int64_t> own_training_nodes(const RawGraph& graph,
                                             std::span<const std::int32_t> partition_of, int partition) {
  const auto split = graph.splits.find("train");
  if (split == graph.splits.end() || partition_of.empty())
    return split == graph.splits.end() ? std::vector<std::int64_t>{} : split->second;
  std::vector<std::int64_t> own;
  std::copy_if(split->second.begin(), split->second.end(), std::back_inserter(own),
               [&](std::int64_t v) { return partition_of[v] == partition; });
  return own.empty() ? split->second : own;
}

}  // namespace

NodeOrder order_nodes(const RawGraph& graph, std::span<const std::int32_t> partition_of, int partitions,
                      const HotnessOptions& options, const Progress& progress) {
  const std::int64_t num_nodes = graph.num_nodes();
  NodeOrder order{.partition_offsets = {},
                  .original = std::vector<std::int64_t>(num_nodes),
                  .new_ids = make_id_array(num_nodes, num_nodes),
                  .hotness = std::vector<double>(num_nodes)};
  group_by_partition(partition_of, partitions, order);
  for (int p = 0; p < partitions; ++p) {
    const std::vector<std::int64_t> train = own_training_nodes(graph, partition_of, p);
    HotnessOptions reported = options;
    reported.progress = [&](std::int64_t done, std::int64_t total) {
      progress({"Computing hotness", "edges", static_cast<std::uint64_t>(p * total + done),
                static_cast<std::uint64_t>(partitions * total)});
    };
    const std::vector<double> hot = inclusion_probability(
        {.indptr = graph.csc.indptr, .indices = graph.csc.rows(), .train = train}, reported);
    const auto begin = order.original.begin() + order.partition_offsets[p],
               end = order.original.begin() + order.partition_offsets[p + 1];
    std::sort(begin, end,
              [&](std::int64_t a, std::int64_t b) { return hot[a] != hot[b] ? hot[a] > hot[b] : a < b; });
    for (std::int64_t i = order.partition_offsets[p]; i < order.partition_offsets[p + 1]; ++i)
      order.hotness[i] = hot[order.original[i]];
  }
  std::visit(
      [&](auto& new_ids) {
        for (std::int64_t i = 0; i < num_nodes; ++i)
          new_ids[order.original[i]] = static_cast<std::decay_t<decltype(new_ids[0])>>(i);
      },
      order.new_ids);
  return order;
}

}  // namespace hopfeed
