// See node_order.h.
#include "partition_tool/node_order.h"

#include <algorithm>
#include <numeric>

#include "partition_tool/partition_limits.h"

namespace hopfeed {
namespace {

/// Imported ids by partition, rising inside each. `partition_of` as of order_nodes, of this type alone.
NodeOrder group_by_partition(std::int64_t num_nodes, std::span<const std::int32_t> partition_of,
                             int partitions) {
  NodeOrder order{.partition_offsets = std::vector<std::int64_t>(partitions + 1),
                  .original = std::vector<std::int64_t>(num_nodes),
                  .new_ids = make_id_array(num_nodes, num_nodes),
                  .hotness = std::vector<double>(num_nodes)};
  if (partition_of.empty()) {
    std::iota(order.original.begin(), order.original.end(), 0);
    order.partition_offsets[partitions] = num_nodes;
    return order;
  }
  for (std::int32_t p : partition_of) ++order.partition_offsets[p + 1];
  std::partial_sum(order.partition_offsets.begin(), order.partition_offsets.end(),
                   order.partition_offsets.begin());
  std::vector<std::int64_t> next(order.partition_offsets.begin(), order.partition_offsets.end() - 1);
  for (std::int64_t v = 0; v < num_nodes; ++v) order.original[next[partition_of[v]]++] = v;
  return order;
}

std::vector<std::int64_t> own_training_nodes(const std::vector<std::int64_t>& train,
                                             std::span<const std::int32_t> partition_of, int partition) {
  if (partition_of.empty()) return train;
  std::vector<std::int64_t> own;
  std::ranges::copy_if(train, std::back_inserter(own),
                       [&](std::int64_t v) { return partition_of[v] == partition; });
  return own.empty() ? train : own;
}

HotnessGraph hotness_graph(const RawGraph& graph, std::span<const std::int64_t> train) {
  HotnessGraph view{.num_nodes = graph.num_nodes(), .edges = {}, .train = train};
  for (const RawEdges& type : graph.edges) {
    view.edges.push_back({.indptr = type.csc.indptr,
                          .indices = type.csc.rows(),
                          .first_dst = graph.first_node(type.dst_type),
                          .first_src = graph.first_node(type.src_type)});
  }
  return view;
}

/// `hot` is the hotness of the type's nodes by imported id.
void sort_partition(std::span<const double> hot, int partition, NodeOrder& order) {
  const auto begin = order.original.begin() + order.partition_offsets[partition],
             end = order.original.begin() + order.partition_offsets[partition + 1];
  std::sort(begin, end,
            [&](std::int64_t a, std::int64_t b) { return hot[a] != hot[b] ? hot[a] > hot[b] : a < b; });
  std::transform(begin, end, order.hotness.begin() + order.partition_offsets[partition],
                 [&](std::int64_t v) { return hot[v]; });
}

/// The rows of other partitions than `partition` that are read at all, the hottest first.
void rank_remote_rows(std::span<const double> hot, std::span<const std::int32_t> partition_of, int partition,
                      NodeOrder& order) {
  const auto is_read = [&](std::int64_t v) { return partition_of[v] != partition && hot[v] > 0; };
  std::int64_t count = 0;
  for (std::int64_t v = 0; v < std::ssize(hot); ++v) count += is_read(v) ? 1 : 0;
  std::vector<std::int64_t> read;
  read.reserve(count);
  for (std::int64_t v = 0; v < std::ssize(hot); ++v)
    if (is_read(v)) read.push_back(v);
  const std::int64_t own = order.partition_offsets[partition + 1] - order.partition_offsets[partition];
  const std::int64_t most = ranked_rows(count, own);
  const auto hotter = [&](std::int64_t a, std::int64_t b) {
    return hot[a] != hot[b] ? hot[a] > hot[b] : a < b;
  };
  if (most < std::ssize(read)) std::nth_element(read.begin(), read.begin() + most, read.end(), hotter);
  read.resize(most);
  std::sort(read.begin(), read.end(), hotter);
  IdArray& ranked = order.remote_rows.emplace_back(make_id_array(most, std::ssize(hot)));
  std::visit(
      [&](auto& ids) {
        for (std::int64_t i = 0; i < most; ++i) ids[i] = static_cast<std::decay_t<decltype(ids[0])>>(read[i]);
      },
      ranked);
}

}  // namespace

std::vector<NodeOrder> order_nodes(const RawGraph& graph, std::span<const std::int32_t> partition_of,
                                   int partitions, const HotnessOptions& options, const Progress& progress) {
  const auto vip = [&](std::span<const std::int64_t> train,
                       const std::function<void(std::int64_t, std::int64_t)>& told) {
    HotnessOptions reported = options;
    reported.progress = told;
    return inclusion_probability(hotness_graph(graph, train), reported);
  };
  return order_nodes_by(graph, partition_of, partitions, vip, progress);
}

std::vector<NodeOrder> order_nodes_by_degree(const RawGraph& graph, const Progress& progress) {
  const auto degree = [&](std::span<const std::int64_t>,
                          const std::function<void(std::int64_t, std::int64_t)>& told) {
    std::vector<double> leaving(graph.num_nodes());
    std::int64_t done = 0;
    for (const RawEdges& type : graph.edges) {
      double* first = leaving.data() + graph.first_node(type.src_type);
      std::visit(
          [&](const auto& sources) {
            for (const auto u : sources) ++first[u];
          },
          type.csc.indices);
      told(done += type.csc.num_edges(), graph.num_edges());
    }
    return leaving;
  };
  return order_nodes_by(graph, {}, 1, degree, progress);
}

std::vector<NodeOrder> order_nodes_by(const RawGraph& graph, std::span<const std::int32_t> partition_of,
                                      int partitions, const HotnessOf& hotness_of, const Progress& progress) {
  const int num_types = static_cast<int>(graph.nodes.size());
  std::vector<NodeOrder> orders;
  for (int t = 0; t < num_types; ++t) {
    const std::int64_t count = graph.nodes[t].count;
    orders.push_back(group_by_partition(
        count, partition_of.empty() ? partition_of : partition_of.subspan(graph.first_node(t), count),
        partitions));
  }
  const std::vector<std::int64_t> train = graph.training_nodes();
  for (int p = 0; p < partitions; ++p) {
    const std::vector<std::int64_t> own = own_training_nodes(train, partition_of, p);
    const auto told = [&](std::int64_t done, std::int64_t total) {
      progress({"Computing hotness", "steps", static_cast<std::uint64_t>(p * total + done),
                static_cast<std::uint64_t>(partitions * total)});
    };
    const std::vector<double> hot = hotness_of(own, told);
    for (int t = 0; t < num_types; ++t) {
      const std::int64_t first = graph.first_node(t), count = graph.nodes[t].count;
      const auto of_type = std::span(hot).subspan(first, count);
      sort_partition(of_type, p, orders[t]);
      if (partitions > 1 && !graph.nodes[t].attrs.empty())
        rank_remote_rows(of_type, partition_of.subspan(first, count), p, orders[t]);
    }
  }
  for (NodeOrder& order : orders) {
    std::visit(
        [&](auto& new_ids) {
          for (std::int64_t i = 0; i < std::ssize(order.original); ++i)
            new_ids[order.original[i]] = static_cast<std::decay_t<decltype(new_ids[0])>>(i);
        },
        order.new_ids);
  }
  return orders;
}

}  // namespace hopfeed
