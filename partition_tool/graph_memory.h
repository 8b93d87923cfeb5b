// Counts what a graph takes in memory while a dataset is made of it, and asks the machine before any of it is
// allocated: an overrun is a kill and no error.
#pragma once
#include <cstdint>
#include <string>

#include "core/base/memory_limits.h"

namespace hopfeed {

/// A GraphSize decides the memory of one edge type.
struct GraphSize {
  std::int64_t num_nodes = 0;    // nodes that edges end at
  std::int64_t num_sources = 0;  // nodes that edges begin at
  std::int64_t held_edges = 0;   // in memory as rows; a generated graph holds none
  bool stored_edge_ids = false;  // held as an array (EdgeIds::kStored)
};

/// Returns the bytes of an id below `bound`.
std::uint64_t id_bytes(std::int64_t bound);

/// Returns the bytes at the least: rows, neighbours, edge ids, and per node the order that it is written in.
/// Features and labels are streamed and not in it.
std::uint64_t graph_bytes(const GraphSize& size);

/// Throws kNoSpace naming `what`, both sizes and `knobs` where the machine or its cgroups have less.
void require_graph_memory(const GraphSize& size, const std::string& what, const std::string& knobs,
                          const AvailableMemory& available = available_memory());

}  // namespace hopfeed
