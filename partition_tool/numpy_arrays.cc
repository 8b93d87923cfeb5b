// See numpy_arrays.h.
#include "partition_tool/numpy_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/field_names.h"
#include "core/dataset/dataset_meta.h"
#include "partition_tool/labels.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kInvalid, path.string() + ": " + what);
}

bool has_type(const NpyArray& array, ElementType type) { return array.header().descr == npy_descr(type); }

IdSpan ids_of(const NpyArray& array) {
  if (has_type(array, ElementType::kInt32)) return array.as<std::int32_t>();
  if (has_type(array, ElementType::kInt64)) return array.as<std::int64_t>();
  refuse(array.path(), "its element type is " + array.header().descr + "; node ids must be int32 or int64");
}

/// The type of an array that is kept as it is.
ElementType element_type_of_array(const NpyArray& array) {
  for (const ElementType type :
       {ElementType::kUint8, ElementType::kInt8, ElementType::kInt16, ElementType::kInt32,
        ElementType::kUint32, ElementType::kInt64, ElementType::kFloat16, ElementType::kFloat32,
        ElementType::kFloat64, ElementType::kBool}) {
    if (has_type(array, type)) return type;
  }
  refuse(array.path(), "its element type is " + array.header().descr + ", which attributes cannot have");
}

/// What attributes of nodes and edges have in common; `rows` is how many there must be, `owners` of what.
template <class Attr>
Attr kept_attr(const NamedFile& file, const NpyArray& array, std::int64_t rows, const char* owners) {
  const std::vector<std::int64_t>& shape = array.header().shape;
  if (shape.empty() || shape[0] != rows)
    refuse(file.path,
           fmt::format("it has {} rows, but there are {} {}", shape.empty() ? 0 : shape[0], rows, owners));
  Attr attr;
  attr.name = file.name;
  attr.type = element_type_of_array(array);
  attr.shape.assign(shape.begin() + 1, shape.end());
  const AttrMeta meta{.name = attr.name, .type = attr.type, .shape = attr.shape};
  if (meta.row_bytes() < 1 || meta.row_bytes() > kMaxRowBytes / 2)
    refuse(file.path,
           fmt::format("its rows have {} bytes (1 to {} can be stored)", meta.row_bytes(), kMaxRowBytes / 2));
  return attr;
}

template <class T>
std::vector<std::int64_t> label_values(const NpyArray& array, std::span<const T> items) {
  std::vector<std::int64_t> labels(items.size());
  for (std::size_t v = 0; v < items.size(); ++v) {
    const std::optional<std::int64_t> label = label_from(items[v]);
    if (!label) refuse(array.path(), fmt::format("entry {} is {}, which is no class number", v, items[v]));
    labels[v] = *label;
  }
  return labels;
}

}  // namespace

EdgeIndex open_edge_index(const fs::path& path) {
  EdgeIndex edges{.array = NpyArray(path), .source = {}, .destination = {}};
  const std::vector<std::int64_t>& shape = edges.array.header().shape;
  if (shape.size() != 2 || shape[0] != 2)
    refuse(path, "the edge index must have the shape [2, E]: row 0 source, row 1 destination");
  std::visit(
      [&](auto ids) {
        edges.source = ids.first(shape[1]);
        edges.destination = ids.last(shape[1]);
      },
      ids_of(edges.array));
  return edges;
}

std::int64_t largest_id(const IdSpan& ids) {
  return std::visit(
      [](auto items) {
        return items.empty() ? std::int64_t{-1} : std::int64_t{*std::max_element(items.begin(), items.end())};
      },
      ids);
}

std::shared_ptr<const NpyArray> open_rows(const fs::path& path, std::int64_t& rows) {
  auto array = std::make_shared<const NpyArray>(path);
  const std::int64_t found = array->header().shape.empty() ? 0 : array->header().shape[0];
  if (found == 0) refuse(path, "it has no rows; give one per node");
  if (rows == 0) rows = found;
  if (rows != found) refuse(path, fmt::format("it has {} rows, but there are {} nodes", found, rows));
  return array;
}

RawAttr feature_attr(std::shared_ptr<const NpyArray> array) {
  const std::vector<std::int64_t>& shape = array->header().shape;
  if (shape.size() != 2 || shape[1] < 1)
    refuse(array->path(), "features must have the shape [N, F] with at least one column");
  const std::int64_t width = shape[1];
  if (width > kMaxRowBytes / 8)
    refuse(array->path(),
           fmt::format("its rows of {} features are too wide (at most {})", width, kMaxRowBytes / 8));
  RawAttr attr{.name = "x", .type = ElementType::kFloat32, .shape = {width}, .read_row = {}};
  if (has_type(*array, ElementType::kFloat64)) {
    attr.read_row = [array, width](std::int64_t node, std::span<std::byte> row) {
      const std::span<const double> in = array->as<double>().subspan(node * width, width);
      for (std::int64_t f = 0; f < width; ++f) {
        const auto value =
            static_cast<float>(in[f]);  // to nearest, ties to even; too large becomes infinite; NaN stays NaN
        std::memcpy(row.data() + f * 4, &value, 4);
      }
    };
    return attr;
  }
  if (has_type(*array, ElementType::kFloat16))
    attr.type = ElementType::kFloat16;
  else if (!has_type(*array, ElementType::kFloat32))
    refuse(array->path(),
           "its element type is " + array->header().descr + "; features must be float16, float32 or float64");
  attr.read_row = [array](std::int64_t node, std::span<std::byte> row) {
    std::memcpy(row.data(), array->bytes().data() + node * row.size(), row.size());
  };
  return attr;
}

RawAttr node_attr(const NamedFile& file, std::shared_ptr<const NpyArray> array, std::int64_t num_nodes) {
  RawAttr attr = kept_attr<RawAttr>(file, *array, num_nodes, "nodes");
  attr.read_row = [array](std::int64_t node, std::span<std::byte> row) {
    std::memcpy(row.data(), array->bytes().data() + node * row.size(), row.size());
  };
  return attr;
}

RawEdgeAttr edge_attr(const NamedFile& file, std::int64_t num_edges) {
  const auto array = std::make_shared<const NpyArray>(file.path);
  RawEdgeAttr attr = kept_attr<RawEdgeAttr>(file, *array, num_edges, "edges");
  attr.read_rows = [array](std::int64_t, std::span<const std::int64_t> edge_ids, std::span<std::byte> rows) {
    if (edge_ids.empty()) return;
    const std::size_t row_bytes = rows.size() / edge_ids.size();
    for (std::size_t i = 0; i < edge_ids.size(); ++i)
      std::memcpy(rows.data() + i * row_bytes, array->bytes().data() + edge_ids[i] * row_bytes, row_bytes);
  };
  return attr;
}

void check_attr_names(std::vector<std::string> taken, const std::vector<NamedFile>& files, const char* what) {
  for (const NamedFile& file : files) {
    check_name(file.name, what);
    require_valid(!is_batch_field(file.name),
                  fmt::format("{} '{}' has the name of a field that batches have of their own; rename it",
                              what, file.name));
    if (std::ranges::find(taken, file.name) != taken.end() || file.name == "hotness" ||
        file.name == "original_ids")
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} '{}' has a name that is taken; choose another", what, file.name));
    taken.push_back(file.name);
  }
}

std::vector<std::int64_t> read_labels(const NpyArray& array, std::int64_t num_nodes) {
  if (array.header().count() != num_nodes) refuse(array.path(), "labels must have the shape [N] or [N, 1]");
  if (has_type(array, ElementType::kInt64)) return label_values(array, array.as<std::int64_t>());
  if (has_type(array, ElementType::kInt32)) return label_values(array, array.as<std::int32_t>());
  if (has_type(array, ElementType::kInt16)) return label_values(array, array.as<std::int16_t>());
  if (has_type(array, ElementType::kInt8)) return label_values(array, array.as<std::int8_t>());
  if (has_type(array, ElementType::kUint8)) return label_values(array, array.as<std::uint8_t>());
  if (has_type(array, ElementType::kFloat32)) return label_values(array, array.as<float>());
  if (has_type(array, ElementType::kFloat64)) return label_values(array, array.as<double>());
  refuse(array.path(),
         "its element type is " + array.header().descr + "; labels must be integers, float32 or float64");
}

std::vector<std::int64_t> read_split(const fs::path& path, std::int64_t num_nodes) {
  const NpyArray array(path);
  if (array.header().shape.size() != 1) refuse(path, "a split must have one dimension");
  std::vector<std::int64_t> ids;
  if (has_type(array, ElementType::kBool)) {
    if (array.header().count() != num_nodes)
      refuse(path, fmt::format("the mask has {} entries, but there are {} nodes", array.header().count(),
                               num_nodes));
    for (std::int64_t v = 0; v < num_nodes; ++v) {
      if (array.bytes()[v] != std::byte{0}) ids.push_back(v);
    }
    return ids;
  }
  std::visit([&](auto items) { ids.assign(items.begin(), items.end()); }, ids_of(array));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= num_nodes)
      refuse(path, fmt::format("entry {} is node {}, but there are {} nodes", i, ids[i], num_nodes));
  }
  return ids;
}

}  // namespace hopfeed
