// See setup_times.h.
#include "gpu/memory/setup_times.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace hopfeed::gpu {
namespace {

std::array<std::atomic<std::int64_t>, 3> nanoseconds{};  // by Setup

double seconds_of(Setup what) {
  return 1e-9 * static_cast<double>(nanoseconds[static_cast<std::size_t>(what)].load());
}

}  // namespace

SetupTimer::~SetupTimer() {
  const auto took = std::chrono::steady_clock::now() - begin_;
  nanoseconds[static_cast<std::size_t>(what_)] +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
}

GpuSetup setup_times() {
  return {.context = seconds_of(Setup::kContext),
          .copying = seconds_of(Setup::kCopying),
          .pinning = seconds_of(Setup::kPinning)};
}

}  // namespace hopfeed::gpu
