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
      for (auto* arrays : {&files.rows, &files.indices, &files.edge_ids, &files.by_id})
        arrays->emplace_back();
      files.by_id_parts.resize(edge.has_by_id ? files.by_id.size() : 0);
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
  for (const std::string& time : edge.times) {
    const NpyArray& bounds = files.time_bounds.emplace_back(open_array(time_bounds_path(edge, time)));
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
  files.rows.push_back(open_array(rows_path(partition, edge)));
  require_shape(files.rows.back(), {part.num_rows + 1});
  part.rows = files.rows.back().as<RowRecord>().data();
  if (part.rows[0].offset != 0 || part.rows[part.num_rows].offset != part.num_edges) {
    corrupt_file(files.rows.back().path(), fmt::format("its rows do not span 0 to {} edges", part.num_edges));
  }
  files.indices.push_back(open_array(indices_path(partition, edge)));
  files.indices.back().require_descr(npy_descr(edge.index_type));
  require_shape(files.indices.back(), {part.num_edges});
  part.indices = files.indices.back().bytes().data();
  if (edge.has_edge_ids) {
    files.edge_ids.push_back(open_array(edge_ids_path(partition, edge)));
    files.edge_ids.back().require_descr(npy_descr(edge.edge_id_type));
    require_shape(files.edge_ids.back(), {part.num_edges});
    part.edge_ids = files.edge_ids.back().bytes().data();
  }
  files.parts.push_back(part);
  files.partition_offsets.push_back(part.first_edge + part.num_edges);
  open_edge_extras(edge_type, partition, part.num_edges);
}

void Dataset::open_links(int edge_type) {
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
  files.attrs.resize(edge.attrs.size());
  files.attr_parts.resize(edge.attrs.size());
  for (std::size_t a = 0; a < edge.attrs.size(); ++a) {
    files.attrs[a].push_back(
        open_attr(edge_attr_path(p, edge, edge.attrs[a].name), edge.attrs[a], num_edges));
    files.attr_parts[a].push_back(files.attrs[a].back().bytes().data());
  }
  files.aliases.resize(edge.weights.size());
  files.alias_parts.resize(edge.weights.size());
  for (std::size_t w = 0; w < edge.weights.size(); ++w) {
    files.aliases[w].push_back(open_array(alias_path(p, edge, edge.weights[w])));
    const NpyArray& tables = files.aliases[w].back();
    const auto words = tables.as<std::uint32_t>();
    // Before version 7 entries came without sources.
    if (files.alias_bytes == 0)
      files.alias_bytes = tables.header().shape == std::vector<std::int64_t>{num_edges, 2}
                              ? sizeof(AliasEntry)
                              : alias_entry_bytes(element_bytes(edge.index_type));
    require_shape(tables, {num_edges, static_cast<std::int64_t>(files.alias_bytes / sizeof(std::uint32_t))});
    files.alias_parts[w].push_back(reinterpret_cast<const std::byte*>(words.data()));
  }
  if (edge.has_by_id) {
    files.by_id.push_back(open_array(by_id_path(p, edge)));
    files.by_id_parts.push_back(files.by_id.back().as<std::uint32_t>().data());
    require_shape(files.by_id.back(), {num_edges});
  }
  files.time_orders.resize(edge.times.size());
  files.time_order_parts.resize(edge.times.size());
  files.times.resize(edge.times.size());
  files.time_parts.resize(edge.times.size());
  files.time_codes.resize(edge.times.size());
  files.time_code_parts.resize(edge.times.size());
  files.time_indices.resize(edge.times.size());
  files.time_index_parts.resize(edge.times.size());
  for (std::size_t t = 0; t < edge.times.size(); ++t) {
    files.time_orders[t].push_back(open_array(time_order_path(p, edge, edge.times[t])));
    files.times[t].push_back(open_array(times_path(p, edge, edge.times[t])));
    require_shape(files.time_orders[t].back(), {num_edges});
    require_shape(files.times[t].back(), {num_edges});
    files.time_codes[t].push_back(open_array(time_codes_path(p, edge, edge.times[t])));
    require_shape(files.time_codes[t].back(), {num_edges});
    files.time_code_parts[t].push_back(files.time_codes[t].back().as<std::int16_t>().data());
    files.time_indices[t].push_back(open_array(time_indices_path(p, edge, edge.times[t])));
    files.time_indices[t].back().require_descr(npy_descr(edge.index_type));
    require_shape(files.time_indices[t].back(), {num_edges});
    files.time_index_parts[t].push_back(files.time_indices[t].back().bytes().data());
    files.time_order_parts[t].push_back(files.time_orders[t].back().as<std::uint32_t>().data());
    files.time_parts[t].push_back(files.times[t].back().as<std::int64_t>().data());
  }
}

// Keeps a place for a partition that is not opened in every list that has one for each.
void Dataset::skip_edge_extras(int edge_type) {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  EdgeFiles& files = edges_[edge_type];
  const auto skip = [](auto& lists, std::size_t count) {
    lists.resize(count);
    for (auto& list : lists) list.emplace_back();
  };
  skip(files.attrs, edge.attrs.size());
  skip(files.attr_parts, edge.attrs.size());
  skip(files.aliases, edge.weights.size());
  skip(files.alias_parts, edge.weights.size());
  for (auto* lists : {&files.time_orders, &files.times, &files.time_codes, &files.time_indices})
    skip(*lists, edge.times.size());
  skip(files.time_order_parts, edge.times.size());
  skip(files.time_parts, edge.times.size());
  skip(files.time_code_parts, edge.times.size());
  skip(files.time_index_parts, edge.times.size());
}

}  // namespace hopfeed
