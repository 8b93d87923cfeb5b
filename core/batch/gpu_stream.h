// A GpuStream is a stream of a GPU, in which work is done in the order in which it was asked for.
#pragma once

namespace hopfeed {

/// The default stream of every GPU has the same handle, so the number of the GPU belongs to it.
struct GpuStream {
  void* handle = nullptr;  // a cudaStream_t
  int device = 0;          // as CUDA counts

  friend bool operator==(const GpuStream&, const GpuStream&) = default;
};

}  // namespace hopfeed
