// See graph_memory.h.
#include "partition_tool/graph_memory.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace hopfeed {
namespace {

constexpr std::uint64_t kProgram = std::uint64_t{8} << 20;
/// The program, and blocks of rows that are written.
constexpr std::uint64_t kBesideAll = kProgram + (std::uint64_t{24} << 20);

std::uint64_t num_nodes(const GraphCounts& counts) {
  return static_cast<std::uint64_t>(
      std::accumulate(counts.nodes.begin(), counts.nodes.end(), std::int64_t{0}));
}

/// Rows of all edge types.
std::uint64_t num_rows(const GraphCounts& counts) {
  std::uint64_t rows = 0;
  for (const GraphCounts::Edges& edges : counts.edges)
    rows += static_cast<std::uint64_t>(counts.nodes[static_cast<std::size_t>(edges.dst_type)]);
  return rows;
}

std::uint64_t ids_bytes(const GraphCounts& counts) {
  std::uint64_t bytes = 0;
  for (const std::int64_t count : counts.nodes) bytes += static_cast<std::uint64_t>(count) * id_bytes(count);
  return bytes;
}

/// node_order.h: both directions of the order and the hotness by it; hotness.cc: what was reached by the last
/// hop and by any, and what each row offers.
std::uint64_t order_bytes(const GraphCounts& counts) {
  return num_nodes(counts) * (8 + 8 + 8 + 8) + ids_bytes(counts) + num_rows(counts) * 8;
}

}  // namespace

std::uint64_t id_bytes(std::int64_t bound) { return bound <= std::int64_t{1} << 31 ? 4 : 8; }

std::uint64_t graph_bytes(const GraphSize& size) {
  const auto nodes = static_cast<std::uint64_t>(size.num_nodes),
             edges = static_cast<std::uint64_t>(size.held_edges);
  // Per node: where its row begins, its hotness and the three numbers that it is computed from, its place in
  // the order and back.
  const std::uint64_t per_node = 8 + 8 + 24 + 8 + id_bytes(size.num_nodes);
  const std::uint64_t per_edge =
      id_bytes(size.num_sources) + (size.stored_edge_ids ? id_bytes(size.held_edges) : 0);
  return nodes * per_node + edges * per_edge;  // below 2^55: kMaxNodes and kMaxEdges are 2^48
}

GraphCounts counts_of(const DatasetMeta& meta) {
  GraphCounts counts;
  for (const NodeTypeMeta& node : meta.node_types) {
    counts.nodes.push_back(node.count);
    for (const auto& [name, count] : node.splits) counts.beside += static_cast<std::uint64_t>(count) * 8;
  }
  for (const EdgeTypeMeta& edge : meta.edge_types)
    counts.edges.push_back({.src_type = meta.edge_src_type(edge),
                            .dst_type = meta.edge_dst_type(edge),
                            .count = edge.count,
                            .stored_edge_ids = edge.has_edge_ids});
  return counts;
}

std::uint64_t rows_bytes(const GraphCounts& counts) {
  std::uint64_t bytes = num_rows(counts) * 8;  // Csc::indptr
  for (const GraphCounts::Edges& edges : counts.edges)
    bytes += static_cast<std::uint64_t>(edges.count) *
             (id_bytes(counts.nodes[static_cast<std::size_t>(edges.src_type)]) +
              (edges.stored_edge_ids ? id_bytes(edges.count) : 0));
  return bytes;
}

std::uint64_t import_bytes(const GraphCounts& counts, std::uint64_t lists) {
  const std::uint64_t next = num_rows(counts) * 8;  // edges_to_csc.cc: where each row goes on
  return counts.beside + rows_bytes(counts) +
         std::max(kProgram + lists + next, kBesideAll + order_bytes(counts));
}

std::uint64_t partition_bytes(const GraphCounts& counts, int parts) {
  const std::uint64_t nodes = num_nodes(counts);
  // The cut, and what each partition's list of other partitions' rows is chosen from (node_order.cc).
  const std::uint64_t cut = parts > 1 ? nodes * (4 + 8) : 0;
  return kBesideAll + counts.beside + rows_bytes(counts) + order_bytes(counts) + cut;
}

std::uint64_t tune_bytes(const GraphCounts& counts, Traces traces) {
  // tune_measure.cc: reads of each row, and the table that numbers a batch's nodes. hotness_policy.cc:
  // original ids, where rows begin, what was reached by the last hop and by any, what rows offer,
  // the hotness.
  const std::uint64_t each = 8 + 4 + 8 + 8 + 8 + 8, of_trace = traces == Traces::kKept ? 8 + 8 + 8 : 0;
  return kBesideAll + counts.beside + num_nodes(counts) * (each + of_trace) + num_rows(counts) * (8 + 8);
}

void want_memory(const TellMemory& tell, const MemoryWish& wish, const AvailableMemory& available) {
  require_memory(wish.least > 0 ? wish.least : wish.bytes, available, wish.what, wish.knobs);
  if (tell) tell(wish, available);
}

void require_graph_memory(const GraphSize& size, const std::string& what, const std::string& knobs,
                          const AvailableMemory& available) {
  require_memory(graph_bytes(size), available, what, knobs);
}

}  // namespace hopfeed
