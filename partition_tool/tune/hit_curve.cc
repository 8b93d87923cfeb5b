// See hit_curve.h.
#include "partition_tool/tune/hit_curve.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace hopfeed {

std::vector<std::int64_t> hotness_order(std::span<const double> hotness, std::span<const std::int64_t> ties,
                                        std::span<const std::int64_t> partition_offsets) {
  std::vector<std::int64_t> order(hotness.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto hotter = [&](std::int64_t a, std::int64_t b) {
    if (hotness[a] != hotness[b]) return hotness[a] > hotness[b];
    return ties.empty() ? a < b : ties[a] < ties[b];
  };
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p)
    std::sort(order.begin() + partition_offsets[p], order.begin() + partition_offsets[p + 1], hotter);
  return order;
}

std::vector<std::int64_t> held_reads(const RowReads& reads, std::span<const std::int64_t> order,
                                     std::span<const HeldShare> shares) {
  std::vector<std::int64_t> before(reads.counts.size() + 1);  // reads of the rows in front, in that order
  for (std::size_t i = 0; i < reads.counts.size(); ++i)
    before[i + 1] = before[i] + reads.counts[order.empty() ? i : static_cast<std::size_t>(order[i])];
  std::vector<std::int64_t> held;
  for (const HeldShare share : shares) {
    std::int64_t sum = 0;
    for (std::size_t p = 0; p + 1 < reads.partition_offsets.size(); ++p) {
      const std::int64_t begin = reads.partition_offsets[p], end = reads.partition_offsets[p + 1];
      sum += before[begin + share.rows(end - begin)] - before[begin];
    }
    held.push_back(sum);
  }
  return held;
}

std::int64_t held_rows_of(std::span<const std::int64_t> partition_offsets, HeldShare share) {
  std::int64_t rows = 0;
  for (std::size_t p = 0; p + 1 < partition_offsets.size(); ++p)
    rows += share.rows(partition_offsets[p + 1] - partition_offsets[p]);
  return rows;
}

}  // namespace hopfeed
