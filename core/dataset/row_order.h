// Orders a row's edges by a value of each: positions by rising value, equal ones in imported order. The order
// is stored with the dataset: by time, so that temporal sampling finds the neighbours of the past by binary
// search; by original id of the source, so that whether an edge joins two nodes is one (original ids make it
// the same for every cut).
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace hopfeed {

/// Writes order[i] = position of the i-th smallest of `values` (times, or original ids of sources), fewer
/// than 2^32.
inline void order_row(std::span<const std::int64_t> values, std::vector<std::uint32_t>& order) {
  order.resize(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
}

}  // namespace hopfeed
