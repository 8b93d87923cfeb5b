// How many rows of node attributes lie in the memory of a GPU that makes batches (device_batches): of each
// partition the first ones, which are the hottest. It changes speed, and no byte of a batch.
#pragma once
#include <cstddef>

namespace hopfeed {

struct GpuCache {
  bool automatic = false;  // as many as fit into a quarter of what is free; the rest is the trainer's
  double ratio = 0;        // of the rows, 0 to 1; with bytes it is not read
  std::size_t bytes = 0;   // that they may take; 0: no such bound

  bool any() const { return automatic || ratio > 0 || bytes > 0; }
};

}  // namespace hopfeed
