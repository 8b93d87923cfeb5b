// Makes typed test graphs (tests/support/typed_dataset.h) in the form that importers give them.
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/partition_tool/made_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

/// Makes an attribute of `values` by imported node; `kept` owns them.
template <class T>
RawAttr attr_of(const std::string& name, std::shared_ptr<const TypedGraph> kept, const std::vector<T>& values,
                std::vector<std::int64_t> shape) {
  return {.name = name,
          .type = element_type_of<T>,
          .shape = std::move(shape),
          .read_row = [kept, &values](std::int64_t v, std::span<std::byte> row) {
            std::memcpy(row.data(), reinterpret_cast<const std::byte*>(values.data()) + v * row.size(),
                        row.size());
          }};
}

/// Makes an attribute of `values` by imported edge.
template <class T>
RawEdgeAttr edge_attr_of(const std::string& name, std::shared_ptr<const std::vector<T>> values,
                         std::vector<std::int64_t> shape = {}) {
  return {
      .name = name,
      .type = element_type_of<T>,
      .shape = std::move(shape),
      .read_rows = [values](std::int64_t, std::span<const std::int64_t> edge_ids, std::span<std::byte> rows) {
        for (std::size_t i = 0; i < edge_ids.size(); ++i) {
          const std::size_t bytes = rows.size() / edge_ids.size();
          std::memcpy(rows.data() + i * bytes,
                      reinterpret_cast<const std::byte*>(values->data()) + edge_ids[i] * bytes, bytes);
        }
      }};
}

inline RawNodes raw_nodes_of(const TypedNodes& nodes, std::shared_ptr<const TypedGraph> kept) {
  RawNodes raw{.name = nodes.name,
               .count = nodes.count,
               .attrs = {},
               .splits = nodes.splits,
               .num_classes = nodes.num_classes};
  if (nodes.x_width > 0) raw.attrs.push_back(attr_of("x", kept, nodes.x, {nodes.x_width}));
  if (!nodes.y.empty()) raw.attrs.push_back(attr_of("y", kept, nodes.y, {}));
  if (!nodes.time.empty()) raw.attrs.push_back(attr_of("time", kept, nodes.time, {}));
  return raw;
}

inline RawEdges raw_edges_of(const TypedGraph& graph, const TypedEdges& edges, bool store_edge_ids) {
  RawEdges raw{.src_type = graph.node_type(edges.src),
               .dst_type = graph.node_type(edges.dst),
               .rel = edges.rel,
               .csc = {},
               .attrs = {},
               .weights = {},
               .times = {}};
  const TypedNodes &sources = graph.nodes[raw.src_type], &destinations = graph.nodes[raw.dst_type];
  raw.csc = edges_to_csc(std::span(edges.sources), std::span(edges.destinations),
                         {.sources = sources.count, .destinations = destinations.count}, {}, no_progress);
  if (!store_edge_ids) raw.csc.edge_id_kind = EdgeIds::kHeld;
  if (!edges.weight.empty()) {
    raw.attrs.push_back(edge_attr_of("weight", std::make_shared<const std::vector<double>>(edges.weight)));
    raw.weights = {"weight"};
  }
  if (!edges.time.empty())
    raw.attrs.push_back(edge_attr_of("time", std::make_shared<const std::vector<std::int64_t>>(edges.time)));
  if (edges.in_order_of_time && (!edges.time.empty() || !sources.time.empty())) raw.times = {"time"};
  raw.rev_of = edges.rev_of;
  for (const auto& [name, links] : edges.splits)
    raw.splits[name] = raw_links({.pairs = links.pairs, .labels = links.labels, .times = links.times});
  return raw;
}

inline RawGraph raw_graph_of(const TypedGraph& typed, bool store_edge_ids = true) {
  const auto kept = std::make_shared<const TypedGraph>(typed);
  RawGraph graph;
  graph.name = "typed";
  for (const TypedNodes& nodes : kept->nodes) graph.nodes.push_back(raw_nodes_of(nodes, kept));
  for (const TypedEdges& edges : kept->edges)
    graph.edges.push_back(raw_edges_of(*kept, edges, store_edge_ids));
  return graph;
}

}  // namespace hopfeed::testing
