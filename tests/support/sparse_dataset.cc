// See sparse_dataset.h.
#include "tests/support/sparse_dataset.h"

#include <algorithm>
#include <utility>

#include "core/dataset/alias_table.h"
#include "core/dataset/npy.h"
#include "core/dataset/row_record.h"
#include "core/dataset/time_codes.h"

namespace hopfeed::testing {
namespace {

namespace fs = std::filesystem;

const std::vector<std::int64_t> kBounds{0, 10, 20};

SparseFile of_edges(DatasetMeta& meta, const fs::path& folder, const std::string& path, ElementType type,
                    std::int64_t count, std::int64_t columns) {
  std::vector<std::int64_t> shape{count};
  if (columns > 0) shape.push_back(columns);
  return {meta,  folder,
          path,  npy_descr(type),
          shape, static_cast<std::size_t>(std::max<std::int64_t>(columns, 1)) * element_bytes(type)};
}

SparseFile of_nodes(DatasetMeta& meta, const fs::path& folder, const std::string& path, ElementType type,
                    const std::vector<std::int64_t>& shape) {
  const std::int64_t width = shape.size() > 1 ? shape[1] : 1;
  return {meta, folder, path, npy_descr(type), shape, static_cast<std::size_t>(width) * element_bytes(type)};
}

/// Twenty nodes in each third of the ids, some beside each other, those of the last beyond kBeyond. New ids
/// are the same numbers, dealt anew, so that a node and its row are in any two partitions.
void choose_nodes(SparseGraph& graph) {
  constexpr std::int64_t kThird = SparseGraph::kNodes / SparseGraph::kPartitions, kEach = 20,
                         kApart = 40'000'000;
  for (const std::int64_t first : {std::int64_t{0}, kThird + 7, 3 * kThird - kEach * kApart})
    for (std::int64_t i = 0; i < kEach; ++i)
      graph.nodes.push_back(first + (i % 4 == 3 ? (i - 1) * kApart + 1 : i * kApart));
  graph.nodes.back() = SparseGraph::kNodes - 1;
  const std::int64_t others = std::ssize(graph.nodes) - 1;
  graph.new_id[0] = 0;  // holes of the tables name it
  for (std::int64_t i = 0; i < others; ++i)
    graph.new_id[graph.nodes[static_cast<std::size_t>(1 + i)]] =
        graph.nodes[static_cast<std::size_t>(1 + (i * 7 + 3) % others)];
}

SparseGraph make_sparse_graph() {
  SparseGraph graph;
  choose_nodes(graph);
  std::int64_t edges = 0;
  for (std::size_t v = 1; v < graph.nodes.size(); ++v) {
    std::vector<SparseGraph::Edge>& row = graph.rows[graph.nodes[v]];
    for (std::size_t i = 0; i < v % 9; ++i)  // some have none
      row.push_back({.source = graph.nodes[(v * 5 + i * 13 + i * i) % graph.nodes.size()],
                     .id = SparseGraph::kEdges - ++edges,
                     .weight = static_cast<double>(i + 1),
                     .time = static_cast<std::int64_t>(5 * i)});
    if (graph.nodes[v] < SparseGraph::kBeyond) continue;
    graph.train.push_back(graph.nodes[v]);
    for (const SparseGraph::Edge& edge : row)
      graph.links.insert(graph.links.end(), {edge.source, graph.nodes[v]});
  }
  return graph;
}

NodeTypeMeta node_type_of(const SparseGraph& graph) {
  NodeTypeMeta node{
      .count = SparseGraph::kNodes,
      .partition_offsets = {},
      .new_id_type = ElementType::kInt64,
      .attrs = {{.name = "x", .shape = {SparseGraph::kWidth}, .stride_bytes = 4 * SparseGraph::kWidth},
                {.name = "y", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8},
                {.name = "t", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8}},
      .splits = {{"train", std::ssize(graph.train)}, {"valid", std::ssize(graph.train)}},
      .num_classes = SparseGraph::kClasses};
  for (std::int64_t p = 0; p <= SparseGraph::kPartitions; ++p)
    node.partition_offsets.push_back(SparseGraph::kNodes / SparseGraph::kPartitions * p);
  return node;
}

/// The files of the nodes in one partition. `real` is [dataset id] -> original id.
void write_nodes(DatasetMeta& meta, const fs::path& folder, int p, const NodeTypeMeta& node,
                 const std::map<std::int64_t, std::int64_t>& real) {
  const std::int64_t begin = node.partition_offsets[static_cast<std::size_t>(p)],
                     end = node.partition_offsets[static_cast<std::size_t>(p) + 1], count = end - begin;
  const auto open = [&](const std::string& path, ElementType type, std::int64_t columns) {
    return of_nodes(meta, folder, path, type, columns > 0 ? std::vector{count, columns} : std::vector{count});
  };
  SparseFile hotness = open(hotness_path(p, node), ElementType::kFloat64, 0),
             x = open(attr_path(p, node, "x"), ElementType::kFloat32, SparseGraph::kWidth),
             y = open(attr_path(p, node, "y"), ElementType::kInt64, 1),
             t = open(attr_path(p, node, "t"), ElementType::kInt64, 1);
  for (auto at = real.lower_bound(begin); at != real.lower_bound(end); ++at) {
    const auto& [id, original] = *at;
    for (std::int64_t k = 0; k < SparseGraph::kWidth; ++k)
      x.put(id - begin, SparseGraph::x_of(original, k), static_cast<std::size_t>(4 * k));
    y.put(id - begin, SparseGraph::y_of(original));
    t.put(id - begin, SparseGraph::kTime);
  }
}

/// The files of the edges into one partition; its rows end with the edges.
void write_rows(DatasetMeta& meta, const fs::path& folder, int p, const SparseGraph& graph,
                const std::map<std::int64_t, std::int64_t>& real) {
  const EdgeTypeMeta edge = meta.edge_types[0];
  const std::vector<std::int64_t>& offsets = meta.node_types[0].partition_offsets;
  const std::int64_t begin = offsets[static_cast<std::size_t>(p)],
                     end = offsets[static_cast<std::size_t>(p) + 1],
                     edges = edge.partition_edges[static_cast<std::size_t>(p)];
  SparseRows rows(meta, folder, p, edge, end - begin);
  std::vector<std::pair<std::int64_t, std::vector<SparseEdge>>> list;
  std::int64_t at = edges;
  for (auto node = real.lower_bound(begin); node != real.lower_bound(end); ++node) {
    auto& [row, stored] = list.emplace_back(node->first - begin, std::vector<SparseEdge>{});
    if (node->second == 0) continue;
    for (const SparseGraph::Edge& of : graph.rows.at(node->second))
      stored.push_back(
          {.source = graph.new_id.at(of.source), .id = of.id, .weight = of.weight, .time = of.time});
    at -= std::ssize(stored);
  }
  for (const auto& [row, stored] : list) {
    const bool hole = begin + row == 0;  // a row of a hole: without edges at offset 0
    if (!hole) rows.put(row, real.at(begin + row), at, stored);
    at += std::ssize(stored);
  }
  rows.put_record(end - begin, edges, -1);
}

}  // namespace

SparseFile::SparseFile(DatasetMeta& meta, const fs::path& folder, const std::string& relative,
                       const std::string& descr, const std::vector<std::int64_t>& shape,
                       std::size_t item_bytes)
    : item_bytes_(item_bytes) {
  fs::create_directories((folder / relative).parent_path());
  const std::string head = npy_head(descr, shape);
  std::ofstream(folder / relative, std::ios::binary) << head;
  const std::uint64_t bytes = head.size() + static_cast<std::uint64_t>(shape[0]) * item_bytes;
  fs::resize_file(folder / relative, bytes);
  meta.files[relative] = {.bytes = bytes, .xxh3 = 0};
  head_bytes_ = head.size();
  file_.open(folder / relative, std::ios::binary | std::ios::in | std::ios::out);
  file_.exceptions(std::ios::badbit | std::ios::failbit);
}

void SparseFile::write(std::int64_t at, std::size_t first, const void* bytes, std::size_t count) {
  file_.seekp(static_cast<std::streamoff>(head_bytes_ + static_cast<std::size_t>(at) * item_bytes_ + first));
  file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
}

EdgeTypeMeta sparse_edge_type(std::int64_t count, std::vector<std::int64_t> in_part) {
  return {.count = count,
          .partition_edges = std::move(in_part),
          .index_type = ElementType::kInt64,
          .has_edge_ids = true,
          .edge_id_type = ElementType::kInt64,
          .attrs = {{.name = "w", .type = ElementType::kFloat64, .shape = {}, .stride_bytes = 8},
                    {.name = "t", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8}},
          .weights = {"w"},
          .times = {"t"}};
}

void write_sparse_time_bounds(DatasetMeta& meta, const fs::path& folder, const EdgeTypeMeta& edge) {
  SparseFile file(meta, folder, time_bounds_path(edge, "t"), npy_descr(ElementType::kInt64),
                  {std::ssize(kBounds)}, 8);
  for (std::size_t i = 0; i < kBounds.size(); ++i) file.put(static_cast<std::int64_t>(i), kBounds[i]);
}

SparseRows::SparseRows(DatasetMeta& meta, const fs::path& folder, int partition, const EdgeTypeMeta& edge,
                       std::int64_t nodes)
    : edges_(edge.partition_edges[static_cast<std::size_t>(partition)]),
      rows_(meta, folder, rows_path(partition, edge), kRowRecordDescr, {nodes + 1}, sizeof(RowRecord)),
      indices_(of_edges(meta, folder, indices_path(partition, edge), ElementType::kInt64, edges_, 0)),
      edge_ids_(of_edges(meta, folder, edge_ids_path(partition, edge), ElementType::kInt64, edges_, 0)),
      weights_(
          of_edges(meta, folder, edge_attr_path(partition, edge, "w"), ElementType::kFloat64, edges_, 1)),
      edge_times_(
          of_edges(meta, folder, edge_attr_path(partition, edge, "t"), ElementType::kInt64, edges_, 1)),
      alias_(of_edges(meta, folder, alias_path(partition, edge, "w"), ElementType::kUint32, edges_, 6)),
      order_(of_edges(meta, folder, time_order_path(partition, edge, "t"), ElementType::kUint32, edges_, 0)),
      times_(of_edges(meta, folder, times_path(partition, edge, "t"), ElementType::kInt64, edges_, 0)),
      codes_(of_edges(meta, folder, time_codes_path(partition, edge, "t"), ElementType::kInt16, edges_, 0)),
      time_indices_(
          of_edges(meta, folder, time_indices_path(partition, edge, "t"), ElementType::kInt64, edges_, 0)) {}

void SparseRows::put(std::int64_t row, std::int64_t original_id, std::int64_t at,
                     std::span<const SparseEdge> edges) {
  put_record(row, at, original_id);
  // Where the next row is a hole, or the end, this one ends there all the same; a next row that is there is
  // written later.
  put_record(row + 1, at + std::ssize(edges), 0);
  std::vector<double> weights;
  for (const SparseEdge& edge : edges) weights.push_back(edge.weight);
  const std::vector<AliasEntry> table = edges.empty() ? std::vector<AliasEntry>{} : alias_table(weights);
  for (std::size_t i = 0; i < edges.size(); ++i, ++at) {
    const SparseEdge& edge = edges[i];
    indices_.put(at, edge.source);
    edge_ids_.put(at, edge.id);
    weights_.put(at, edge.weight);
    edge_times_.put(at, edge.time);
    alias_.put(at, table[i]);
    alias_.put(at, edge.source, 8);
    alias_.put(at, edges[table[i].alias].source, 16);
    order_.put(at, static_cast<std::uint32_t>(i));  // rows are in the order of time already
    times_.put(at, edge.time);
    codes_.put(at, time_code(kBounds, edge.time));
    time_indices_.put(at, edge.source);
  }
}

void SparseRows::put_record(std::int64_t row, std::int64_t at, std::int64_t original_id) {
  rows_.put(row, RowRecord{.offset = at, .original_id = original_id});
}

const SparseGraph& sparse_graph() {
  static const SparseGraph graph = make_sparse_graph();
  return graph;
}

void write_sparse_dataset(const fs::path& folder, const SparseGraph& graph) {
  DatasetMeta meta{
      .name = "sparse", .fingerprint = std::string(32, '0'), .made_by = "tests/support/sparse_dataset.cc"};
  meta.partitions = SparseGraph::kPartitions;
  meta.cut.method = "random";
  meta.node_types = {node_type_of(graph)};
  meta.edge_types = {sparse_edge_type(
      SparseGraph::kEdges,
      std::vector<std::int64_t>(SparseGraph::kPartitions, SparseGraph::kEdges / SparseGraph::kPartitions))};
  const NodeTypeMeta node = meta.node_types[0];
  std::map<std::int64_t, std::int64_t> real;
  const auto of_all = [&](const std::string& path) {
    return of_nodes(meta, folder, path, ElementType::kInt64, {SparseGraph::kNodes});
  };
  SparseFile new_ids = of_all(new_ids_path(node)), original_ids = of_all(all_original_ids_path(node));
  for (const auto& [original, id] : graph.new_id) {
    real[id] = original;
    new_ids.put(original, id);
    original_ids.put(id, original);
  }
  for (const auto& [name, count] : node.splits) {
    SparseFile split = of_nodes(meta, folder, split_path(node, name), ElementType::kInt64, {count});
    for (std::int64_t i = 0; i < count; ++i) split.put(i, graph.train[static_cast<std::size_t>(i)]);
  }
  EdgeTypeMeta& edge = meta.edge_types[0];
  edge.splits["train"] = std::ssize(graph.links) / 2;
  SparseFile pairs(meta, folder, link_pairs_path(edge, "train"), npy_descr(ElementType::kInt64),
                   {edge.splits["train"], 2}, 16);
  for (std::size_t i = 0; i < graph.links.size(); ++i)
    pairs.put(static_cast<std::int64_t>(i / 2), graph.links[i], 8 * (i % 2));
  write_sparse_time_bounds(meta, folder, edge);
  for (int p = 0; p < SparseGraph::kPartitions; ++p) {
    write_nodes(meta, folder, p, node, real);
    write_rows(meta, folder, p, graph, real);
  }
  std::ofstream(folder / "meta.json") << format_meta(meta);
}

}  // namespace hopfeed::testing
