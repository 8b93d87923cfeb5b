// Hit rates of orders and shares: by hand on few rows, and against the compare that batches are split by.
#include "partition_tool/tune/hit_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/maker/held_split.h"

namespace hopfeed {
namespace {

constexpr HeldShare percent(std::uint32_t value) { return {.millionths = value * 10'000}; }

TEST(HitCurve, HeldIsThePrefixOfEachPartition) {
  const std::vector<std::int64_t> counts{9, 1, 0, 0, 7, 5, 3, 1}, offsets{0, 4, 8};
  const std::vector<HeldShare> shares{percent(0), percent(25), percent(50), percent(100)};
  EXPECT_EQ(held_reads({.counts = counts, .partition_offsets = offsets}, {}, shares),
            (std::vector<std::int64_t>{0, 16, 22, 26}));
}

TEST(HitCurve, OrderIsByPartitionThenHotnessThenTies) {
  const std::vector<double> hotness{1, 3, 2, 5, 5, 9};
  const std::vector<std::int64_t> offsets{0, 3, 6}, ties{0, 0, 0, 8, 2, 0};
  EXPECT_EQ(hotness_order(hotness, {}, offsets), (std::vector<std::int64_t>{1, 2, 0, 5, 3, 4}));
  EXPECT_EQ(hotness_order(hotness, ties, offsets), (std::vector<std::int64_t>{1, 2, 0, 5, 4, 3}));
}

TEST(HitCurve, NoOrderHasMoreHitsThanTheCountsThemselves) {
  const std::vector<std::int64_t> counts{3, 8, 1, 8, 0, 2, 6, 4, 4, 5}, offsets{0, 10};
  const std::vector<double> oracle(counts.begin(), counts.end());
  std::vector<HeldShare> shares;
  for (std::uint32_t i = 0; i <= 10; ++i) shares.push_back(percent(10 * i));
  const RowReads reads{.counts = counts, .partition_offsets = offsets};
  const auto best = held_reads(reads, hotness_order(oracle, {}, offsets), shares),
             stored = held_reads(reads, {}, shares);
  EXPECT_EQ(best, (std::vector<std::int64_t>{0, 8, 16, 22, 27, 31, 35, 38, 40, 41, 41}));
  for (std::size_t i = 0; i < shares.size(); ++i) EXPECT_GE(best[i], stored[i]);
}

TEST(HitCurve, EqualsWhatTheSplitOfBatchesCounts) {
  const std::vector<std::int64_t> offsets{0, 37, 40, 101};
  std::vector<std::int64_t> counts(101);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t b = 0; b < 9; ++b) {
    batches.emplace_back();
    for (std::int64_t v = b; v < 101; v += 3 + b) batches.back().push_back(v);
    for (const std::int64_t v : batches.back()) ++counts[v];
  }
  for (const std::uint32_t ratio : {0U, 1U, 13U, 50U, 99U, 100U}) {
    std::int64_t hits = 0;
    HeldSplit split;
    for (const auto& batch : batches) {
      split.split(batch, offsets, percent(ratio));
      hits += std::ssize(split.held());
    }
    const std::vector<HeldShare> shares{percent(ratio)};
    EXPECT_EQ(held_reads({.counts = counts, .partition_offsets = offsets}, {}, shares).front(), hits)
        << ratio;
  }
}

}  // namespace
}  // namespace hopfeed
