// The order of source ids in a row: positions by rising original id of the source, parallel edges in imported order. Stored with the
// dataset where it was asked for, so that whether an edge joins two nodes is a binary search. Original ids make it the same for
// every cut.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace hopfeed {

/// order[i] = position of the edge with the i-th smallest of `original_sources`, which has fewer than 2^32 elements.
inline void order_by_id(std::span<const std::int64_t> original_sources, std::vector<std::uint32_t>& order) {
  order.resize(original_sources.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return original_sources[a] != original_sources[b] ? original_sources[a] < original_sources[b] : a < b;
  });
}

}  // namespace hopfeed
