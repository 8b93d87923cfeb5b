// See graph_memory.h.
#include "partition_tool/graph_memory.h"

namespace hopfeed {
namespace {

std::uint64_t id_bytes(std::int64_t bound) { return bound <= std::int64_t{1} << 31 ? 4 : 8; }

}  // namespace

std::uint64_t graph_bytes(const GraphSize& size) {
  const auto nodes = static_cast<std::uint64_t>(size.num_nodes),
             edges = static_cast<std::uint64_t>(size.num_edges);
  // Per node: where its row begins, its hotness, its place in the order and back.
  const std::uint64_t per_node = 8 + 8 + 2 * id_bytes(size.num_nodes);
  const std::uint64_t per_edge =
      id_bytes(size.num_nodes) + (size.stored_edge_ids ? id_bytes(size.num_edges) : 0);
  return nodes * per_node + edges * per_edge;  // below 2^54: kMaxNodes and kMaxEdges are 2^48
}

void require_graph_memory(const GraphSize& size, const std::string& what, const std::string& knobs,
                          const AvailableMemory& available) {
  require_memory(graph_bytes(size), available, what, knobs);
}

}  // namespace hopfeed
