// See dataset.h. Opening touches headers and a few records only (edges: dataset_edges.cc); verify
// (dataset_verify.cc) reads every byte.
#include "core/dataset/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/dataset/array_shape.h"
#include "core/dataset/corrupt_file.h"
#include "core/dataset/meta_file.h"

namespace hopfeed {
namespace {

const std::string& name_of(const std::string& name) { return name; }
const std::string& name_of(const AttrMeta& attr) { return attr.name; }

/// Where `name` is in the list; throws kNotFound: what is missing, and what there is.
template <class Item, class Missing>
std::size_t find(const std::vector<Item>& list, const std::string& name, Missing missing) {
  std::string known;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (name_of(list[i]) == name) return i;
    known += (i ? ", " : "") + name_of(list[i]);
  }
  throw Error(ErrorCode::kNotFound,
              fmt::format("{} '{}'; it has: {}", missing(), name, known.empty() ? "none" : known));
}

}  // namespace

Dataset::Dataset(const std::filesystem::path& folder, DatasetOptions options)
    : folder_(folder), options_(std::move(options)), meta_(read_meta(folder)) {
  choose_partitions();
  nodes_.resize(meta_.node_types.size());
  edges_.resize(meta_.edge_types.size());
  edge_type_into_.assign(meta_.node_types.size(), -1);
  for (int t = 0; t < num_node_types(); ++t) open_nodes(t);
  for (int t = 0; t < num_edge_types(); ++t) open_edges(t);
  if (meta_.sharded_ids)
    for (int t = 0; t < num_node_types(); ++t) find_own_ids(t);
}

NpyArray Dataset::open_array(const std::string& relative) const {
  const auto known = meta_.files.find(relative);
  if (known == meta_.files.end()) corrupt_file(folder_ / "meta.json", "'files' does not list " + relative);
  NpyArray array(folder_ / relative, options_.huge_pages);
  const std::uint64_t bytes = array.header().data_offset + array.bytes().size();
  if (bytes != known->second.bytes)
    corrupt_file(array.path(), fmt::format("it has {} bytes, meta.json says {}", bytes, known->second.bytes));
  return array;
}

NpyArray Dataset::open_attr(const std::string& relative, const AttrMeta& attr, std::int64_t rows) const {
  NpyArray array = open_array(relative);
  array.require_descr(npy_descr(attr.type));
  require_shape(array, {rows, attr.stride_bytes / static_cast<std::int64_t>(element_bytes(attr.type))});
  return array;
}

void Dataset::open_nodes(int node_type) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  NodeFiles& files = nodes_[node_type];
  open_ids(node_type);
  files.attrs.resize(node.attrs.size());
  for (int p = 0; p < meta_.partitions; ++p) {
    const std::int64_t rows = node.partition_offsets[p + 1] - node.partition_offsets[p];
    if (!has_partition(p)) {
      for (PartFiles<std::byte>& attr : files.attrs) attr.skip();
      for (auto* arrays : {&files.original_ids, &files.hotness, &files.remote_rows}) arrays->emplace_back();
      continue;
    }
    open_node_attrs(node_type, p, rows);
    if (!meta_.has_rows(node)) {
      files.original_ids.push_back(open_array(original_ids_path(p, node)));
      files.original_ids.back().require_descr(npy_descr(ElementType::kInt64));
      require_shape(files.original_ids.back(), {rows});
    }
    files.hotness.push_back(open_array(hotness_path(p, node)));
    files.hotness.back().require_descr(npy_descr(ElementType::kFloat64));
    require_shape(files.hotness.back(), {rows});
    if (node.remote_rows.empty()) continue;
    files.remote_rows.push_back(open_array(remote_rows_path(p, node)));
    files.remote_rows.back().require_descr(npy_descr(node.new_id_type));
    require_shape(files.remote_rows.back(), {node.remote_rows[p]});
  }
  files.offsets = node.partition_offsets;
  for (const int p : halos_) {
    const std::int64_t rows = node.halo_nodes[p];
    if (!meta_.sharded_ids) {
      files.halo_places.push_back(open_array(halo_places_path(p, node)));
      files.halo_places.back().require_descr(npy_descr(ElementType::kInt64));
      require_shape(files.halo_places.back(), halo_places_shape(node.count));
    }
    open_node_attrs(node_type, halo_of(p), rows);
    files.offsets.push_back(files.offsets.back() + rows);
  }
}

// `partition`, here and below, as the path functions take it: a partition, or a halo.
void Dataset::open_node_attrs(int node_type, int partition, std::int64_t rows) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  NodeFiles& files = nodes_[node_type];
  for (std::size_t a = 0; a < node.attrs.size(); ++a)
    files.attrs[a].add(open_attr(attr_path(partition, node, node.attrs[a].name), node.attrs[a], rows));
}

CscView Dataset::csc(int edge_type) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const int src = meta_.edge_src_type(edge), dst = meta_.edge_dst_type(edge);
  return {.parts = edges_[edge_type].parts,
          .partition_offsets = nodes_[dst].offsets,
          .num_src_nodes = meta_.node_types[src].count,
          .num_dst_nodes = meta_.node_types[dst].count,
          .num_edges = edge.count,
          .src_type = src,
          .dst_type = dst,
          .index_type = edge.index_type,
          .edge_id_type = edge.edge_id_type,
          .has_edge_ids = edge.has_edge_ids};
}

namespace {

AttrView view_of(const AttrMeta& attr, std::span<const std::byte* const> parts,
                 std::span<const std::int64_t> offsets) {
  return {.parts = parts,
          .partition_offsets = offsets,
          .type = attr.type,
          .row_bytes = attr.row_bytes(),
          .stride_bytes = attr.stride_bytes,
          .row_elements = attr.row_elements()};
}

}  // namespace

AttrView Dataset::attr(int node_type, const std::string& name) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  const std::size_t a = find(node.attrs, name, [&] {
    return fmt::format("node type '{}' of {} has no attribute", node.name, folder_.string());
  });
  return view_of(node.attrs[a], nodes_[node_type].attrs[a].parts, nodes_[node_type].offsets);
}

AttrView Dataset::edge_attr(int edge_type, const std::string& name) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const std::size_t a = find(edge.attrs, name, [&] {
    return fmt::format("edge type '{}' of {} has no attribute", edge.folder(), folder_.string());
  });
  return view_of(edge.attrs[a], edges_[edge_type].attrs[a].parts, edges_[edge_type].partition_offsets);
}

WeightView Dataset::weight(int edge_type, const std::string& name) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const std::size_t w = find(edge.weights, name, [&] {
    return fmt::format("edge type '{}' of {} has no alias tables for a weight", edge.folder(),
                       folder_.string());
  });
  return {.parts = edges_[edge_type].aliases[w].parts, .entry_bytes = edges_[edge_type].alias_bytes};
}

TimeView Dataset::time(int edge_type, const std::string& name) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const std::size_t t = find(edge.times, name, [&] {
    return fmt::format("edge type '{}' of {} has no rows in the order of a time", edge.folder(),
                       folder_.string());
  });
  const TimeFiles& files = edges_[edge_type].times[t];
  return {.bounds = files.bounds.as<std::int64_t>(),
          .codes = files.codes.parts,
          .order = files.orders.parts,
          .times = files.times.parts,
          .indices = files.indices.parts};
}

std::span<const std::int64_t> Dataset::split(int node_type, const std::string& name) const {
  const std::size_t number = split_number(node_type, name);
  return meta_.sharded_ids ? joined_split(node_type, number)
                           : nodes_[node_type].splits[number].as<std::int64_t>();
}

std::size_t Dataset::split_number(int node_type, const std::string& name) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  std::string known;
  std::size_t i = 0;
  for (const auto& [split, count] : node.splits) {
    if (split == name) return i;
    known += (i++ ? ", " : "") + split;
  }
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("node type '{}' of {} has no split '{}'; it has: {}, or give the nodes ({})", node.name,
                  folder_.string(), name,
                  known.empty() ? "none; import it with one (hopfeed-partition import numpy --train FILE)"
                                : fmt::format("{}; choose one of them ({})", known, marked("split")),
                  marked("seeds")));
}

LinkSplit Dataset::edge_split(int edge_type, const std::string& name) const {
  const std::size_t number = edge_split_number(edge_type, name);
  if (meta_.sharded_ids) return joined_links(edge_type, number);
  const LinkFiles& files = edges_[edge_type].splits[number];
  return {.pairs = numbers_or_none(files.pairs),
          .labels = numbers_or_none(files.labels),
          .times = numbers_or_none(files.times),
          .path = files.pairs.path()};
}

std::size_t Dataset::edge_split_number(int edge_type, const std::string& name) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  std::string known;
  std::size_t i = 0;
  for (const auto& [split, count] : edge.splits) {
    if (split == name) return i;
    known += (i++ ? ", " : "") + split;
  }
  throw Error(
      ErrorCode::kNotFound,
      fmt::format(
          "edge type '{}' of {} has no edge split '{}'; it has: {}", edge.folder(), folder_.string(), name,
          known.empty()
              ? fmt::format("none; make some with hopfeed-partition split-links, or give the links ({})",
                            marked("links"))
              : known));
}

std::span<const double> Dataset::hotness(int node_type, int partition) const {
  return nodes_[node_type].hotness[partition].as<double>();
}

RankedRows Dataset::remote_rows(int node_type, int partition) const {
  const std::vector<NpyArray>& files = nodes_[node_type].remote_rows;
  if (files.empty()) return {};
  return {.ids = files[partition].bytes().data(),
          .count = files[partition].header().count(),
          .type = meta_.node_types[node_type].new_id_type};
}

PageUse Dataset::page_use() const { return hopfeed::page_use(arrays()); }

std::vector<std::span<const std::byte>> Dataset::arrays() const {
  std::vector<std::span<const std::byte>> ranges;
  const auto add = [&](const std::vector<NpyArray>& arrays) {
    for (const NpyArray& array : arrays) ranges.push_back(array.bytes());
  };
  for (const NodeFiles& files : nodes_) {
    ranges.push_back(files.new_ids.bytes());
    add(files.new_ids_shards);
    for (const RemoteIdFiles& remote : files.remote_ids)
      for (const NpyArray* array : {&remote.entries, &remote.buckets}) ranges.push_back(array->bytes());
    for (const std::vector<NpyArray>& shards : files.split_shards) add(shards);
    add(files.halo_places);
    for (const PartFiles<std::byte>& attr : files.attrs) add(attr.files);
    add(files.splits);
    add(files.hotness);
    add(files.remote_rows);
    add(files.original_ids);
  }
  for (const EdgeFiles& files : edges_) {
    for (const auto array : {&RowFiles::rows, &RowFiles::indices, &RowFiles::edge_ids})
      for (const RowFiles& part : files.rows) ranges.push_back((part.*array).bytes());
    add(files.by_id.files);
    for (const TimeFiles& time : files.times) ranges.push_back(time.bounds.bytes());
    for (const auto* lists : {&files.attrs, &files.aliases})
      for (const PartFiles<std::byte>& list : *lists) add(list.files);
    for (const TimeFiles& time : files.times) add(time.orders.files);
    for (const TimeFiles& time : files.times) add(time.times.files);
    for (const TimeFiles& time : files.times) add(time.codes.files);
    for (const TimeFiles& time : files.times) add(time.indices.files);
    const auto add_links = [&](const LinkFiles& links) {
      for (const NpyArray* array : {&links.pairs, &links.labels, &links.times})
        ranges.push_back(array->bytes());
    };
    std::ranges::for_each(files.splits, add_links);
    for (const LinkShards& split : files.split_shards) std::ranges::for_each(split.shards, add_links);
  }
  return ranges;
}

}  // namespace hopfeed
