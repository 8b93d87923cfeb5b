// See tiny_dataset.h. Everything here is the obvious serial way, so that it can serve as an oracle of the
// layout.
#include "tests/support/tiny_dataset.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/error.h"
#include "core/base/quantised_rows.h"
#include "core/dataset/dataset_writer.h"
#include "core/dataset/fingerprint.h"
#include "core/dataset/graph_view.h"
#include "core/dataset/halo_files.h"

namespace hopfeed::testing {
namespace {

/// Dataset ids in the order on disk: what lies where.
struct Order {
  std::vector<std::int64_t> original;           // [N] by dataset id
  std::vector<std::int64_t> new_id;             // [N] by original id
  std::vector<std::int64_t> partition_offsets;  // [P + 1]
};

Order order_nodes(const TinyGraph& graph, const TinyCut& cut) {
  std::vector<std::int64_t> wanted = cut.order;
  if (wanted.empty()) {
    wanted.resize(graph.num_nodes);
    std::iota(wanted.begin(), wanted.end(), 0);
  }
  Order order{.original = {}, .new_id = std::vector<std::int64_t>(graph.num_nodes), .partition_offsets = {0}};
  for (int p = 0; p < cut.partitions; ++p) {
    for (std::int64_t v : wanted) {
      if ((cut.partition_of.empty() ? 0 : cut.partition_of[v]) != p) continue;
      order.new_id[v] = static_cast<std::int64_t>(order.original.size());
      order.original.push_back(v);
    }
    order.partition_offsets.push_back(static_cast<std::int64_t>(order.original.size()));
  }
  if (std::ssize(order.original) != graph.num_nodes)
    throw Error(ErrorCode::kInvalid, "TinyCut leaves nodes out");
  return order;
}

void write_ids(DatasetWriter& writer, const std::string& path, const std::vector<std::int64_t>& ids,
               bool wide) {
  const std::vector<std::int64_t> shape{std::ssize(ids)};
  if (wide) return writer.write<std::int64_t>(path, ids, shape);
  const std::vector<std::int32_t> narrow(ids.begin(), ids.end());
  writer.write<std::int32_t>(path, narrow, shape);
}

/// What rows of x are stored as: bytes, where its type has a scale.
std::vector<std::uint8_t> quantised(const TinyGraph& graph) {
  std::vector<std::uint8_t> rows;
  for (std::int64_t v = 0; v < graph.num_nodes; ++v) {
    std::vector<std::byte> row(static_cast<std::size_t>(quantised_row_bytes(graph.x_type, graph.x_width)));
    quantise_row(graph.x_type, std::span(graph.x).subspan(v * graph.x_width, graph.x_width), row.data());
    for (const std::byte byte : row) rows.push_back(std::to_integer<std::uint8_t>(byte));
  }
  return rows;
}

/// Rows by original id, written in dataset order and padded to the stride.
template <class T>
void write_attr(DatasetWriter& writer, const DatasetMeta& meta, int attr, const std::vector<T>& values,
                const Order& order) {
  const NodeTypeMeta& node = meta.node_types[0];
  const std::int64_t width = node.attrs[attr].row_bytes() / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t padded = node.attrs[attr].stride_bytes / static_cast<std::int64_t>(sizeof(T));
  for (int p = 0; p < meta.partitions; ++p) {
    const std::int64_t begin = order.partition_offsets[p], rows = order.partition_offsets[p + 1] - begin;
    std::vector<T> out(rows * padded);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < width; ++k)
        out[i * padded + k] = values[order.original[begin + i] * width + k];
    }
    writer.write<T>(attr_path(p, node, node.attrs[attr].name), out, {rows, padded});
  }
}

DatasetMeta describe(const TinyGraph& graph, const TinyCut& cut, const Order& order) {
  NodeTypeMeta node{.name = "node",
                    .count = graph.num_nodes,
                    .partition_offsets = order.partition_offsets,
                    .new_id_type = cut.wide_ids ? ElementType::kInt64 : ElementType::kInt32,
                    .attrs = {},
                    .splits = {},
                    .num_classes = graph.num_classes};
  if (graph.x_width > 0) {
    AttrMeta& x =
        node.attrs.emplace_back(AttrMeta{.name = "x", .type = graph.x_type, .shape = {graph.x_width}});
    x.stride_bytes = has_scale(x.type) ? x.row_bytes() + 1 : (x.row_bytes() + 15) / 16 * 16;
  }
  if (!graph.y.empty())
    node.attrs.push_back({.name = "y", .type = ElementType::kInt64, .shape = {}, .stride_bytes = 8});
  for (const auto& [name, ids] : graph.splits) node.splits[name] = std::ssize(ids);
  EdgeTypeMeta edge{.src = "node",
                    .rel = "to",
                    .dst = "node",
                    .count = std::ssize(graph.src),
                    .partition_edges = std::vector<std::int64_t>(cut.partitions),
                    .index_type = node.new_id_type,
                    .has_edge_ids = cut.edge_ids,
                    .edge_id_type = node.new_id_type};
  DatasetMeta meta;
  meta.name = "tiny";
  meta.made_by = "tests/support/tiny_dataset.cc";
  meta.partitions = cut.partitions;
  meta.cut.method = cut.partitions > 1 ? "random" : "none";
  meta.node_types = {node};
  meta.edge_types = {edge};
  return meta;
}

void write_edges(DatasetWriter& writer, DatasetMeta& meta, const TinyGraph& graph, const TinyCut& cut,
                 const Order& order, Fingerprint& fingerprint) {
  std::vector<std::vector<std::int64_t>> in_edges(
      graph.num_nodes);  // by original id; edge ids rise, so imported order
  for (std::size_t e = 0; e < graph.src.size(); ++e)
    in_edges[graph.dst[e]].push_back(static_cast<std::int64_t>(e));
  EdgeTypeMeta& edge = meta.edge_types[0];
  for (int p = 0; p < meta.partitions; ++p) {
    std::vector<RowRecord> rows;
    std::vector<std::int64_t> indices, edge_ids;
    for (std::int64_t i = order.partition_offsets[p]; i < order.partition_offsets[p + 1]; ++i) {
      const std::int64_t v = order.original[i];
      rows.push_back({std::ssize(indices), v});
      std::vector<std::int64_t> sources;
      for (std::int64_t e : in_edges[v]) {
        sources.push_back(graph.src[e]);
        indices.push_back(order.new_id[graph.src[e]]);
        edge_ids.push_back(e);
        if (order.new_id[graph.src[e]] < order.partition_offsets[p] ||
            order.new_id[graph.src[e]] >= order.partition_offsets[p + 1])
          ++meta.cut.edges_cut;
      }
      if (!sources.empty()) {
        fingerprint.add_row(0, v, sources, cut.edge_ids ? in_edges[v] : std::vector<std::int64_t>{});
      }
    }
    rows.push_back({std::ssize(indices), -1});
    edge.partition_edges[p] = std::ssize(indices);
    writer.write<RowRecord>(rows_path(p, edge), rows, {std::ssize(rows)});
    write_ids(writer, indices_path(p, edge), indices, cut.wide_ids);
    if (cut.edge_ids) write_ids(writer, edge_ids_path(p, edge), edge_ids, cut.wide_ids);
  }
}

template <class T>
void add_attr(Fingerprint& fingerprint, int attr, const std::vector<T>& values, std::int64_t width) {
  const std::int64_t rows = width ? std::ssize(values) / width : 0;
  for (std::int64_t v = 0; v < rows; ++v) {
    fingerprint.add_attr(0, v, attr, std::as_bytes(std::span<const T>(values.data() + v * width, width)));
  }
}

}  // namespace

void write_tiny_dataset(const std::filesystem::path& folder, const TinyGraph& graph, const TinyCut& cut) {
  const Order order = order_nodes(graph, cut);
  DatasetMeta meta = describe(graph, cut, order);
  const NodeTypeMeta node = meta.node_types[0];
  std::filesystem::remove_all(folder);
  DatasetWriter writer(folder);
  Fingerprint fingerprint;
  write_ids(writer, new_ids_path(node), order.new_id, cut.wide_ids);
  if (meta.partitions > 1) write_ids(writer, all_original_ids_path(node), order.original, cut.wide_ids);
  for (const auto& [name, ids] : graph.splits) {
    writer.write<std::int64_t>(split_path(node, name), ids, {std::ssize(ids)});
    fingerprint.add_split(0, name, ids);
  }
  write_edges(writer, meta, graph, cut, order, fingerprint);
  int attr = 0;
  if (graph.x_width > 0 && has_scale(graph.x_type)) {
    const std::vector<std::uint8_t> rows = quantised(graph);
    add_attr(fingerprint, attr, rows, node.attrs[0].row_bytes());
    write_attr(writer, meta, attr++, rows, order);
  } else if (graph.x_width > 0) {
    add_attr(fingerprint, attr, graph.x, graph.x_width);
    write_attr(writer, meta, attr++, graph.x, order);
  }
  if (!graph.y.empty()) {
    add_attr(fingerprint, attr, graph.y, 1);
    write_attr(writer, meta, attr++, graph.y, order);
  }
  for (int p = 0; p < cut.partitions; ++p) {  // any falling numbers
    const std::int64_t rows = order.partition_offsets[p + 1] - order.partition_offsets[p];
    std::vector<double> hotness(rows);
    for (std::int64_t i = 0; i < rows; ++i) hotness[i] = 1.0 / static_cast<double>(i + 1);
    writer.write<double>(hotness_path(p, node), hotness, {rows});
  }
  meta.fingerprint = fingerprint.finish(meta);
  if (cut.halos) write_halos(writer, meta, [](std::uint64_t, std::uint64_t) {});
  writer.commit(meta);
}

TinyGraph random_graph(const RandomGraphOptions& options) {
  std::mt19937_64 random(options.seed);
  auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  TinyGraph graph{.num_nodes = options.num_nodes,
                  .src = {},
                  .dst = {},
                  .x = {},
                  .x_width = options.x_width,
                  .y = {},
                  .num_classes = 4,
                  .splits = {}};
  for (std::int64_t e = 0; e < options.num_edges; ++e) {
    graph.src.push_back(below(options.num_nodes));
    // The product of two draws makes low ids hubs; the last tenth of the nodes keeps no in-edges.
    graph.dst.push_back(below(1 + below(std::max<std::int64_t>(1, options.num_nodes * 9 / 10))));
  }
  for (std::int64_t i = 0; i < options.num_nodes * options.x_width; ++i) {
    graph.x.push_back(static_cast<float>(below(2'000) - 1'000) / 256.0F);
  }
  for (std::int64_t v = 0; v < options.num_nodes; ++v) graph.y.push_back(below(4));
  std::vector<std::int64_t> ids(options.num_nodes);
  std::iota(ids.begin(), ids.end(), 0);
  for (std::int64_t i = options.num_nodes - 1; i > 0; --i) std::swap(ids[i], ids[below(i + 1)]);
  graph.splits["train"].assign(ids.begin(), ids.begin() + options.num_train);
  graph.splits["valid"].assign(ids.begin() + options.num_train, ids.end());
  return graph;
}

TinyGraph ring_graph(std::int64_t num_nodes) {
  TinyGraph graph;
  graph.num_nodes = num_nodes;
  for (std::int64_t v = 0; v < num_nodes; ++v) {
    for (std::int64_t u : {(v + num_nodes - 1) % num_nodes, (v + 1) % num_nodes}) {
      graph.src.push_back(u);
      graph.dst.push_back(v);
    }
    graph.splits["train"].push_back(v);
  }
  return graph;
}

TinyGraph in_float32(TinyGraph graph) {
  const std::vector<std::uint8_t> rows = quantised(graph);
  const QuantisedRows stored{.type = graph.x_type,
                             .elements = graph.x_width,
                             .stride_bytes = quantised_row_bytes(graph.x_type, graph.x_width),
                             .count = graph.num_nodes,
                             .rows = std::as_bytes(std::span(rows)).data()};
  dequantise(stored, graph.x.data());
  graph.x_type = ElementType::kFloat32;
  return graph;
}

TinyGraph labelled_ring() {
  TinyGraph graph = ring_graph(6);
  graph.x_width = 3;
  for (int i = 0; i < 18; ++i) graph.x.push_back(static_cast<float>(i) / 2);
  graph.y = {0, 1, 2, 0, 1, -1};
  graph.num_classes = 3;
  graph.splits = {{"train", {4, 1, 0}}, {"valid", {2, 5}}};
  return graph;
}

TinyCut random_cut(const TinyGraph& graph, int partitions, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TinyCut cut;
  cut.partitions = partitions;
  cut.order.resize(graph.num_nodes);
  std::iota(cut.order.begin(), cut.order.end(), 0);
  for (std::int64_t i = graph.num_nodes - 1; i > 0; --i) {
    std::swap(cut.order[i],
              cut.order[static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(i + 1))]);
  }
  for (std::int64_t v = 0; v < graph.num_nodes; ++v) {
    cut.partition_of.push_back(static_cast<int>(random() % static_cast<std::uint64_t>(partitions)));
  }
  return cut;
}

TempFolder::TempFolder() {
  std::string path = (std::filesystem::temp_directory_path() / "hopfeed-test-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw_errno("cannot make " + path, errno);
  path_ = path;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace hopfeed::testing
