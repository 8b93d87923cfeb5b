// See node_clusters.h.
#include "partition_tool/node_clusters.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace hopfeed {

RawGraph graph_of_node_type(const RawGraph& graph, int node_type) {
  RawGraph alone;
  alone.name = graph.name;
  alone.nodes.push_back({.name = graph.nodes[node_type].name,
                         .count = graph.nodes[node_type].count,
                         .attrs = {},
                         .splits = {}});
  for (const RawEdges& edges : graph.edges) {
    if (edges.src_type != node_type || edges.dst_type != node_type) continue;
    alone.edges.push_back({.rel = edges.rel, .csc = {}, .attrs = {}, .weights = {}, .times = {}});
    Csc& csc = alone.edges.back().csc;
    csc.indptr = edges.csc.indptr;
    csc.indices = edges.csc.indices;
    csc.make_row = edges.csc.make_row;
  }
  if (alone.edges.empty())
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("no edge type connects the nodes of type '{}' with each other, so that their clusters "
                    "would hold no edges; choose another --node-type",
                    alone.nodes[0].name));
  return alone;
}

NodeClusters make_clusters(const RawGraph& graph_of_type, std::span<const std::int32_t> partition_of,
                           int partitions) {
  NodeClusters made;
  std::vector<std::int64_t> number(static_cast<std::size_t>(partitions), -1);
  for (const std::int32_t part : partition_of) {
    if (number[part] < 0) {
      number[part] = std::ssize(made.sizes);
      made.sizes.push_back(0);
    }
    made.cluster_of.push_back(number[part]);
    ++made.sizes[number[part]];
  }
  for (const RawEdges& edges : graph_of_type.edges) {
    const std::vector<std::int64_t>& indptr = edges.csc.indptr;
    for_row_blocks(
        indptr, edges.csc.rows(), 1, [](std::int64_t) { return true; },
        [&](std::int64_t first, std::int64_t last, auto sources) {
          for (std::int64_t v = first; v < last; ++v)
            for (std::int64_t e = indptr[v]; e < indptr[v + 1]; ++e)
              made.edges_cut += partition_of[sources[e - indptr[first]]] != partition_of[v];
        });
  }
  return made;
}

void add_cluster_attr(RawGraph& graph, int node_type, const std::string& name,
                      std::vector<std::int64_t> cluster_of) {
  const auto kept = std::make_shared<const std::vector<std::int64_t>>(std::move(cluster_of));
  graph.nodes[node_type].attrs.push_back({.name = name,
                                          .type = ElementType::kInt64,
                                          .shape = {},
                                          .read_row = [kept](std::int64_t v, std::span<std::byte> row) {
                                            std::memcpy(row.data(), &(*kept)[v], row.size());
                                          }});
}

}  // namespace hopfeed
