// How many rows lie in the memory of a GPU: of node attributes where it makes batches (device_batches), of
// the graph where it reads that in the host's memory (graph mode uva). Of each partition they are the first
// ones, which are the hottest. It changes speed, and no byte of a batch.
#pragma once
#include <cstddef>

namespace hopfeed {

struct GpuCache {
  bool automatic = false;  // as many as fit into a part of what is free; the rest is the trainer's
  double ratio = 0;        // of the rows, 0 to 1; with bytes it is not read
  std::size_t bytes = 0;   // that they may take; 0: no such bound

  bool any() const { return automatic || ratio > 0 || bytes > 0; }
};

}  // namespace hopfeed
