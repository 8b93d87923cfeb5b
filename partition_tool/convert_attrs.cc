// See convert_attrs.h.
#include "partition_tool/convert_attrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/half_floats.h"
#include "core/base/quantised_rows.h"
#include "partition_tool/read_dataset.h"

namespace hopfeed {
namespace {

/// The names that users know.
constexpr std::pair<std::string_view, ElementType> kTypes[] = {{"float32", ElementType::kFloat32},
                                                               {"float16", ElementType::kFloat16},
                                                               {"bfloat16", ElementType::kBfloat16},
                                                               {"int8", ElementType::kInt8Scaled},
                                                               {"int4", ElementType::kInt4Scaled}};

bool is_half(ElementType type) { return type == ElementType::kFloat16 || type == ElementType::kBfloat16; }

bool can_become(ElementType from, ElementType to) {
  if (to == ElementType::kFloat32) return is_half(from) || has_scale(from);
  return from == ElementType::kFloat32 ? is_half(to) || has_scale(to) : is_half(from) && has_scale(to);
}

/// Rows of one attribute, one at a time, through float32, which has every number of the others exactly.
class RowConversion {
 public:
  RowConversion(ElementType from, ElementType to, std::span<const std::int64_t> shape)
      : from_(from), to_(to), from_bytes_(*bytes_of_row(from, shape)), to_bytes_(*bytes_of_row(to, shape)) {
    for (const std::int64_t dim : shape) elements_ *= static_cast<std::size_t>(dim);
  }
  std::size_t from_bytes() const { return static_cast<std::size_t>(from_bytes_); }
  std::size_t to_bytes() const { return static_cast<std::size_t>(to_bytes_); }

  /// `which` tells a row that cannot be converted: "node 7".
  template <class Which>
  void convert(const std::byte* from, std::byte* to, const std::string& attr, Which which) const {
    static thread_local std::vector<float> values;
    values.resize(elements_);
    decode(from, values);
    if (!has_scale(to_)) return encode(values, to);
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad != values.end())
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("{} of {} is NaN or infinite in column {}, and no scale holds that; clean the data, "
                      "or take float16 or bfloat16",
                      attr, which(), bad - values.begin()));
    quantise_row(to_, values, to);
  }

 private:
  void decode(const std::byte* from, std::vector<float>& values) const {
    if (from_ == ElementType::kFloat32) {
      std::memcpy(values.data(), from, from_bytes());
    } else if (has_scale(from_)) {
      dequantise({.type = from_,
                  .elements = static_cast<std::int64_t>(elements_),
                  .stride_bytes = from_bytes_,
                  .count = 1,
                  .rows = from},
                 values.data());
    } else {
      for (std::size_t i = 0; i < elements_; ++i) {
        std::uint16_t half;
        std::memcpy(&half, from + i * sizeof half, sizeof half);
        values[i] = from_ == ElementType::kFloat16 ? from_float16(half) : from_bfloat16(half);
      }
    }
  }
  void encode(const std::vector<float>& values, std::byte* to) const {
    if (to_ == ElementType::kFloat32) {
      std::memcpy(to, values.data(), to_bytes());
      return;
    }
    for (std::size_t i = 0; i < elements_; ++i) {
      const std::uint16_t half =
          to_ == ElementType::kFloat16 ? float16_from(values[i]) : bfloat16_from(values[i]);
      std::memcpy(to + i * sizeof half, &half, sizeof half);
    }
  }

  ElementType from_, to_;
  std::int64_t from_bytes_, to_bytes_;
  std::size_t elements_ = 1;
};

template <class Attr>
RowConversion conversion_of(const Attr& attr, const std::string& whose, ElementType to) {
  require_valid(can_become(attr.type, to),
                fmt::format("attribute '{}' of {} is {} and cannot become {}; float32 can become float16, "
                            "bfloat16, int8 or int4 with a scale per row, float16 and bfloat16 int8 or int4, "
                            "and all of them float32",
                            attr.name, whose, to_string(attr.type), to_string(to)));
  return {attr.type, to, attr.shape};
}

void convert_nodes(RawNodes& nodes, const ConvertOptions& options, std::vector<ConvertedAttr>& done) {
  for (RawAttr& attr : nodes.attrs) {
    const auto wanted = options.attrs.find(attr.name);
    if (wanted == options.attrs.end()) continue;
    const std::string of = fmt::format("node type '{}'", nodes.name);
    require_valid(attr.name != "y" || !has_scale(wanted->second),
                  fmt::format("attribute 'y' of {} holds labels, which stay as they are", of));
    const RowConversion conversion = conversion_of(attr, of, wanted->second);
    done.push_back({.whose = nodes.name, .name = attr.name, .before = attr.type, .after = wanted->second});
    attr.type = wanted->second;
    attr.read_row = [read = std::move(attr.read_row), conversion,
                     what = fmt::format("attribute '{}' of {}: the row", attr.name, of)](
                        std::int64_t node, std::span<std::byte> row) {
      static thread_local std::vector<std::byte> stored;
      stored.resize(conversion.from_bytes());
      read(node, stored);
      conversion.convert(stored.data(), row.data(), what, [&] { return fmt::format("node {}", node); });
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
    const RowConversion conversion = conversion_of(attr, of, wanted->second);
    done.push_back({.whose = whose, .name = attr.name, .before = attr.type, .after = wanted->second});
    attr.type = wanted->second;
    attr.read_rows = [read = std::move(attr.read_rows), conversion,
                      what = fmt::format("attribute '{}' of {}: the row", attr.name, of)](
                         std::int64_t node, std::span<const std::int64_t> edge_ids,
                         std::span<std::byte> rows) {
      static thread_local std::vector<std::byte> stored;
      const std::size_t count = rows.size() / conversion.to_bytes();
      stored.resize(count * conversion.from_bytes());
      read(node, edge_ids, stored);
      for (std::size_t i = 0; i < count; ++i)
        conversion.convert(stored.data() + i * conversion.from_bytes(),
                           rows.data() + i * conversion.to_bytes(), what,
                           [&] { return fmt::format("in-edge {} of node {}", i, node); });
    };
  }
}

}  // namespace

ElementType convertible_type(const std::string& name) {
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  throw Error(
      ErrorCode::kInvalid,
      fmt::format("'{}' is nothing that attributes can become; known are float32, float16, bfloat16, int8 "
                  "and int4",
                  name));
}

ConvertedGraph convert_attrs(const Dataset& dataset, const ConvertOptions& options,
                             const Progress& progress) {
  require_valid(!options.attrs.empty(), "no attribute is named; say which (--attr x=float16)");
  ConvertedGraph converted{.graph = read_dataset(dataset, options.threads, progress), .attrs = {}};
  for (RawNodes& nodes : converted.graph.nodes) convert_nodes(nodes, options, converted.attrs);
  for (std::size_t e = 0; e < converted.graph.edges.size(); ++e)
    convert_edges(converted.graph.edges[e], dataset.meta().edge_types[e].folder(), options, converted.attrs);
  for (const auto& [name, type] : options.attrs)
    if (std::ranges::find(converted.attrs, name, &ConvertedAttr::name) == converted.attrs.end())
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("no node type or edge type has an attribute '{}'; hopfeed-partition inspect lists "
                      "those there are",
                      name));
  return converted;
}

}  // namespace hopfeed
