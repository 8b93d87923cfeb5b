// Evictions by hand, and Belady against every choice there is on small traces.
#include "partition_tool/tune/next_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace hopfeed {
namespace {

RowTrace singles(std::int64_t num_rows, const std::vector<std::int64_t>& rows) {
  RowTrace trace{.num_rows = num_rows, .batches = {}};
  for (const std::int64_t row : rows) trace.batches.push_back({row});
  return trace;
}

RowTrace random_trace(std::int64_t num_rows, int num_batches, std::uint32_t seed) {
  std::mt19937 random(seed);
  RowTrace trace{.num_rows = num_rows, .batches = {}};
  for (int b = 0; b < num_batches; ++b) {
    trace.batches.emplace_back();
    for (std::int64_t row = 0; row < num_rows; ++row)
      if (random() % (2 + static_cast<std::uint32_t>(row) / 2) == 0) trace.batches.back().push_back(row);
    std::shuffle(trace.batches.back().begin(), trace.batches.back().end(), random);
  }
  return trace;
}

/// The most hits that any choice of what to keep behind each batch has: all subsets tried.
std::int64_t brute_force(const RowTrace& trace, int capacity) {
  std::map<std::uint32_t, std::int64_t> best{{0, 0}};  // rows held -> hits so far
  for (const auto& batch : trace.batches) {
    std::uint32_t read = 0;
    for (const std::int64_t row : batch) read |= 1U << row;
    std::map<std::uint32_t, std::int64_t> next;
    for (const auto& [held, hits] : best) {
      const std::uint32_t at_hand = held | read;
      const std::int64_t now = hits + std::popcount(held & read);
      for (std::uint32_t kept = at_hand;; kept = (kept - 1) & at_hand) {
        if (std::popcount(kept) <= capacity) {
          auto [place, is_new] = next.emplace(kept, now);
          if (!is_new) place->second = std::max(place->second, now);
        }
        if (kept == 0) break;
      }
    }
    best = std::move(next);
  }
  std::int64_t most = 0;
  for (const auto& [held, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(NextUse, BeladyIsTheBestOfAllChoices) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const RowTrace trace = random_trace(8, 7, seed);
    for (int capacity = 0; capacity <= 8; ++capacity)
      EXPECT_EQ(simulate_belady(trace, capacity, kWholeEpoch).hits, brute_force(trace, capacity))
          << "seed " << seed << ", capacity " << capacity;
  }
}

TEST(NextUse, NothingBeatsBeladyAndAWindowOverAllBatchesIsIt) {
  const RowTrace trace = random_trace(60, 40, 5);
  for (const std::int64_t capacity : {1, 7, 20, 59}) {
    const std::int64_t best = simulate_belady(trace, capacity, kWholeEpoch).hits;
    EXPECT_EQ(simulate_belady(trace, capacity, 40).hits, best);
    for (const std::int64_t window : {0, 1, 2, 4, 16})
      EXPECT_LE(simulate_belady(trace, capacity, window).hits, best);
    EXPECT_LE(simulate_lru(trace, capacity).hits, best);
    EXPECT_LE(simulate_sieve(trace, capacity).hits, best);
  }
}

TEST(NextUse, AWindowKeepsWhatTheNextBatchesRead) {
  // Row 3 is the coldest, and the next batch but one reads it: a window of 1 does not see that, one of 2
  // does.
  const RowTrace trace{.num_rows = 4, .batches = {{0, 3}, {1}, {3}}};
  EXPECT_EQ(simulate_belady(trace, 1, 1).hits, 0);
  EXPECT_EQ(simulate_belady(trace, 1, 2).hits, 1);
  // Without any window it is the hottest rows that were read so far.
  EXPECT_EQ(simulate_belady(singles(4, {2, 1, 2, 1, 1}), 1, 0).hits, 2);
}

TEST(NextUse, StaticHoldsTheHottestFromTheStart) {
  const CacheHits hits = simulate_static({.num_rows = 4, .batches = {{0, 3}, {1, 2}, {0}}}, 2);
  EXPECT_EQ(hits.reads, 5);
  EXPECT_EQ(hits.hits, 3);
  EXPECT_DOUBLE_EQ(hits.rate(), 0.6);
}

TEST(NextUse, LruLetsTheLeastRecentGo) {
  EXPECT_EQ(simulate_lru(singles(3, {0, 1, 0, 2, 0, 1}), 2).hits, 2);  // 1 goes for 2
  EXPECT_EQ(simulate_lru(singles(3, {0, 1, 2, 0, 1, 2}), 2).hits, 0);  // a loop one row too long
}

TEST(NextUse, SieveSparesOnceWhatWasReadAgain) {
  // For 2 and for 3 the hand comes to 0, which was read again, spares it, and takes the one behind.
  EXPECT_EQ(simulate_sieve(singles(4, {0, 1, 0, 2, 0, 3, 0}), 2).hits, 3);
  // Spared once only: 0 is not read again behind the first sparing, so that it goes for 3, and 2 stays.
  EXPECT_EQ(simulate_sieve(singles(4, {0, 1, 0, 2, 3, 2, 0}), 2).hits, 2);
}

TEST(NextUse, ACacheOfNoRowsHasNoHits) {
  const RowTrace trace = random_trace(10, 5, 1);
  EXPECT_EQ(simulate_static(trace, 0).hits + simulate_lru(trace, 0).hits + simulate_sieve(trace, 0).hits, 0);
}

TEST(NextUse, ACacheThatBeginsFullHasTheHottest_AndMissesAreTold) {
  const RowTrace trace{.num_rows = 6, .batches = {{0, 1, 5}, {1, 5, 4}}};
  std::vector<std::pair<std::int64_t, std::int64_t>> missed;
  const CacheHits hits = simulate_belady(
      trace, 2, {.window = 1, .begins_full = true, .missed = [&](std::int64_t batch, std::int64_t row) {
                   missed.emplace_back(batch, row);
                 }});
  EXPECT_EQ(hits.hits, 4);  // 0 and 1; then 1 and 5, which the window knew
  EXPECT_EQ(missed, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 5}, {1, 4}}));
}

}  // namespace
}  // namespace hopfeed
