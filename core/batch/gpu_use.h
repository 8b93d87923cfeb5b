// GpuUse says what a GPU does for a stream: the batches that it samples, and what the graph and held feature
// rows take of its memory (docs/gpu.md).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/batch/held_share.h"

namespace hopfeed {

struct GpuUse {
  /// In graph modes of a GPU these count the batches that it sampled, and those that the CPU did, whatever
  /// the reason.
  std::int64_t gpu_batches = 0, cpu_batches = 0;
  /// The GPU has so many bytes of its memory for the copy of the graph or of its hottest rows, and for held
  /// feature rows.
  std::size_t graph_bytes = 0, rows_bytes = 0;
  HeldShare graph, rows;  // which rows of each partition are there

  std::size_t bytes() const { return graph_bytes + rows_bytes; }
  /// Returns whether anything was sampled in a graph mode of a GPU.
  bool any() const { return gpu_batches + cpu_batches > 0; }
  friend bool operator==(const GpuUse&, const GpuUse&) = default;
};

}  // namespace hopfeed
