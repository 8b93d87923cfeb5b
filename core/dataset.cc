// See dataset.h. Opening touches headers and a few records only; verify (dataset_verify.cc) reads every byte.
#include "core/dataset.h"

#include <fmt/format.h>

#include <cerrno>

#include "core/error.h"
#include "core/limits.h"

namespace hopfeed {
namespace {

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorCode::kCorrupt, path.string() + ": " + what);
}

void require_shape(const NpyArray& array, const std::vector<std::int64_t>& shape) {
  if (array.header().shape != shape) {
    std::string expected, found;
    for (std::int64_t d : shape) expected += fmt::format("{},", d);
    for (std::int64_t d : array.header().shape) found += fmt::format("{},", d);
    corrupt(array.path(), fmt::format("its shape is ({}), meta.json asks for ({})", found, expected));
  }
}

}  // namespace

Dataset::Dataset(const std::filesystem::path& folder, DatasetOptions options)
    : folder_(folder), options_(options) {
  const std::filesystem::path meta_path = folder_ / "meta.json";
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(folder_, error);
  if (error && error.value() != ENOENT && error.value() != ENOTDIR)
    throw_errno("cannot open the dataset folder " + folder_.string(), error.value());
  if (!is_folder) throw Error(ErrorCode::kNotFound, "no dataset folder " + folder_.string());
  const bool has_meta = std::filesystem::exists(meta_path, error);
  if (error && error.value() != ENOENT) throw_errno("cannot open " + meta_path.string(), error.value());
  if (!has_meta) {
    throw Error(ErrorCode::kNotFound,
                folder_.string() +
                    " has no meta.json, so it is no hopfeed dataset; make one with hopfeed-partition import");
  }
  meta_ = parse_meta(read_text_file(meta_path, kMaxMetaBytes), meta_path.string());
  nodes_.resize(meta_.node_types.size());
  edges_.resize(meta_.edge_types.size());
  edge_type_into_.assign(meta_.node_types.size(), -1);
  for (int t = 0; t < num_node_types(); ++t) open_nodes(t);
  for (int t = 0; t < num_edge_types(); ++t) open_edges(t);
}

NpyArray Dataset::open_array(const std::string& relative) const {
  const auto known = meta_.files.find(relative);
  if (known == meta_.files.end()) corrupt(folder_ / "meta.json", "'files' does not list " + relative);
  NpyArray array(folder_ / relative, options_.huge_pages);
  const std::uint64_t bytes = array.header().data_offset + array.bytes().size();
  if (bytes != known->second.bytes)
    corrupt(array.path(), fmt::format("it has {} bytes, meta.json says {}", bytes, known->second.bytes));
  return array;
}

void Dataset::open_nodes(int node_type) {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  NodeFiles& files = nodes_[node_type];
  files.new_ids = open_array(new_ids_path(node));
  files.new_ids.require_descr(npy_descr(node.new_id_type));
  require_shape(files.new_ids, {node.count});
  for (const auto& [name, count] : node.splits) {
    files.splits.push_back(open_array(split_path(node, name)));
    files.splits.back().require_descr(npy_descr(ElementType::kInt64));
    require_shape(files.splits.back(), {count});
  }
  files.attrs.resize(node.attrs.size());
  files.attr_parts.resize(node.attrs.size());
  for (int p = 0; p < meta_.partitions; ++p) {
    const std::int64_t rows = node.partition_offsets[p + 1] - node.partition_offsets[p];
    for (std::size_t a = 0; a < node.attrs.size(); ++a) {
      const NodeAttrMeta& attr = node.attrs[a];
      NpyArray array = open_array(attr_path(p, node, attr.name));
      array.require_descr(npy_descr(attr.type));
      require_shape(array, {rows, attr.stride_bytes / static_cast<std::int64_t>(element_bytes(attr.type))});
      files.attr_parts[a].push_back(array.bytes().data());
      files.attrs[a].push_back(std::move(array));
    }
    files.hotness.push_back(open_array(hotness_path(p, node)));
    files.hotness.back().require_descr(npy_descr(ElementType::kFloat64));
    require_shape(files.hotness.back(), {rows});
  }
}

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
    files.rows.push_back(open_array(rows_path(p, edge)));
    require_shape(files.rows.back(), {part.num_rows + 1});
    part.rows = files.rows.back().as<RowRecord>().data();
    if (part.rows[0].offset != 0 || part.rows[part.num_rows].offset != part.num_edges) {
      corrupt(files.rows.back().path(), fmt::format("its rows do not span 0 to {} edges", part.num_edges));
    }
    files.indices.push_back(open_array(indices_path(p, edge)));
    files.indices.back().require_descr(npy_descr(edge.index_type));
    require_shape(files.indices.back(), {part.num_edges});
    part.indices = files.indices.back().bytes().data();
    if (edge.has_edge_ids) {
      files.edge_ids.push_back(open_array(edge_ids_path(p, edge)));
      files.edge_ids.back().require_descr(npy_descr(edge.edge_id_type));
      require_shape(files.edge_ids.back(), {part.num_edges});
      part.edge_ids = files.edge_ids.back().bytes().data();
    }
    files.parts.push_back(part);
  }
  if (edge_type_into_[dst] < 0) edge_type_into_[dst] = edge_type;
}

CscView Dataset::csc(int edge_type) const {
  const EdgeTypeMeta& edge = meta_.edge_types[edge_type];
  const int src = meta_.edge_src_type(edge), dst = meta_.edge_dst_type(edge);
  return {.parts = edges_[edge_type].parts,
          .partition_offsets = meta_.node_types[dst].partition_offsets,
          .num_src_nodes = meta_.node_types[src].count,
          .num_dst_nodes = meta_.node_types[dst].count,
          .num_edges = edge.count,
          .src_type = src,
          .dst_type = dst,
          .index_type = edge.index_type,
          .edge_id_type = edge.edge_id_type,
          .has_edge_ids = edge.has_edge_ids};
}

NodeAttrView Dataset::attr(int node_type, const std::string& name) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  std::string known;
  for (std::size_t a = 0; a < node.attrs.size(); ++a) {
    const NodeAttrMeta& attr = node.attrs[a];
    if (attr.name == name) {
      return {.parts = nodes_[node_type].attr_parts[a],
              .partition_offsets = node.partition_offsets,
              .type = attr.type,
              .row_bytes = attr.row_bytes(),
              .stride_bytes = attr.stride_bytes};
    }
    known += (a ? ", " : "") + attr.name;
  }
  throw Error(ErrorCode::kNotFound, fmt::format("node type '{}' of {} has no attribute '{}'; it has: {}",
                                                node.name, folder_.string(), name, known));
}

std::span<const std::int64_t> Dataset::split(int node_type, const std::string& name) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  std::string known;
  std::size_t i = 0;
  for (const auto& [split, count] : node.splits) {
    if (split == name) return nodes_[node_type].splits[i].as<std::int64_t>();
    known += (i++ ? ", " : "") + split;
  }
  throw Error(ErrorCode::kNotFound, fmt::format("node type '{}' of {} has no split '{}'; it has: {}",
                                                node.name, folder_.string(), name, known));
}

std::span<const double> Dataset::hotness(int node_type, int partition) const {
  return nodes_[node_type].hotness[partition].as<double>();
}

PageUse Dataset::page_use() const {
  std::vector<std::span<const std::byte>> ranges;
  const auto add = [&](const std::vector<NpyArray>& arrays) {
    for (const NpyArray& array : arrays) ranges.push_back(array.bytes());
  };
  for (const NodeFiles& files : nodes_) {
    ranges.push_back(files.new_ids.bytes());
    for (const std::vector<NpyArray>& attr : files.attrs) add(attr);
    add(files.splits);
    add(files.hotness);
  }
  for (const EdgeFiles& files : edges_) {
    add(files.rows);
    add(files.indices);
    add(files.edge_ids);
  }
  return hopfeed::page_use(ranges);
}

std::int64_t Dataset::dataset_id(int node_type, std::int64_t original_id) const {
  std::int64_t id = 0;
  dataset_ids(node_type, {&original_id, 1}, {&id, 1});
  return id;
}

void Dataset::dataset_ids(int node_type, std::span<const std::int64_t> original_ids,
                          std::span<std::int64_t> out) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  const NpyArray& array = nodes_[node_type].new_ids;
  const auto look_up = [&]<class Id>(const Id* ids) {
    for (std::int64_t original_id :
         original_ids) {  // checked first, so that all look-ups can be under way at once
      if (original_id < 0 || original_id >= node.count) {
        throw Error(ErrorCode::kInvalid,
                    fmt::format("node {} is out of range: node type '{}' of {} has {} nodes", original_id,
                                node.name, folder_.string(), node.count));
      }
      __builtin_prefetch(ids + original_id);
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = ids[original_ids[i]];
      if (out[i] < 0 || out[i] >= node.count)
        corrupt(array.path(), fmt::format("entry {} is {}, out of range", original_ids[i], out[i]));
    }
  };
  if (node.new_id_type == ElementType::kInt32)
    look_up(reinterpret_cast<const std::int32_t*>(array.bytes().data()));  // checked when it was opened
  else
    look_up(reinterpret_cast<const std::int64_t*>(array.bytes().data()));
}

std::int64_t Dataset::original_id(int node_type, std::int64_t dataset_id) const {
  const NodeTypeMeta& node = meta_.node_types[node_type];
  const int edge_type = edge_type_into_[node_type];
  if (edge_type < 0)
    throw Error(ErrorCode::kUnsupported,
                "no edge type ends at node type '" + node.name + "', so its original ids are not stored");
  const int p = partition_of(node.partition_offsets, dataset_id);
  return edges_[edge_type].parts[p].rows[dataset_id - node.partition_offsets[p]].original_id;
}

}  // namespace hopfeed
