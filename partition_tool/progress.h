// Long steps tell by this how far they are. The library calls; programs draw bars.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace hopfeed {

struct ProgressReport {
  const char* step;  // "Writing edges"
  const char* unit;  // "edges"
  std::uint64_t done;
  std::uint64_t total;  // 0: unknown
};

/// It is called from the thread that started the step, a few times a second to a few thousand times in all.
/// It may throw to stop.
using Progress = std::function<void(const ProgressReport&)>;

}  // namespace hopfeed
