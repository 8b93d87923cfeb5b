// Counts what a graph takes in memory while a dataset is made of it, and asks the machine before any of it is
// allocated: an overrun is a kill and no error.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/memory_limits.h"
#include "core/dataset/dataset_meta.h"

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

/// GraphCounts are what the memory of a whole command is estimated from, before any of it is taken.
struct GraphCounts {
  struct Edges {
    int src_type = 0, dst_type = 0;  // of `nodes`
    std::int64_t count = 0;
    bool stored_edge_ids = false;
  };
  std::vector<std::int64_t> nodes;  // by type
  std::vector<Edges> edges;         // by type
  std::uint64_t beside = 0;         // bytes that lie in memory from first to last: features that were read
};

/// Returns those of a dataset.
GraphCounts counts_of(const DatasetMeta& meta);

/// Return about how many bytes a command has in memory at its peak, mapped files apart. Tested against peaks
/// (tests/partition_tool/memory_told_test.cc): they are within 0.8 and 1.5 of them.
/// `lists`: bytes of edge lists as they were read, which go when their rows are made.
std::uint64_t import_bytes(const GraphCounts& counts, std::uint64_t lists);
/// Without METIS, which takes metis_bytes() (undirected_graph.h) in place of what ordering takes.
std::uint64_t partition_bytes(const GraphCounts& counts, int parts);
/// `traces`: the reads of batches are kept (--evictions, --features-from file).
enum class Traces { kNone, kKept };
std::uint64_t tune_bytes(const GraphCounts& counts, Traces traces);
/// Returns the bytes of rows, neighbours and edge ids alone.
std::uint64_t rows_bytes(const GraphCounts& counts);

/// A MemoryWish is what a command says of its memory before it takes it.
struct MemoryWish {
  std::string what, knobs;  // as require_memory() has them
  std::uint64_t bytes = 0;  // at the peak, about
  std::uint64_t least = 0;  // what it cannot do without; 0: all
};
using TellMemory = std::function<void(const MemoryWish& wish, const AvailableMemory& available)>;

/// Throws kNoSpace as require_memory() does where the machine or its cgroups have less than the least; else
/// tells the wish.
void want_memory(const TellMemory& tell, const MemoryWish& wish,
                 const AvailableMemory& available = available_memory());

}  // namespace hopfeed
