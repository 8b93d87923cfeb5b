// GpuSetup says what it took to bring a GPU up, before a batch came from it.
#pragma once

namespace hopfeed {

/// The seconds are those of one process, so far.
struct GpuSetup {
  double context = 0;  // making CUDA's context and stream
  double copying = 0;  // copying the dataset: into pinned memory, to the GPU
  double pinning = 0;  // pinning that copy

  double total() const { return context + copying + pinning; }
};

}  // namespace hopfeed
