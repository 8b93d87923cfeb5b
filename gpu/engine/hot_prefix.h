// A device has a copy of a hot prefix where it reads a graph in the host's memory: of each partition the
// first rows, which are the hottest, and their neighbours. Both are prefixes of arrays, since rows lie in the
// order of their neighbours; so whether a row or a neighbour is in the copy is one compare.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/batch/held_share.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/kernels/device_views.h"

namespace hopfeed::gpu {

inline constexpr HeldShare kAllRows{HeldShare::kAll};

/// A HotPrefix says how much of one partition is copied.
struct HotPrefix {
  std::int64_t rows = 0;   // their records and one more are copied; 0: nothing is
  std::int64_t edges = 0;  // of these rows

  /// Returns the prefix with `share` of the rows. Nothing is copied of a partition whose offset there cannot
  /// be: reading it is what tells the damage.
  static HotPrefix of(const HostPart& part, HeldShare share) {
    const std::int64_t rows = share.rows(part.num_rows);
    const std::int64_t edges = rows > 0 ? part.rows[rows].offset : 0;
    if (rows == 0 || edges < 0 || edges > part.num_edges) return {};
    return {.rows = rows, .edges = edges};
  }
  std::size_t bytes(int index_bytes) const {
    if (rows == 0) return 0;
    return (static_cast<std::size_t>(rows) + 1) * sizeof(RowRecord) +
           static_cast<std::size_t>(edges) * static_cast<std::size_t>(index_bytes);
  }
};

/// Returns the bytes that a share of all rows takes.
inline std::size_t hot_bytes(const EnginePlan& plan, HeldShare share) {
  std::size_t bytes = 0;
  for (const EdgePlan& edges : plan.edge_types)
    for (const HostPart& part : edges.parts) bytes += HotPrefix::of(part, share).bytes(edges.index_bytes);
  return bytes;
}

/// Returns what plan.hot comes to; none of a graph that is on the device anyway. A share that was asked for
/// is copied whole; of bytes, and of what fits, as many rows as they take. Throws kNoSpace where the device
/// has not so much.
HeldShare hot_share(const EnginePlan& plan);

struct HotPlan {
  HeldShare share;
  int index_bytes = 4;
};

/// Copies the share of the partition's rows to the device, and tells the view where they lie.
template <class Backend>
void place_hot(Backend& backend, const HostPart& part, const HotPlan& plan, DevicePart& view) {
  const HotPrefix hot = HotPrefix::of(part, plan.share);
  if (hot.rows == 0) return;
  const auto on_device = [&backend](const void* array, std::size_t bytes) {
    return bytes == 0 ? nullptr : backend.place_graph(array, bytes, GraphPlace::kDevice);
  };
  view.hot_rows = static_cast<const RowRecord*>(
      on_device(part.rows, (static_cast<std::size_t>(hot.rows) + 1) * sizeof(RowRecord)));
  view.num_hot_rows = hot.rows;
  view.hot_indices = on_device(
      part.indices, static_cast<std::size_t>(hot.edges) * static_cast<std::size_t>(plan.index_bytes));
  view.num_hot_edges = static_cast<std::uint64_t>(hot.edges);
}

}  // namespace hopfeed::gpu
