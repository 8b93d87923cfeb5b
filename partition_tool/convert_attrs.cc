// See convert_attrs.h.
#include "partition_tool/convert_attrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/half_floats.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

using Convert = void (*)(const std::byte* from, std::size_t elements, std::byte* to);

template <class From, class To, To (*convert)(From)>
void convert_each(const std::byte* from, std::size_t elements, std::byte* to) {
  for (std::size_t i = 0; i < elements; ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    const To other = convert(value);
    std::memcpy(to + i * sizeof other, &other, sizeof other);
  }
}

/// Null: not from this type to that.
Convert conversion(ElementType from, ElementType to) {
  constexpr auto f16 = ElementType::kFloat16, bf16 = ElementType::kBfloat16, f32 = ElementType::kFloat32;
  if (from == f32 && to == f16) return convert_each<float, std::uint16_t, float16_from>;
  if (from == f32 && to == bf16) return convert_each<float, std::uint16_t, bfloat16_from>;
  if (from == f16 && to == f32) return convert_each<std::uint16_t, float, from_float16>;
  if (from == bf16 && to == f32) return convert_each<std::uint16_t, float, from_bfloat16>;
  return nullptr;
}

Convert conversion_of(const std::string& name, const std::string& whose, ElementType from, ElementType to) {
  const Convert convert = conversion(from, to);
  require_valid(convert != nullptr,
                fmt::format("attribute '{}' of {} is {} and cannot become {}; float32 can become float16 or "
                            "bfloat16, and these float32",
                            name, whose, to_string(from), to_string(to)));
  return convert;
}

void convert_nodes(RawNodes& nodes, const ConvertOptions& options, std::vector<ConvertedAttr>& done) {
  for (RawAttr& attr : nodes.attrs) {
    const auto wanted = options.attrs.find(attr.name);
    if (wanted == options.attrs.end()) continue;
    const Convert convert =
        conversion_of(attr.name, fmt::format("node type '{}'", nodes.name), attr.type, wanted->second);
    const std::size_t width = element_bytes(attr.type);
    done.push_back({.whose = nodes.name, .name = attr.name, .before = attr.type, .after = wanted->second});
    const std::size_t after = element_bytes(wanted->second);
    attr.type = wanted->second;
    attr.read_row = [read = std::move(attr.read_row), convert, width, after](std::int64_t node,
                                                                             std::span<std::byte> row) {
      static thread_local std::vector<std::byte> stored;
      const std::size_t elements = row.size() / after;
      stored.resize(elements * width);
      read(node, stored);
      convert(stored.data(), elements, row.data());
    };
  }
}

void convert_edges(RawEdges& edges, const std::string& whose, const ConvertOptions& options,
                   std::vector<ConvertedAttr>& done) {
  for (RawEdgeAttr& attr : edges.attrs) {
    const auto wanted = options.attrs.find(attr.name);
    if (wanted == options.attrs.end()) continue;
    const std::string of = fmt::format("edge type '{}'", whose);
    require_valid(std::ranges::find(edges.weights, attr.name) == edges.weights.end(),
                  fmt::format("attribute '{}' of {} is a weight that edges are drawn by; it stays as it is",
                              attr.name, of));
    const Convert convert = conversion_of(attr.name, of, attr.type, wanted->second);
    const std::size_t width = element_bytes(attr.type), after = element_bytes(wanted->second);
    done.push_back({.whose = whose, .name = attr.name, .before = attr.type, .after = wanted->second});
    attr.type = wanted->second;
    attr.read_rows = [read = std::move(attr.read_rows), convert, width, after](
                         std::int64_t node, std::span<const std::int64_t> edge_ids,
                         std::span<std::byte> rows) {
      static thread_local std::vector<std::byte> stored;
      const std::size_t elements = rows.size() / after;
      stored.resize(elements * width);
      read(node, edge_ids, stored);
      convert(stored.data(), elements, rows.data());
    };
  }
}

}  // namespace

ConvertedGraph convert_attrs(const Dataset& dataset, const ConvertOptions& options,
                             const Progress& progress) {
  require_valid(!options.attrs.empty(), "no attribute is named; say which (--attr x=float16)");
  ConvertedGraph converted{.graph = read_dataset(dataset, options.threads, progress), .attrs = {}};
  for (RawNodes& nodes : converted.graph.nodes) convert_nodes(nodes, options, converted.attrs);
  for (std::size_t e = 0; e < converted.graph.edges.size(); ++e)
    convert_edges(converted.graph.edges[e], dataset.meta().edge_types[e].folder(), options, converted.attrs);
  for (const auto& [name, type] : options.attrs)
    if (std::ranges::find(converted.attrs, name, &ConvertedAttr::name) == converted.attrs.end())
      throw Error(ErrorCode::kNotFound,
                  fmt::format("no node type or edge type has an attribute '{}'; hopfeed-partition info lists "
                              "those there are",
                              name));
  return converted;
}

}  // namespace hopfeed
