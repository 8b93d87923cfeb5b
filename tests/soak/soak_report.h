// The soaks share this: how long faults were felt, and the one line of what went wrong.
#pragma once
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed::soak {

using Clock = std::chrono::steady_clock;

/// Times has the milliseconds that a fault was felt, each time.
class Times {
 public:
  void add(Clock::duration time) {
    times_.push_back(std::chrono::duration<double, std::milli>(time).count());
  }
  nlohmann::json summary() const {
    if (times_.empty()) return nullptr;
    std::vector<double> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    const auto at = [&](double share) {
      return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
    };
    return {
        {"count", sorted.size()}, {"median_ms", at(0.5)}, {"p99_ms", at(0.99)}, {"max_ms", sorted.back()}};
  }

 private:
  std::vector<double> times_;
};

inline void require(bool fine, const std::string& what) {
  if (!fine) throw Error(ErrorCode::kCorrupt, what);
}

}  // namespace hopfeed::soak
