// See graph_memory.h.
#include "partition_tool/graph_memory.h"

namespace hopfeed {

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

void require_graph_memory(const GraphSize& size, const std::string& what, const std::string& knobs,
                          const AvailableMemory& available) {
  require_memory(graph_bytes(size), available, what, knobs);
}

}  // namespace hopfeed
