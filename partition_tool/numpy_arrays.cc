// See numpy_arrays.h.
#include "partition_tool/numpy_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/memory_limits.h"
#include "core/batch/field_names.h"
#include "core/dataset/dataset_meta.h"
#include "partition_tool/labels.h"

namespace hopfeed {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void refuse(const fs::path& path, const std::string& what) {
  throw Error(ErrorCode::kInvalid, path.string() + ": " + what);
}

void require_ids(const GivenArray& array) {
  if (!array.has_integers())
    refuse(array.path(), "its element type is " + array.descr() + "; node ids must be integers");
}

/// What attributes of nodes and edges have in common; `rows` is how many there must be, `owners` of what.
template <class Attr>
Attr kept_attr(const NamedArray& given, const GivenArray& array, std::int64_t rows, const char* owners) {
  const std::vector<std::int64_t>& shape = array.shape();
  if (shape.empty() || shape[0] != rows)
    refuse(given.source.path,
           fmt::format("it has {} rows, but there are {} {}", shape.empty() ? 0 : shape[0], rows, owners));
  if (shape.size() > 4)
    refuse(given.source.path,
           fmt::format("it has {} dimensions, and 4 can be stored, the {} among them", shape.size(), owners));
  Attr attr;
  attr.name = given.name;
  attr.origin = given.source.name();
  attr.type = array.type();
  attr.shape.assign(shape.begin() + 1, shape.end());
  const AttrMeta meta{.name = attr.name, .type = attr.type, .shape = attr.shape};
  if (meta.row_bytes() < 1 || meta.row_bytes() > kMaxRowBytes / 2)
    refuse(given.source.path,
           fmt::format("its rows have {} bytes (1 to {} can be stored)", meta.row_bytes(), kMaxRowBytes / 2));
  return attr;
}

template <class T>
std::vector<std::int64_t> label_values(const GivenArray& array, const std::vector<T>& items) {
  std::vector<std::int64_t> labels(items.size());
  for (std::size_t v = 0; v < items.size(); ++v) {
    const std::optional<std::int64_t> label = label_from(items[v]);
    if (!label) refuse(array.path(), fmt::format("entry {} is {}, which is no class number", v, items[v]));
    labels[v] = *label;
  }
  return labels;
}

/// All elements, of type T.
template <class T>
std::vector<T> values_of(const GivenArray& array) {
  std::vector<T> values(static_cast<std::size_t>(array.count()));
  array.read(0, std::span(values));
  return values;
}

std::vector<std::int64_t> integers_of(const GivenArray& array) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(array.count()));
  array.read_integers(0, values);
  return values;
}

/// Which dimension of an edge index tells sources from destinations.
enum class Ends { kInRows, kInColumns };

/// Calls take(edge, source, destination) for all edges.
template <class Take>
void for_edges(const GivenArray& array, Ends ends, const Take& take) {
  constexpr std::int64_t kTogether = 1 << 14;
  const std::int64_t count = array.count() / 2;
  std::vector<std::int64_t> block(2 * kTogether);
  for (std::int64_t first = 0; first < count; first += kTogether) {
    const std::int64_t some = std::min(kTogether, count - first);
    const std::span sources(block.data(), some), destinations(block.data() + some, some);
    if (ends == Ends::kInRows) {
      array.read_integers(first, sources);
      array.read_integers(count + first, destinations);
      for (std::int64_t i = 0; i < some; ++i) take(first + i, sources[i], destinations[i]);
    } else {
      array.read_integers(2 * first, std::span(block.data(), 2 * some));
      for (std::int64_t i = 0; i < some; ++i) take(first + i, block[2 * i], block[2 * i + 1]);
    }
  }
}

/// Copies of both rows, 32 bits wide where all ids fit.
void hold_edges(EdgeIndex& edges, Ends ends) {
  std::int64_t least = 0, most = 0;
  for_edges(*edges.array, ends, [&](std::int64_t, std::int64_t source, std::int64_t destination) {
    least = std::min({least, source, destination});
    most = std::max({most, source, destination});
  });
  const std::int64_t count = edges.array->count() / 2;
  const bool narrow = least >= INT32_MIN && most <= INT32_MAX;
  require_memory(
      2 * static_cast<std::uint64_t>(count) * (narrow ? 4 : 8), available_memory(),
      edges.array->path().string() + ", which is not int32 or int64 in two rows,",
      "save numpy.ascontiguousarray(index, dtype='<i8') of shape [2, E], which is read where it lies");
  const auto fill = [&]<class Id>(Id) {
    std::vector<Id> sources(count), destinations(count);
    for_edges(*edges.array, ends, [&](std::int64_t e, std::int64_t source, std::int64_t destination) {
      sources[e] = static_cast<Id>(source);
      destinations[e] = static_cast<Id>(destination);
    });
    edges.held_sources = std::move(sources);
    edges.held_destinations = std::move(destinations);
  };
  narrow ? fill(std::int32_t{}) : fill(std::int64_t{});
  edges.source = view(edges.held_sources);
  edges.destination = view(edges.held_destinations);
}

/// A vector's elements stay where they are when it is moved, and so does a mapping: so do the spans.
template <class T>
void show_edges(EdgeIndex& edges) {
  const std::span<const T> ids = edges.array->stored<T>();
  edges.source = ids.first(ids.size() / 2);
  edges.destination = ids.last(ids.size() / 2);
}

}  // namespace

EdgeIndex open_edge_index(const ArraySource& source) {
  const fs::path& path = source.path;
  EdgeIndex edges;
  edges.array = std::make_shared<const GivenArray>(source);
  const std::vector<std::int64_t>& shape = edges.array->shape();
  if (shape.size() != 2 || (shape[0] != 2 && shape[1] != 2))
    refuse(path,
           fmt::format("its shape is {}; the edge index must have the shape [2, E], row 0 source, row 1 "
                       "destination, or [E, 2]",
                       edges.array->shape_text()));
  require_ids(*edges.array);
  const Ends ends = shape[0] == 2 ? Ends::kInRows : Ends::kInColumns;
  if (ends == Ends::kInColumns)
    edges.note = fmt::format("{}: its shape is {}, read as [E, 2]: source and destination of each edge",
                             path.string(), edges.array->shape_text());
  const bool two_rows =
      (ends == Ends::kInRows) != edges.array->in_fortran_order();  // as they lie in the file
  const ElementType type = edges.array->type();
  const bool of_ids = type == ElementType::kInt32 || type == ElementType::kInt64;
  if (!two_rows || !of_ids || !edges.array->as_stored())
    hold_edges(edges, ends);
  else if (type == ElementType::kInt32)
    show_edges<std::int32_t>(edges);
  else
    show_edges<std::int64_t>(edges);
  return edges;
}

std::int64_t largest_id(const IdSpan& ids) {
  return std::visit(
      [](auto items) {
        return items.empty() ? std::int64_t{-1} : std::int64_t{*std::max_element(items.begin(), items.end())};
      },
      ids);
}

std::shared_ptr<const GivenArray> open_rows(const ArraySource& source, std::optional<std::int64_t>& rows) {
  const fs::path& path = source.path;
  auto array = std::make_shared<const GivenArray>(source);
  if (array->shape().empty()) refuse(path, "it is a single number; give a row for each node");
  const std::int64_t found = array->shape()[0];
  if (!rows) rows = found;
  if (*rows != found) refuse(path, fmt::format("it has {} rows, but there are {} nodes", found, *rows));
  return array;
}

RawAttr feature_attr(const std::shared_ptr<const GivenArray>& array) {
  const std::vector<std::int64_t>& shape = array->shape();
  if (shape.size() != 2 || shape[1] < 1)
    refuse(array->path(), "features must have the shape [N, F] with at least one column");
  const std::int64_t width = shape[1];
  if (width > kMaxRowBytes / 8)
    refuse(array->path(),
           fmt::format("its rows of {} features are too wide (at most {})", width, kMaxRowBytes / 8));
  RawAttr attr{.name = "x", .type = ElementType::kFloat32, .shape = {width}, .read_row = {}};
  attr.origin = array->path().string();
  if (array->type() == ElementType::kFloat64) {
    attr.read_row = [array, width](std::int64_t node, std::span<std::byte> row) {
      thread_local std::vector<double> in;
      in.resize(static_cast<std::size_t>(width));
      array->read(node * width, std::span(in));
      for (std::int64_t f = 0; f < width; ++f) {
        const auto value =
            static_cast<float>(in[f]);  // to nearest, ties to even; too large becomes infinite; NaN stays NaN
        std::memcpy(row.data() + f * 4, &value, 4);
      }
    };
    return attr;
  }
  if (array->type() == ElementType::kFloat16)
    attr.type = ElementType::kFloat16;
  else if (array->type() != ElementType::kFloat32)
    refuse(array->path(),
           "its element type is " + array->descr() + "; features must be float16, float32 or float64");
  attr.read_row = [array, width](std::int64_t node, std::span<std::byte> row) {
    array->read(node * width, row);
  };
  return attr;
}

RawAttr node_attr(const NamedArray& given, const std::shared_ptr<const GivenArray>& array,
                  std::int64_t num_nodes) {
  RawAttr attr = kept_attr<RawAttr>(given, *array, num_nodes, "nodes");
  attr.read_row = [array, width = array->count() / std::max<std::int64_t>(1, num_nodes)](
                      std::int64_t node, std::span<std::byte> row) { array->read(node * width, row); };
  return attr;
}

RawEdgeAttr edge_attr(const NamedArray& given, std::int64_t num_edges) {
  const auto array = std::make_shared<const GivenArray>(given.source);
  RawEdgeAttr attr = kept_attr<RawEdgeAttr>(given, *array, num_edges, "edges");
  attr.read_rows = [array, width = array->count() / std::max<std::int64_t>(1, num_edges)](
                       std::int64_t, std::span<const std::int64_t> edge_ids, std::span<std::byte> rows) {
    if (edge_ids.empty()) return;
    const std::size_t row_bytes = rows.size() / edge_ids.size();
    for (std::size_t i = 0; i < edge_ids.size(); ++i)
      array->read(edge_ids[i] * width, rows.subspan(i * row_bytes, row_bytes));
  };
  return attr;
}

void check_attr_names(std::vector<std::string> taken, const std::vector<NamedArray>& given,
                      const char* what) {
  for (const NamedArray& array : given) {
    check_name(array.name, what);
    require_valid(!is_batch_field(array.name),
                  fmt::format("{} '{}' has the name of a field that batches have of their own; rename it",
                              what, array.name));
    if (std::ranges::find(taken, array.name) != taken.end() || array.name == "hotness" ||
        array.name == "original_ids")
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} '{}' has a name that is taken; choose another", what, array.name));
    taken.push_back(array.name);
  }
}

std::vector<std::int64_t> read_labels(const GivenArray& array, std::int64_t num_nodes) {
  if (array.count() != num_nodes) refuse(array.path(), "labels must have the shape [N] or [N, 1]");
  if (array.has_integers()) return label_values(array, integers_of(array));
  if (array.type() == ElementType::kFloat32) return label_values(array, values_of<float>(array));
  if (array.type() == ElementType::kFloat64) return label_values(array, values_of<double>(array));
  refuse(array.path(),
         "its element type is " + array.descr() + "; labels must be integers, float32 or float64");
}

std::vector<std::int64_t> read_split(const ArraySource& source, std::int64_t num_nodes) {
  const fs::path& path = source.path;
  const GivenArray array(source);
  if (array.shape().size() != 1) refuse(path, "a split must have one dimension");
  std::vector<std::int64_t> ids;
  if (array.type() == ElementType::kBool) {
    if (array.count() != num_nodes)
      refuse(path, fmt::format("the mask has {} entries, but there are {} nodes", array.count(), num_nodes));
    const auto mask = array.stored<bool>();
    for (std::int64_t v = 0; v < num_nodes; ++v) {
      if (std::as_bytes(mask)[v] != std::byte{0}) ids.push_back(v);
    }
    return ids;
  }
  require_ids(array);
  ids = integers_of(array);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= num_nodes)
      refuse(path, fmt::format("entry {} is node {}, but there are {} nodes", i, ids[i], num_nodes));
  }
  return ids;
}

}  // namespace hopfeed
