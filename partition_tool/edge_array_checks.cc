// See edge_array_checks.h.
#include "partition_tool/edge_array_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "core/base/error.h"
#include "core/dataset/dataset_meta.h"
#include "partition_tool/partition_limits.h"
#include "partition_tool/raw_attrs.h"

namespace hopfeed {
namespace {

template <class Attr>
std::string names_of(const std::vector<Attr>& attrs) {
  std::string names;
  for (const Attr& attr : attrs) names += (names.empty() ? "" : ", ") + attr.name;
  return names.empty() ? "none" : names;
}

/// One number of one of these types.
void require_number(const std::string& what, const AttrMeta& attr, std::initializer_list<ElementType> types) {
  std::string names;
  for (const ElementType type : types) names += (names.empty() ? "" : ", ") + std::string(to_string(type));
  if (attr.row_elements() != 1)
    throw Error(ErrorCode::kInvalid, fmt::format("{} '{}' has {} numbers each; it must have one", what,
                                                 attr.name, attr.row_elements()));
  if (!attr.shape.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} '{}' has rows of one number each; give it as an array of one dimension", what,
                            attr.name));
  if (std::ranges::find(types, attr.type) == types.end())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} '{}' has the element type {}; convert it to {}{}", what, attr.name,
                            to_string(attr.type), types.size() > 1 ? "one of: " : "", names));
}

void require_once(const char* what, std::vector<std::string> names) {
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    throw Error(ErrorCode::kInvalid, fmt::format("{} '{}' is given twice", what, *twice));
}

/// Throws as require_number() does, and errors name the file.
template <class Attr>
void require_number_of(const std::string& what, const Attr& attr, std::initializer_list<ElementType> types) {
  try {
    require_number(what, meta_of(attr), types);
  } catch (const Error& error) {
    throw Error(error.code(), file_prefix(attr) + error.message());
  }
}

void check_weights_and_times(const RawGraph& graph, const RawEdges& edges) {
  require_once("weight", edges.weights);
  require_once("time", edges.times);
  for (const std::string& name : edges.weights) {
    const RawEdgeAttr* attr = find_attr(edges.attrs, name);
    if (!attr)
      throw Error(ErrorCode::kInvalid, fmt::format("weight '{}' is no attribute of the edges; they have: {}",
                                                   name, names_of(edges.attrs)));
    require_number_of(
        "weight", *attr,
        {ElementType::kFloat32, ElementType::kFloat64, ElementType::kInt32, ElementType::kInt64});
  }
  const std::vector<RawAttr>& node_attrs = graph.nodes[edges.src_type].attrs;
  for (const std::string& name : edges.times) {
    const RawEdgeAttr* of_edges = find_attr(edges.attrs, name);
    const RawAttr* of_nodes = find_attr(node_attrs, name);
    if (!of_edges && !of_nodes)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("time '{}' is no attribute of the edges, which have: {}, "
                              "nor of the {}nodes, which have: {}",
                              name, names_of(edges.attrs), graph.nodes.size() > 1 ? "source " : "",
                              names_of(node_attrs)));
    of_edges ? require_number_of("time", *of_edges, {ElementType::kInt64})
             : require_number_of("time", *of_nodes, {ElementType::kInt64});
  }
}

void check_row_lengths(const RawEdges& edges) {
  const RowTables tables{.weights = edges.weights, .times = edges.times, .by_id = edges.by_id};
  for (std::int64_t v = 0; v < edges.csc.num_rows(); ++v)
    require_row_length(v, edges.csc.indptr[v + 1] - edges.csc.indptr[v], tables);
}

/// check(edges) of each edge type, whose name its errors get.
template <class Check>
void check_each(const RawGraph& graph, const Check& check) {
  for (const RawEdges& edges : graph.edges) {
    try {
      check(edges);
    } catch (const Error& error) {
      throw Error(error.code(), edge_type_prefix(graph, edges) + error.message());
    }
  }
}

}  // namespace

void check_weights_and_times(const RawGraph& graph) {
  check_each(graph, [&](const RawEdges& edges) { check_weights_and_times(graph, edges); });
}

void check_edge_arrays(const RawGraph& graph) {
  check_weights_and_times(graph);
  check_each(graph, check_row_lengths);
}

}  // namespace hopfeed
