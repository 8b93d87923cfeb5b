// Measures what this machine can do at best, by the shortest loops that do it. Benchmarks quote their figures
// as a share of these, measured in the same run on the same array.
#pragma once
#include <cstdint>

#include "bench/measure.h"
#include "core/dataset/graph_view.h"

namespace hopfeed::bench {

struct LimitOptions {
  int threads = 1;
  double seconds = 1;
  bool verify = false;  // first one round whose result is compared with the plain loop's; throws kCorrupt
                        // where they differ
};

/// Returns random 4-byte reads per second, prefetched, over the indices of all partitions of an edge type.
/// Throws kUnsupported where they are int64, kInvalid where there are none.
Rate random_reads_per_s(const CscView& csc, const LimitOptions& options);
/// Returns the bytes per second of copying random rows into reused memory.
Rate row_gather_bytes_per_s(const AttrView& attr, std::int64_t num_rows, const LimitOptions& options);
/// Returns the bytes per second of memcpy between two buffers larger than any cache, counted once.
Rate copy_bytes_per_s(const LimitOptions& options);
/// Returns the bytes per second of reading an array from front to back.
Rate sequential_bytes_per_s(const LimitOptions& options);

}  // namespace hopfeed::bench
