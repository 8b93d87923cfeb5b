// The order of time in a row: positions by rising time, equal times in imported order. Stored with the dataset, so that
// temporal sampling finds the neighbours of the past by binary search.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace hopfeed {

/// order[i] = position of the i-th earliest of `times`, which has fewer than 2^32 elements.
inline void order_by_time(std::span<const std::int64_t> times, std::vector<std::uint32_t>& order) {
  order.resize(times.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return times[a] != times[b] ? times[a] < times[b] : a < b;
  });
}

}  // namespace hopfeed
