// See dataset.h: opens the arrays of edges, of partitions and of halos.
#include <fmt/format.h>

#include "core/dataset/array_shape.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/dataset.h"
#include "core/dataset/time_codes.h"

namespace hopfeed {

void Dataset::open_edges(int edge_type) {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  EdgeFiles& files = edges_[edge_type];
  files.attrs.resize(edge.attrs.size());
  files.aliases.resize(edge.weights.size());
  files.times.resize(edge.times.size());
  const int dst = meta_.edge_dst_type(edge);
  const NodeTypeMeta& node = meta_.node_types[dst];
  for (int p = 0; p < meta_.partitions; ++p) {
    CscPart part;
    part.num_rows = node.partition_offsets[p + 1] - node.partition_offsets[p];
    part.num_edges = edge.partition_edges[p];
    part.first_edge = p == 0 ? 0 : files.parts.back().first_edge + files.parts.back().num_edges;
    if (!has_partition(p)) {
      files.parts.push_back(part);
      files.partition_offsets.push_back(part.first_edge + part.num_edges);
      files.rows.emplace_back();
      skip_edge_extras(edge_type);
      continue;
    }
    open_rows(edge_type, p, part);
  }
  for (const int p : halos_)
    open_rows(edge_type, halo_of(p),
              {.num_rows = node.halo_nodes[p],
               .num_edges = edge.halo_edges[p],
               .first_edge = files.partition_offsets.back()});
  if (edge_type_into_[dst] < 0) edge_type_into_[dst] = edge_type;
  for (std::size_t t = 0; t < edge.times.size(); ++t) {
    const NpyArray& bounds = files.times[t].bounds = open_array(time_bounds_path(edge, edge.times[t]));
    bounds.require_descr(npy_descr(ElementType::kInt64));
    const std::int64_t count = bounds.header().count();
    require_shape(bounds, {count});
    if (count > static_cast<std::int64_t>(kMaxTimeBounds))
      corrupt_file(bounds.path(), fmt::format("it has {} bounds, at most {} can be", count, kMaxTimeBounds));
  }
  open_links(edge_type);
}

void Dataset::open_rows(int edge_type, int partition, CscPart part) {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  EdgeFiles& files = edges_[edge_type];
  RowFiles& row_files = files.rows.emplace_back();
  row_files.rows = open_array(rows_path(partition, edge));
  require_shape(row_files.rows, {part.num_rows + 1});
  part.rows = row_files.rows.as<RowRecord>().data();
  if (part.rows[0].offset != 0 || part.rows[part.num_rows].offset != part.num_edges) {
    corrupt_file(row_files.rows.path(), fmt::format("its rows do not span 0 to {} edges", part.num_edges));
  }
  row_files.indices = open_array(indices_path(partition, edge));
  row_files.indices.require_descr(npy_descr(edge.index_type));
  require_shape(row_files.indices, {part.num_edges});
  part.indices = row_files.indices.bytes().data();
  if (edge.has_edge_ids) {
    row_files.edge_ids = open_array(edge_ids_path(partition, edge));
    row_files.edge_ids.require_descr(npy_descr(edge.edge_id_type));
    require_shape(row_files.edge_ids, {part.num_edges});
    part.edge_ids = row_files.edge_ids.bytes().data();
  }
  files.parts.push_back(part);
  files.partition_offsets.push_back(part.first_edge + part.num_edges);
  open_edge_extras(edge_type, partition, part.num_edges);
}

void Dataset::open_links(int edge_type) {
  if (meta_.sharded_ids) return open_link_shards(edge_type);
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const auto open = [&](const std::string& relative, const std::vector<std::int64_t>& shape) {
    NpyArray array = open_array(relative);
    array.require_descr(npy_descr(ElementType::kInt64));
    require_shape(array, shape);
    return array;
  };
  for (const auto& [name, count] : edge.splits) {
    LinkFiles& files = edges_[edge_type].splits.emplace_back();
    files.pairs = open(link_pairs_path(edge, name), {count, 2});
    if (const std::string path = link_labels_path(edge, name); meta_.files.contains(path))
      files.labels = open(path, {count});
    if (const std::string path = link_times_path(edge, name); meta_.files.contains(path))
      files.times = open(path, {count});
  }
}

void Dataset::open_edge_extras(int edge_type, int p, std::int64_t num_edges) {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  EdgeFiles& files = edges_[edge_type];
  for (std::size_t a = 0; a < edge.attrs.size(); ++a)
    files.attrs[a].add(open_attr(edge_attr_path(p, edge, edge.attrs[a].name), edge.attrs[a], num_edges));
  for (std::size_t w = 0; w < edge.weights.size(); ++w) {
    const NpyArray& tables = files.aliases[w].add(open_array(alias_path(p, edge, edge.weights[w])));
    tables.require_descr(npy_descr(ElementType::kUint32));
    // Before version 7 entries came without sources.
    if (files.alias_bytes == 0)
      files.alias_bytes = tables.header().shape == std::vector<std::int64_t>{num_edges, 2}
                              ? sizeof(AliasEntry)
                              : alias_entry_bytes(element_bytes(edge.index_type));
    require_shape(tables, {num_edges, static_cast<std::int64_t>(files.alias_bytes / sizeof(std::uint32_t))});
  }
  if (edge.has_by_id) require_shape(files.by_id.add(open_array(by_id_path(p, edge))), {num_edges});
  for (std::size_t t = 0; t < edge.times.size(); ++t) {
    const std::string& name = edge.times[t];
    TimeFiles& time = files.times[t];
    require_shape(time.orders.add(open_array(time_order_path(p, edge, name))), {num_edges});
    require_shape(time.times.add(open_array(times_path(p, edge, name))), {num_edges});
    require_shape(time.codes.add(open_array(time_codes_path(p, edge, name))), {num_edges});
    const NpyArray& indices = time.indices.add(open_array(time_indices_path(p, edge, name)));
    indices.require_descr(npy_descr(edge.index_type));
    require_shape(indices, {num_edges});
  }
}

// Keeps a place for a partition that is not opened in every list that has one for each.
void Dataset::skip_edge_extras(int edge_type) {
  EdgeFiles& files = edges_[edge_type];
  for (auto* lists : {&files.attrs, &files.aliases})
    for (PartFiles<std::byte>& list : *lists) list.skip();
  if (meta_.edge_types[edge_type].has_by_id) files.by_id.skip();
  for (TimeFiles& time : files.times)
    time.orders.skip(), time.times.skip(), time.codes.skip(), time.indices.skip();
}

}  // namespace hopfeed
