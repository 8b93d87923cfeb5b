// See typed_dataset.h. Everything here is the obvious serial way, so that it can serve as an oracle of the
// layout.
#include "tests/support/typed_dataset.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include "core/base/error.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/fingerprint.h"
#include "core/dataset/graph_view.h"
#include "core/dataset/halo_files.h"
#include "core/dataset/time_codes.h"
#include "tests/support/sharded_ids.h"

namespace hopfeed::testing {
namespace {

using Ints = std::vector<std::int64_t>;

/// Dataset ids of one node type in the order on disk.
struct TypedOrder {
  Ints original;              // [N] by dataset id
  Ints new_id;                // [N] by original id
  Ints partition_offsets{0};  // [P + 1]
};

TypedOrder order_nodes(std::int64_t count, const TypedCut& cut, std::size_t type) {
  Ints wanted(count);
  std::iota(wanted.begin(), wanted.end(), 0);
  if (type < cut.order.size() && !cut.order[type].empty()) wanted = cut.order[type];
  const bool dealt = type < cut.partition_of.size() && !cut.partition_of[type].empty();
  TypedOrder order;
  order.new_id.resize(count);
  for (int p = 0; p < cut.partitions; ++p) {
    for (std::int64_t v : wanted) {
      if ((dealt ? cut.partition_of[type][v] : 0) != p) continue;
      order.new_id[v] = std::ssize(order.original);
      order.original.push_back(v);
    }
    order.partition_offsets.push_back(std::ssize(order.original));
  }
  if (std::ssize(order.original) != count) throw Error(ErrorCode::kInvalid, "a cut that leaves nodes out");
  return order;
}

class Builder {
 public:
  Builder(const std::filesystem::path& folder, const TypedGraph& graph, const TypedCut& cut)
      : graph_(graph), cut_(cut), writer_(folder) {
    meta_.name = "typed";
    meta_.made_by = "tests/support/typed_dataset.cc";
    meta_.partitions = cut.partitions;
    meta_.cut.method = cut.partitions > 1 ? "random" : "none";
    for (std::size_t t = 0; t < graph.nodes.size(); ++t) {
      orders_.push_back(order_nodes(graph.nodes[t].count, cut, t));
      describe_nodes(t);
    }
    for (const TypedEdges& edges : graph.edges) describe_edges(edges);
  }

  void run() {
    for (std::size_t t = 0; t < graph_.nodes.size(); ++t) write_nodes(t);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      write_edges(e);
      for (const auto& [name, links] : graph_.edges[e].splits) write_links(e, name, links);
    }
    meta_.fingerprint = fingerprint_.finish(meta_);
    if (cut_.halos) write_halos(writer_, meta_, [](std::uint64_t, std::uint64_t) {});
    writer_.commit(meta_);
  }

 private:
  void describe_nodes(std::size_t t) {
    const TypedNodes& nodes = graph_.nodes[t];
    NodeTypeMeta node{.name = nodes.name,
                      .count = nodes.count,
                      .partition_offsets = orders_[t].partition_offsets,
                      .new_id_type = cut_.wide_ids ? ElementType::kInt64 : ElementType::kInt32,
                      .attrs = {},
                      .splits = {},
                      .num_classes = nodes.num_classes};
    const std::int64_t stride = (nodes.x_width * 4 + 15) / 16 * 16;
    if (nodes.x_width > 0)
      node.attrs.push_back(
          {.name = "x", .type = ElementType::kFloat32, .shape = {nodes.x_width}, .stride_bytes = stride});
    for (const auto& [name, values] : {std::pair{"y", &nodes.y}, std::pair{"time", &nodes.time}}) {
      if (!values->empty())
        node.attrs.push_back({.name = name, .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8});
    }
    for (const auto& [name, ids] : nodes.splits) node.splits[name] = std::ssize(ids);
    meta_.node_types.push_back(node);
  }

  void describe_edges(const TypedEdges& edges) {
    const ElementType ids = cut_.wide_ids ? ElementType::kInt64 : ElementType::kInt32;
    EdgeTypeMeta edge{.src = edges.src,
                      .rel = edges.rel,
                      .dst = edges.dst,
                      .count = std::ssize(edges.sources),
                      .partition_edges = Ints(cut_.partitions),
                      .index_type = ids,
                      .has_edge_ids = cut_.edge_ids,
                      .edge_id_type = ids,
                      .attrs = {},
                      .weights = {},
                      .times = {}};
    edge.has_by_id = cut_.by_id;
    if (!edges.weight.empty()) {
      edge.attrs.push_back({.name = "weight", .type = ElementType::kFloat64, .shape = {}, .stride_bytes = 8});
      edge.weights.push_back("weight");
    }
    if (!edges.time.empty())
      edge.attrs.push_back({.name = "time", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8});
    if (edges.in_order_of_time &&
        (!edges.time.empty() || !graph_.nodes[graph_.node_type(edges.src)].time.empty()))
      edge.times.push_back("time");
    edge.rev_of = edges.rev_of;
    for (const auto& [name, links] : edges.splits) edge.splits[name] = std::ssize(links.pairs) / 2;
    meta_.edge_types.push_back(edge);
  }

  void write_ids(const std::string& path, const Ints& ids) {
    if (cut_.wide_ids) return writer_.write<std::int64_t>(path, ids, {std::ssize(ids)});
    const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
    writer_.write<std::int32_t>(path, narrow, {std::ssize(ids)});
  }

  std::int64_t alias_words() const { return !cut_.alias_sources ? 2 : cut_.wide_ids ? 6 : 4; }
  void append_id(std::vector<std::uint32_t>& words, std::int64_t id) const {
    words.push_back(static_cast<std::uint32_t>(id));
    if (cut_.wide_ids) words.push_back(static_cast<std::uint32_t>(id >> 32));
  }

  // Rows by original id, written in dataset order and padded to the stride.
  template <class T>
  void write_attr(std::size_t t, int attr, const std::vector<T>& values) {
    const NodeTypeMeta& node = meta_.node_types[t];
    const std::int64_t width = node.attrs[attr].row_elements(),
                       padded = node.attrs[attr].stride_bytes / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t v = 0; v < node.count; ++v)
      fingerprint_.add_attr(static_cast<int>(t), v, attr,
                            std::as_bytes(std::span<const T>(values.data() + v * width, width)));
    for (int p = 0; p < meta_.partitions; ++p) {
      const std::int64_t begin = node.partition_offsets[p], rows = node.partition_offsets[p + 1] - begin;
      std::vector<T> out(rows * padded);
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(values.begin() + orders_[t].original[begin + i] * width, width, out.begin() + i * padded);
      writer_.write<T>(attr_path(p, node, node.attrs[attr].name), out, {rows, padded});
    }
  }

  void write_nodes(std::size_t t) {
    const TypedNodes& nodes = graph_.nodes[t];
    const NodeTypeMeta node = meta_.node_types[t];
    write_ids(new_ids_path(node), orders_[t].new_id);
    if (meta_.partitions > 1) write_ids(all_original_ids_path(node), orders_[t].original);
    for (const auto& [name, ids] : nodes.splits) {
      writer_.write<std::int64_t>(split_path(node, name), ids, {std::ssize(ids)});
      fingerprint_.add_split(static_cast<int>(t), name, ids);
    }
    int attr = 0;
    if (nodes.x_width > 0) write_attr(t, attr++, nodes.x);
    if (!nodes.y.empty()) write_attr(t, attr++, nodes.y);
    if (!nodes.time.empty()) write_attr(t, attr++, nodes.time);
    for (int p = 0; p < meta_.partitions; ++p) {
      const std::int64_t begin = node.partition_offsets[p], rows = node.partition_offsets[p + 1] - begin;
      std::vector<double> hotness(rows);  // any falling numbers
      for (std::int64_t i = 0; i < rows; ++i) hotness[i] = 1.0 / static_cast<double>(i + 1);
      writer_.write<double>(hotness_path(p, node), hotness, {rows});
      if (meta_.has_rows(node)) continue;
      const Ints originals(orders_[t].original.begin() + begin, orders_[t].original.begin() + begin + rows);
      writer_.write<std::int64_t>(original_ids_path(p, node), originals, {rows});
    }
  }

  // What the edges of one partition are, row by row.
  struct Part {
    std::vector<RowRecord> rows;
    Ints indices, edge_ids, time, times, time_indices;
    std::vector<double> weight;
    std::vector<std::uint32_t> alias, time_order, by_id;
    std::vector<std::int16_t> time_codes;
  };

  Ints kept(const Ints& bounds) const {
    Ints kept;
    for (std::size_t i = cut_.bounds_apart / 2; i < bounds.size(); i += cut_.bounds_apart)
      kept.push_back(bounds[i]);
    return kept;
  }

  /// Its own, or else of its source.
  std::int64_t time_of(const TypedEdges& edges, std::size_t i) const {
    if (!edges.time.empty()) return edges.time[i];
    return graph_.nodes[graph_.node_type(edges.src)].time[edges.sources[i]];
  }

  void write_edges(std::size_t e) {
    const TypedEdges& edges = graph_.edges[e];
    const int src = graph_.node_type(edges.src), dst = graph_.node_type(edges.dst);
    std::vector<Ints> in_edges(graph_.nodes[dst].count);  // edge ids rise, so imported order
    for (std::size_t i = 0; i < edges.destinations.size(); ++i)
      in_edges[edges.destinations[i]].push_back(static_cast<std::int64_t>(i));
    EdgeTypeMeta& edge = meta_.edge_types[e];
    Ints bounds;
    if (!edge.times.empty()) {
      for (std::size_t i = 0; i < edges.sources.size(); ++i) bounds.push_back(time_of(edges, i));
      bounds = kept(time_bounds(std::move(bounds)));
      for (const std::string& name : edge.times)
        writer_.write<std::int64_t>(time_bounds_path(edge, name), bounds, {std::ssize(bounds)});
    }
    for (int p = 0; p < meta_.partitions; ++p) {
      Part part;
      const Ints& offsets = orders_[dst].partition_offsets;
      for (std::int64_t i = offsets[p]; i < offsets[p + 1]; ++i) {
        const std::int64_t v = orders_[dst].original[i];
        add_row(e, v, in_edges[v], orders_[src], part);
        for (auto at = part.indices.end() - std::ssize(in_edges[v]); at != part.indices.end(); ++at) {
          const Ints& book = orders_[src].partition_offsets;
          meta_.cut.edges_cut += *at < book[p] || *at >= book[p + 1];
        }
      }
      part.rows.push_back({std::ssize(part.indices), -1});
      edge.partition_edges[p] = std::ssize(part.indices);
      for (const std::int64_t time : part.times) part.time_codes.push_back(time_code(bounds, time));
      write_part(p, edge, part);
    }
  }

  void write_links(std::size_t e, const std::string& name, const TypedLinks& links) {
    using enum Fingerprint::LinkArray;
    const EdgeTypeMeta& edge = meta_.edge_types[e];
    const std::int64_t count = edge.splits.at(name);
    const auto write = [&](Fingerprint::LinkArray array, const std::string& path, const Ints& numbers,
                           const Ints& shape) {
      if (array != kPairs && numbers.empty()) return;
      writer_.write<std::int64_t>(path, numbers, shape);
      fingerprint_.add_links(static_cast<int>(e), name, array,
                             XXH3_128bits(numbers.data(), numbers.size() * 8));
    };
    write(kPairs, link_pairs_path(edge, name), links.pairs, {count, 2});
    write(kLabels, link_labels_path(edge, name), links.labels, {count});
    write(kTimes, link_times_path(edge, name), links.times, {count});
  }

  void add_row(std::size_t e, std::int64_t v, const Ints& in_edges, const TypedOrder& src, Part& part) {
    const TypedEdges& edges = graph_.edges[e];
    const EdgeTypeMeta& meta = meta_.edge_types[e];
    const int type = static_cast<int>(e);
    part.rows.push_back({std::ssize(part.indices), v});
    Ints sources, times;
    std::vector<double> weights;
    for (std::int64_t i : in_edges) {
      sources.push_back(edges.sources[i]);
      part.indices.push_back(src.new_id[edges.sources[i]]);
      part.edge_ids.push_back(i);
      if (!edges.weight.empty()) weights.push_back(edges.weight[i]);
      if (!edges.time.empty()) times.push_back(edges.time[i]);
    }
    fingerprint_.add_row(type, v, sources, cut_.edge_ids ? in_edges : Ints{});
    std::vector<std::uint32_t> by_id(sources.size());
    std::iota(by_id.begin(), by_id.end(), 0U);
    std::stable_sort(by_id.begin(), by_id.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return sources[a] < sources[b]; });
    part.by_id.insert(part.by_id.end(), by_id.begin(), by_id.end());
    int attr = 0;
    if (!edges.weight.empty())
      fingerprint_.add_edge_attr(type, v, attr++, std::as_bytes(std::span<const double>(weights)));
    if (!edges.time.empty())
      fingerprint_.add_edge_attr(type, v, attr++, std::as_bytes(std::span<const std::int64_t>(times)));
    part.weight.insert(part.weight.end(), weights.begin(), weights.end());
    part.time.insert(part.time.end(), times.begin(), times.end());
    if (!meta.weights.empty()) {
      std::vector<AliasEntry> entries(weights.size());
      AliasBuilder().build(weights, entries);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        part.alias.insert(part.alias.end(), {entries[i].threshold, entries[i].alias});
        if (!cut_.alias_sources) continue;
        for (const std::size_t at : {i, std::size_t{entries[i].alias}})
          append_id(part.alias, src.new_id[sources[at]]);
      }
    }
    if (meta.times.empty()) return;
    if (edges.time.empty())
      for (const std::int64_t i : in_edges) times.push_back(time_of(edges, static_cast<std::size_t>(i)));
    std::vector<std::uint32_t> order(times.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return times[a] < times[b]; });
    for (std::uint32_t i : order) {
      part.time_order.push_back(i);
      part.times.push_back(times[i]);
      part.time_indices.push_back(src.new_id[sources[i]]);
    }
  }

  void write_part(int p, const EdgeTypeMeta& edge, const Part& part) {
    const std::int64_t count = std::ssize(part.indices);
    writer_.write<RowRecord>(rows_path(p, edge), part.rows, {std::ssize(part.rows)});
    write_ids(indices_path(p, edge), part.indices);
    if (cut_.edge_ids) write_ids(edge_ids_path(p, edge), part.edge_ids);
    if (edge.has_by_id) writer_.write<std::uint32_t>(by_id_path(p, edge), part.by_id, {count});
    for (const AttrMeta& attr : edge.attrs) {
      if (attr.name == "weight")
        writer_.write<double>(edge_attr_path(p, edge, attr.name), part.weight, {count, 1});
      else
        writer_.write<std::int64_t>(edge_attr_path(p, edge, attr.name), part.time, {count, 1});
    }
    for (const std::string& name : edge.weights)
      writer_.write<std::uint32_t>(alias_path(p, edge, name), part.alias, {count, alias_words()});
    for (const std::string& name : edge.times) {
      writer_.write<std::uint32_t>(time_order_path(p, edge, name), part.time_order, {count});
      writer_.write<std::int64_t>(times_path(p, edge, name), part.times, {count});
      writer_.write<std::int16_t>(time_codes_path(p, edge, name), part.time_codes, {count});
      write_ids(time_indices_path(p, edge, name), part.time_indices);
    }
  }

  const TypedGraph& graph_;
  const TypedCut& cut_;
  DatasetWriter writer_;
  DatasetMeta meta_;
  Fingerprint fingerprint_;
  std::vector<TypedOrder> orders_;
};

}  // namespace

int TypedGraph::node_type(const std::string& name) const {
  for (std::size_t t = 0; t < nodes.size(); ++t)
    if (nodes[t].name == name) return static_cast<int>(t);
  throw Error(ErrorCode::kInvalid, "a graph without node type " + name);
}

void write_typed_dataset(const std::filesystem::path& folder, const TypedGraph& graph, const TypedCut& cut) {
  std::filesystem::remove_all(folder);
  Builder(folder, graph, cut).run();
  if (cut.sharded_ids) shard_ids(folder);
}

TypedCut random_typed_cut(const TypedGraph& graph, int partitions, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TypedCut cut;
  cut.partitions = partitions;
  for (const TypedNodes& nodes : graph.nodes) {
    Ints& order = cut.order.emplace_back(nodes.count);
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = nodes.count - 1; i > 0; --i)
      std::swap(order[i], order[static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(i + 1))]);
    std::vector<int>& parts = cut.partition_of.emplace_back();
    for (std::int64_t v = 0; v < nodes.count; ++v)
      parts.push_back(static_cast<int>(random() % static_cast<std::uint64_t>(partitions)));
  }
  return cut;
}

TypedGraph random_typed_graph(const RandomTypedOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  TypedGraph graph;
  for (std::int64_t t = 0; t < options.node_types; ++t) {
    TypedNodes nodes{.name = "n" + std::to_string(t),
                     .count = 1 + below(options.max_nodes),
                     .x = {},
                     .x_width = below(4),
                     .y = {},
                     .time = {},
                     .num_classes = 3,
                     .splits = {}};
    for (std::int64_t v = 0; v < nodes.count; ++v) {
      for (std::int64_t i = 0; i < nodes.x_width; ++i)
        nodes.x.push_back(static_cast<float>(below(2'000)) / 128.0F);
      nodes.y.push_back(below(3));
      nodes.time.push_back(below(40) - 10);
      nodes.splits["train"].push_back(v);
    }
    graph.nodes.push_back(std::move(nodes));
  }
  for (std::int64_t e = 0; e < options.edge_types; ++e) {
    // The last node type has no in-edges where there is another.
    const auto src = below(options.node_types),
               dst = below(std::max<std::int64_t>(1, options.node_types - 1));
    TypedEdges edges{.src = graph.nodes[src].name,
                     .rel = "r" + std::to_string(e),
                     .dst = graph.nodes[dst].name,
                     .sources = {},
                     .destinations = {},
                     .weight = {},
                     .time = {}};
    const std::int64_t count = below(8 * graph.nodes[dst].count);
    const bool weighted = below(3) > 0, timed = below(2) > 0;
    for (std::int64_t i = 0; i < count; ++i) {
      edges.sources.push_back(below(graph.nodes[src].count));
      edges.destinations.push_back(
          below(1 + below(std::max<std::int64_t>(1, graph.nodes[dst].count * 9 / 10))));
      if (timed) edges.time.push_back(below(40) - 10);
      if (!weighted) continue;
      const double weights[] = {0, 1, 0.25, 1e-9, 1e6, static_cast<double>(1 + below(1'000)) / 7};
      edges.weight.push_back(edges.destinations.back() % 8 == 5 ? 0 : weights[below(6)]);
    }
    graph.edges.push_back(std::move(edges));
  }
  for (std::size_t e = 0; options.reverses && e < static_cast<std::size_t>(options.edge_types); ++e) {
    const TypedEdges& edges = graph.edges[e];
    if (edges.src == edges.dst) continue;
    graph.edges.push_back({.src = edges.dst,
                           .rel = "rev_" + edges.rel,
                           .dst = edges.src,
                           .sources = edges.destinations,
                           .destinations = edges.sources});
  }
  if (options.empty_type) {
    graph.nodes.push_back({.name = "none", .x_width = 8, .num_classes = 3});
    const std::string other = graph.nodes.front().name;
    graph.edges.push_back({.src = other, .rel = "to_none", .dst = "none"});
    graph.edges.push_back({.src = "none", .rel = "rev_to_none", .dst = other});
  }
  return graph;
}

}  // namespace hopfeed::testing
