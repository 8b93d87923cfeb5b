// See dataset_build.h. Arrays are written front to back in blocks; the threads share the rows of a block,
// each with a fingerprint of its own (contributions are added, so their order is free).
#include "partition_tool/dataset_build.h"

#include <algorithm>
#include <atomic>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "core/batch/nonfinite.h"
#include "core/dataset/fingerprint.h"
#include "core/dataset/id_ranges.h"
#include "core/dataset/node_keys.h"
#include "core/dataset/remote_id_files.h"
#include "partition_tool/edge_array_checks.h"
#include "partition_tool/edge_arrays.h"
#include "partition_tool/row_blocks.h"
#include "partition_tool/split_arrays.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kBlockBytes = 8 << 20;
constexpr std::int64_t kBlockEdges = 1 << 20;

/// Bytes of the large files that a dataset has in any case.
std::uint64_t least_bytes(const DatasetMeta& meta) {
  std::int64_t bytes = 0;
  const auto row_bytes = [](const std::vector<AttrMeta>& attrs) {
    std::int64_t sum = 0;
    for (const AttrMeta& attr : attrs) sum += attr.stride_bytes;
    return sum;
  };
  for (const NodeTypeMeta& node : meta.node_types)
    bytes +=
        node.count * (row_bytes(node.attrs) + static_cast<std::int64_t>(element_bytes(node.new_id_type)));
  for (const EdgeTypeMeta& edge : meta.edge_types)
    bytes +=
        edge.count * (row_bytes(edge.attrs) + static_cast<std::int64_t>(element_bytes(edge.index_type)) +
                      (edge.has_edge_ids ? static_cast<std::int64_t>(element_bytes(edge.edge_id_type)) : 0));
  return static_cast<std::uint64_t>(bytes);
}

/// One build: what its steps share.
class Builder {
 public:
  Builder(DatasetWriter& writer, const RawGraph& graph, std::span<const NodeOrder> orders,
          const DatasetBuildOptions& options, const Progress& progress)
      : writer_(writer),
        graph_(graph),
        orders_(orders),
        options_(options),
        progress_(progress),
        fingerprints_(std::max(1, options.threads)),
        edges_cut_(fingerprints_.size()) {}

  DatasetBuildResult run() {
    check_edge_arrays(graph_);
    describe();
    writer_.require_room(least_bytes(meta()));
    for (int t = 0; t < static_cast<int>(graph_.nodes.size()); ++t) {
      write_node_files(t);
      for (int a = 0; a < static_cast<int>(graph_.nodes[t].attrs.size()); ++a) write_attr(t, a);
    }
    for (int t = 0; t < static_cast<int>(graph_.edges.size()); ++t) write_edges(t);
    if (meta().sharded_ids)
      write_remote_ids(writer_, meta(), options_.threads, [this](std::uint64_t done, std::uint64_t total) {
        progress_({"Writing remote ids", "lists", done, total});
      });
    for (std::int64_t cut : edges_cut_) meta().cut.edges_cut += cut;
    for (std::size_t i = 1; i < fingerprints_.size(); ++i) fingerprints_[0].merge(fingerprints_[i]);
    meta().fingerprint = fingerprints_[0].finish(meta());
    return std::move(result_);
  }

 private:
  DatasetMeta& meta() { return result_.meta; }
  int partitions() const { return static_cast<int>(orders_[0].partition_offsets.size()) - 1; }
  SplitWriting splits() { return {writer_, graph_, orders_, meta(), fingerprints_[0]}; }

  void describe();
  NodeTypeMeta describe_nodes(int type) const;
  EdgeTypeMeta describe_edges(const RawEdges& edges) const;
  void write_node_files(int type);
  void write_ids(int type);
  void copy_keys(int type);
  void write_remote_rows(int type, int p);
  void write_attr(int type, int number);
  void note_nonfinite(const std::string& attr, std::int64_t count);
  void write_edges(int type);
  template <class Index, class EdgeId>
  void write_edge_part(int type, int p);
  template <class Index, class EdgeId>
  void fill_row(int worker, int type, int p, std::int64_t original, Index* indices, EdgeId* edge_ids,
                std::vector<std::int64_t>& sources, std::vector<std::int64_t>& ids);

  DatasetWriter& writer_;
  const RawGraph& graph_;
  const std::span<const NodeOrder> orders_;  // one per node type
  const DatasetBuildOptions& options_;
  const Progress& progress_;
  std::vector<Fingerprint> fingerprints_;  // one per thread
  std::vector<std::int64_t> edges_cut_;    // one per thread
  std::int64_t edges_done_ = 0;
  DatasetBuildResult result_;
};

template <class Attr>
std::vector<AttrMeta> described(const std::vector<Attr>& attrs) {
  std::vector<AttrMeta> list;
  for (const Attr& attr : attrs) {
    list.push_back({.name = attr.name, .type = attr.type, .shape = attr.shape});
    list.back().stride_bytes = row_stride(list.back().row_bytes());
  }
  return list;
}

NodeTypeMeta Builder::describe_nodes(int type) const {
  const RawNodes& nodes = graph_.nodes[type];
  NodeTypeMeta node{.name = nodes.name,
                    .count = nodes.count,
                    .partition_offsets = orders_[type].partition_offsets,
                    .new_id_type = id_type(orders_[type].new_ids),
                    .attrs = described(nodes.attrs),
                    .splits = {},
                    .num_classes = nodes.num_classes,
                    .keys = nodes.keys};
  for (const auto& [name, ids] : nodes.splits) node.splits[name] = std::ssize(ids);
  for (const IdArray& ranked : orders_[type].remote_rows)
    node.remote_rows.push_back(std::visit([](const auto& ids) { return std::ssize(ids); }, ranked));
  return node;
}

EdgeTypeMeta Builder::describe_edges(const RawEdges& edges) const {
  const bool wide = edges.csc.edge_id_kind == EdgeIds::kStored
                        ? id_type(edges.csc.edge_ids) == ElementType::kInt64
                        : edges.csc.num_edges() > std::int64_t{1} << 31;
  EdgeTypeMeta edge{.src = graph_.nodes[edges.src_type].name,
                    .rel = edges.rel,
                    .dst = graph_.nodes[edges.dst_type].name,
                    .count = edges.csc.num_edges(),
                    .partition_edges = std::vector<std::int64_t>(partitions()),
                    .index_type = id_type(orders_[edges.src_type].new_ids),
                    .has_edge_ids = edges.csc.stores_edge_ids(),
                    .edge_id_type = wide ? ElementType::kInt64 : ElementType::kInt32,
                    .attrs = described(edges.attrs),
                    .weights = edges.weights,
                    .times = edges.times,
                    .rev_of = edges.rev_of,
                    .splits = {}};
  for (const auto& [name, links] : edges.splits) edge.splits[name] = links.count;
  edge.has_by_id = edges.by_id;
  return edge;
}

void Builder::describe() {
  meta().name = graph_.name;
  meta().made_by = options_.made_by;
  meta().class_names = graph_.class_names;
  meta().partitions = partitions();
  meta().sharded_ids = options_.sharded_ids;
  meta().cut = options_.cut;
  for (int t = 0; t < static_cast<int>(graph_.nodes.size()); ++t)
    meta().node_types.push_back(describe_nodes(t));
  for (const RawEdges& edges : graph_.edges) meta().edge_types.push_back(describe_edges(edges));
}

void Builder::write_ids(int type) {
  const NodeTypeMeta& node = meta().node_types[type];
  const NodeOrder& order = orders_[type];
  std::visit(
      [&]<class Id>(const std::vector<Id>& new_ids) {
        const IdRanges ranges{.count = node.count, .partitions = partitions()};
        for (int p = 0; meta().sharded_ids && p < partitions(); ++p)
          writer_.write(new_ids_shard_path(p, node),
                        std::span<const Id>(new_ids).subspan(ranges.begin(p), ranges.size(p)),
                        {ranges.size(p)});
        if (meta().sharded_ids) return;
        writer_.write(new_ids_path(node), std::span<const Id>(new_ids), {node.count});
        if (partitions() == 1) return;
        // For machines that have some of the partitions: row records name the ids of their own alone.
        const std::vector<Id> ids(order.original.begin(), order.original.end());
        writer_.write(all_original_ids_path(node), std::span<const Id>(ids), {node.count});
      },
      order.new_ids);
}

void Builder::write_node_files(int type) {
  const NodeTypeMeta& node = meta().node_types[type];
  const NodeOrder& order = orders_[type];
  write_ids(type);
  if (node.has_keys()) copy_keys(type);
  write_splits(splits(), type);
  for (int p = 0; p < partitions(); ++p) {
    const std::int64_t begin = order.partition_offsets[p], rows = order.partition_offsets[p + 1] - begin;
    writer_.write(hotness_path(p, node), std::span(order.hotness).subspan(begin, rows), {rows});
    if (!meta().has_rows(node))
      writer_.write(original_ids_path(p, node), std::span(order.original).subspan(begin, rows), {rows});
    if (!order.remote_rows.empty()) write_remote_rows(type, p);
  }
}

void Builder::copy_keys(int type) {
  const NodeTypeMeta& node = meta().node_types[type];
  const NodeKeys keys(graph_.nodes[type].keys_of, node);
  if (node.keys.type == KeyType::kInt64) {
    writer_.write(keys_path(node), keys.numbers(), {node.count});
  } else if (node.keys.type == KeyType::kUuid) {
    writer_.write(keys_path(node), keys.all_bytes(), {node.count, kUuidBytes});
  } else {
    writer_.write(keys_path(node), keys.all_bytes(), {std::ssize(keys.all_bytes())});
    writer_.write(key_offsets_path(node), keys.offsets(), {node.count + 1});
  }
}

void Builder::write_remote_rows(int type, int p) {
  const NodeTypeMeta& node = meta().node_types[type];
  std::visit(
      [&](const auto& ranked) {
        using Id = std::decay_t<decltype(ranked[0])>;
        const auto& new_ids = std::get<std::vector<Id>>(orders_[type].new_ids);  // of the same width
        std::vector<Id> ids;
        for (const Id v : ranked) ids.push_back(new_ids[v]);
        writer_.write(remote_rows_path(p, node), std::span<const Id>(ids), {std::ssize(ids)});
      },
      orders_[type].remote_rows[p]);
}

void Builder::write_attr(int type, int number) {
  const RawAttr& attr = graph_.nodes[type].attrs[number];
  const NodeTypeMeta& node = meta().node_types[type];
  const NodeOrder& order = orders_[type];
  const AttrMeta& meta = node.attrs[number];
  const std::int64_t row_bytes = meta.row_bytes(), stride = meta.stride_bytes,
                     block_rows = std::max<std::int64_t>(1, kBlockBytes / stride);
  const std::string name = graph_.nodes.size() > 1 ? node.name + "/" + attr.name : attr.name,
                    step = "Writing attribute " + name;
  std::vector<std::byte> block;
  std::atomic<std::int64_t> nonfinite = 0;
  for (int p = 0; p < partitions(); ++p) {
    const std::int64_t part_begin = order.partition_offsets[p], part_end = order.partition_offsets[p + 1];
    const std::string path = attr_path(p, node, attr.name);
    NpyWriter file =
        writer_.open(path, npy_descr(attr.type),
                     {part_end - part_begin, stride / static_cast<std::int64_t>(element_bytes(attr.type))});
    for (std::int64_t first = part_begin; first < part_end; first += block_rows) {
      const std::int64_t rows = std::min(block_rows, part_end - first);
      block.assign(rows * stride, std::byte{0});
      parallel_ranges(options_.threads, rows, [&](int worker, std::int64_t begin, std::int64_t end) {
        std::int64_t bad = 0;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::span row(block.data() + i * stride, row_bytes);
          attr.read_row(order.original[first + i], row);
          bad += count_nonfinite(attr.type, row, row_bytes);
          fingerprints_[worker].add_attr(type, order.original[first + i], number, row);
        }
        nonfinite += bad;
      });
      file.write_bytes(block);
      progress_({step.c_str(), "rows", static_cast<std::uint64_t>(first + rows),
                 static_cast<std::uint64_t>(node.count)});
    }
    writer_.close(path, std::move(file));
  }
  note_nonfinite(name, nonfinite);
}

void Builder::note_nonfinite(const std::string& attr, std::int64_t count) {
  if (count > 0) result_.nonfinite[attr] = count;
  if (count > 0 && options_.reject_nonfinite) {
    throw Error(ErrorCode::kInvalid,
                "attribute " + attr + " has " + std::to_string(count) +
                    " values that are NaN or infinite; clean the input or leave out --reject-nonfinite");
  }
}

template <class Index, class EdgeId>
void Builder::fill_row(int worker, int type, int p, std::int64_t original, Index* indices, EdgeId* edge_ids,
                       std::vector<std::int64_t>& sources, std::vector<std::int64_t>& ids) {
  const Csc& csc = graph_.edges[type].csc;
  const NodeOrder& order = orders_[graph_.edges[type].src_type];
  const std::int64_t begin = csc.indptr[original], degree = csc.indptr[original + 1] - begin;
  const auto& new_ids = std::get<std::vector<Index>>(order.new_ids);
  csc.read_row(original, std::span(indices, degree));
  sources.assign(indices, indices + degree);
  const std::int64_t own_begin = order.partition_offsets[p], own_end = order.partition_offsets[p + 1];
  for (std::int64_t k = 0; k < degree; ++k) {
    indices[k] = new_ids[sources[k]];
    edges_cut_[worker] += indices[k] < own_begin || indices[k] >= own_end;
  }
  ids.clear();
  if (csc.stores_edge_ids()) {
    csc.read_edge_ids(original, ids);
    std::copy(ids.begin(), ids.end(), edge_ids);
  }
  fingerprints_[worker].add_row(type, original, sources, ids);
}

template <class Index, class EdgeId>
void Builder::write_edge_part(int type, int p) {
  const std::vector<std::int64_t>& indptr = graph_.edges[type].csc.indptr;
  const NodeOrder& order = orders_[graph_.edges[type].dst_type];
  EdgeTypeMeta& edge = meta().edge_types[type];
  const std::int64_t rows = order.partition_offsets[p + 1] - order.partition_offsets[p];
  std::int64_t num_edges = 0;
  for (std::int64_t i = order.partition_offsets[p]; i < order.partition_offsets[p + 1]; ++i)
    num_edges += indptr[order.original[i] + 1] - indptr[order.original[i]];
  edge.partition_edges[p] = num_edges;
  NpyWriter row_file = writer_.open(rows_path(p, edge), kRowRecordDescr, {rows + 1});
  NpyWriter index_file = writer_.open(indices_path(p, edge), npy_descr(edge.index_type), {num_edges});
  std::vector<NpyWriter> id_file;  // none or one
  if (edge.has_edge_ids)
    id_file.push_back(writer_.open(edge_ids_path(p, edge), npy_descr(edge.edge_id_type), {num_edges}));
  std::vector<Index> indices;
  std::vector<EdgeId> edge_ids;
  for_blocks_in_order(indptr, order, p, kBlockEdges, [&](const RowBlock& block) {
    indices.resize(block.num_edges());
    edge_ids.resize(edge.has_edge_ids ? block.num_edges() : 0);
    parallel_ranges(options_.threads, std::ssize(block.rows),
                    [&](int worker, std::int64_t begin, std::int64_t end) {
                      std::vector<std::int64_t> sources, ids;
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t at = block.rows[i].offset - block.first_edge;
                        fill_row(worker, type, p, block.rows[i].original_id, indices.data() + at,
                                 edge_ids.data() + (edge.has_edge_ids ? at : 0), sources, ids);
                      }
                    });
    row_file.write<RowRecord>(block.rows);
    index_file.write<Index>(indices);
    if (edge.has_edge_ids) id_file[0].write<EdgeId>(edge_ids);
    edges_done_ += block.num_edges();
    progress_({"Writing edges", "edges", static_cast<std::uint64_t>(edges_done_),
               static_cast<std::uint64_t>(graph_.num_edges())});
  });
  row_file.write_one(RowRecord{num_edges, -1});
  writer_.close(rows_path(p, edge), std::move(row_file));
  writer_.close(indices_path(p, edge), std::move(index_file));
  if (edge.has_edge_ids) writer_.close(edge_ids_path(p, edge), std::move(id_file[0]));
}

void Builder::write_edges(int type) {
  const EdgeTypeMeta& edge = meta().edge_types[type];
  const bool wide_index = edge.index_type == ElementType::kInt64,
             wide_id = edge.edge_id_type == ElementType::kInt64;
  for (int p = 0; p < partitions(); ++p) {
    if (wide_index)
      wide_id ? write_edge_part<std::int64_t, std::int64_t>(type, p)
              : write_edge_part<std::int64_t, std::int32_t>(type, p);
    else
      wide_id ? write_edge_part<std::int32_t, std::int64_t>(type, p)
              : write_edge_part<std::int32_t, std::int32_t>(type, p);
  }
  EdgeArrays(writer_, graph_, type, orders_, edge,
             {.threads = std::max(1, options_.threads), .progress = progress_})
      .write(fingerprints_,
             [&](const std::string& attr, std::int64_t count) { note_nonfinite(attr, count); });
  write_links(splits(), type, progress_);
}

}  // namespace

std::int64_t row_stride(std::int64_t row_bytes) {
  const std::int64_t padded = (row_bytes + 63) / 64 * 64;
  return row_bytes >= 64 && (padded - row_bytes) * 16 <= row_bytes ? padded : row_bytes;
}

DatasetBuildResult build_dataset(DatasetWriter& writer, const RawGraph& graph,
                                 std::span<const NodeOrder> orders, const DatasetBuildOptions& options,
                                 const Progress& progress) {
  return Builder(writer, graph, orders, options, progress).run();
}

}  // namespace hopfeed
