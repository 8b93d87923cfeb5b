// Sums up the times of what brings a GPU up, over this process.
#pragma once
#include <chrono>

#include "core/batch/gpu_setup.h"

namespace hopfeed::gpu {

enum class Setup { kContext, kCopying, kPinning };

/// While a SetupTimer lives, the process is at `what`.
class SetupTimer {
 public:
  explicit SetupTimer(Setup what) : what_(what) {}
  ~SetupTimer();
  SetupTimer(const SetupTimer&) = delete;
  SetupTimer& operator=(const SetupTimer&) = delete;

 private:
  const Setup what_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Returns the times so far. Any thread.
GpuSetup setup_times();

}  // namespace hopfeed::gpu
