// What it took to bring a GPU up, before a batch came from it.
#pragma once

namespace hopfeed {

/// Seconds of one process, so far.
struct GpuSetup {
  double context = 0;  // CUDA's context and stream
  double copying = 0;  // of the dataset: into pinned memory, to the GPU
  double pinning = 0;  // of that copy

  double total() const { return context + copying + pinning; }
};

}  // namespace hopfeed
