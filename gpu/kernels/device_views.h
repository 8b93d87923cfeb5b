// Kernels see flat structs of plain pointers, passed by value. All of them point into memory that the device
// reads: its own, or pinned memory of the host. hop_engine_on.h owns it.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "core/dataset/row_record.h"
#include "core/draws/temporal_rule.h"
#include "gpu/kernels/atomics.h"

namespace hopfeed::gpu {

/// Fallback says why a batch goes to the CPU sampler as a whole. Kernels leave the greatest reason that any
/// of them met.
enum class Fallback : std::uint64_t {
  kNone = 0,
  kKind,         // the device does not sample so
  kTooLarge,     // more seeds, nodes or edges than local ids or the memory pool take
  kWideRow,      // a row of 2^32 edges or more
  kDrawsRemove,  // weighted rows that give too few edges by rejection, and are too long to go on here
  kDamaged,      // offsets that fall, ids out of range: the CPU sampler says where
  kWarming,      // the device is not up yet (DeviceSamplerOptions::warm)
  kFailed,       // the device gave an error (DeviceSamplerOptions::cpu_fallback)
  kEnd
};

/// Returns which partition owns a node: the last one of `parts` that begins at it or before.
HOPFEED_HOST_DEVICE inline int partition_of(const std::int64_t* offsets, int parts, std::int64_t node) {
  int lo = 0, hi = parts;
  while (hi - lo > 1) {
    const int mid = (lo + hi) / 2;
    if (node >= offsets[mid])
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

HOPFEED_HOST_DEVICE inline std::int64_t read_int(const void* base, int bytes, std::uint64_t i) {
  return bytes == 4 ? std::int64_t{static_cast<const std::int32_t*>(base)[i]}
                    : static_cast<const std::int64_t*>(base)[i];
}

/// DevicePart has the rows of one partition of one edge type (graph_view.h).
struct DevicePart {
  const RowRecord* rows = nullptr;
  const void* indices = nullptr;        // of temporal draws each row's in the order of time
  const void* edge_ids = nullptr;       // null: none
  const std::int16_t* codes = nullptr;  // TimeView's, of temporal draws
  const std::int64_t* times = nullptr;
  const std::uint32_t* order = nullptr;    // null: nobody asks where in its row an edge is
  const unsigned char* aliases = nullptr;  // entry of the first edge; null: draws are uniform
  std::int64_t num_edges = 0;
  std::int64_t first_edge = 0;
  // These are copies on the device of the first rows and of their neighbours (hot_prefix.h).
  const RowRecord* hot_rows = nullptr;  // [num_hot_rows + 1]
  const void* hot_indices = nullptr;    // [num_hot_edges]
  std::int64_t num_hot_rows = 0;
  std::uint64_t num_hot_edges = 0;

  /// Returns the record of row i, and behind it the next row's.
  HOPFEED_HOST_DEVICE const RowRecord* record(std::int64_t i) const {
    return (i < num_hot_rows ? hot_rows : rows) + i;
  }
  /// Returns the source of the edge at this position.
  HOPFEED_HOST_DEVICE std::int64_t source(std::uint64_t position, int index_bytes) const {
    return read_int(position < num_hot_edges ? hot_indices : indices, index_bytes, position);
  }
};

/// DeviceEdges is one edge type over all partitions.
struct DeviceEdges {
  const DevicePart* parts = nullptr;                // [num_parts]
  const std::int64_t* partition_offsets = nullptr;  // [num_parts + 1] of the destinations
  int num_parts = 0;
  int index_bytes = 4, edge_id_bytes = 4;
  int alias_bytes = 0;  // from one entry of alias tables to the next; 0: draws are uniform
  bool temporal = false;
  std::uint64_t num_src = 0;

  HOPFEED_HOST_DEVICE int partition_of(std::int64_t node) const {
    return gpu::partition_of(partition_offsets, num_parts, node);
  }
};

/// DeviceExcluded has the pairs of one edge type that a batch excludes: sources of destination i are those
/// from first[i] to first[i + 1], sorted as the destinations are.
struct DeviceExcluded {
  const std::int64_t* destinations = nullptr;
  const std::uint64_t* first = nullptr;
  const std::int64_t* sources = nullptr;
  std::uint64_t count = 0;  // of the destinations
};

/// DeviceTimes say where the times of a batch's seeds fall in one edge type (seed_places.h).
struct DeviceTimes {
  const TimePlace* ends = nullptr;    // [seeds]
  const TimePlace* begins = nullptr;  // [seeds]; null: there is no window
};

/// An EdgePlace is the place of an edge: its partition, and its position there.
struct EdgePlace {
  static constexpr int kPartShift = 49;  // positions are below 2^48, or just there; partitions below 2^12
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << kPartShift) - 1;
  HOPFEED_HOST_DEVICE static std::uint64_t pack(int part, std::uint64_t position) {
    return static_cast<std::uint64_t>(part) << kPartShift | position;
  }
  HOPFEED_HOST_DEVICE static int part(std::uint64_t place) { return static_cast<int>(place >> kPartShift); }
  HOPFEED_HOST_DEVICE static std::uint64_t position(std::uint64_t place) { return place & kMask; }
};

/// BatchCells numbers the counts of a batch, which the device alone knows while it works. They are one array,
/// so that the host has all of them by one copy. A step writes what it comes to into cells of its own, so
/// that none has to be closed before the next one reads: of nodes and of edges how many there are behind it.
struct BatchCells {
  static constexpr int kFlag = 0;  // greatest Fallback that any kernel met
  static constexpr int kZero = 1;
  static constexpr int kSummed = 2;  // words that a hop's weighted rows sum up in (WeightsLeft)
  int node_types = 0, edge_types = 0, hops = 0;

  int size() const { return edges(hops, 0); }
  /// Returns the cell of a type's nodes behind the seeds.
  int seeds(int node_type) const { return 3 + node_type; }
  /// Returns the cell of the nodes of an edge type's sources behind its step in a hop.
  int nodes(int hop, int edge_type) const { return seeds(node_types) + hop * edge_types + edge_type; }
  /// Returns the cell of an edge type's edges behind its step in a hop.
  int edges(int hop, int edge_type) const { return nodes(hops, 0) + hop * edge_types + edge_type; }
};

/// Has the batch go to the CPU, for this reason or a greater one.
HOPFEED_HOST_DEVICE inline void raise(std::uint64_t* flag, Fallback reason) {
  atomic_max(flag, static_cast<std::uint64_t>(reason));
}

}  // namespace hopfeed::gpu
