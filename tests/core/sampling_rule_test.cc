// The sampling rule: exactness by chi-square at the degrees where other loaders fail, and Floyd's rule
// against a literal one.
#include "core/draws/sampling_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/draws/pick_set.h"
#include "tests/core/chi_square.h"

namespace hopfeed {
namespace {

NodeStream stream_of(std::uint64_t node) { return node_stream({.seed = 11}).of(node); }

std::vector<std::uint32_t> pick(std::uint64_t node, std::uint32_t degree, std::uint32_t k, bool replace) {
  std::vector<std::uint32_t> picks(k + 4);
  LinearSeen seen;
  if (replace)
    pick_with_replacement(stream_of(node), degree, k, picks.data());
  else
    pick_without_replacement(stream_of(node), degree, k, picks.data(), seen);
  picks.resize(k);
  return picks;
}

// Floyd's algorithm word for word, with a set.
std::vector<std::uint32_t> floyd(std::uint64_t node, std::uint32_t degree, std::uint32_t k) {
  const NodeStream stream = stream_of(node);
  std::vector<std::uint32_t> picks;
  std::set<std::uint32_t> taken;
  for (std::uint32_t j = 0; j < k; ++j) {
    const std::uint32_t word = stream.words(j / 4).word[j % 4];
    std::uint32_t c = draw_below(stream, j, word, degree - k + j + 1);
    if (taken.count(c)) c = degree - k + j;
    taken.insert(c);
    picks.push_back(c);
  }
  return picks;
}

TEST(SamplingRule, WithoutReplacementIsFloydWithEitherSetOfPicks) {
  for (std::uint64_t node = 0; node < 3000; ++node) {
    const std::uint32_t degree = 2 + static_cast<std::uint32_t>(node * 7919 % 500),
                        k = 1 + static_cast<std::uint32_t>(node % (degree - 1));
    const auto expected = floyd(node, degree, k);
    EXPECT_EQ(pick(node, degree, k, false), expected);
    std::vector<std::uint32_t> picks(k + 4);
    PickSet set;
    set.begin(k);
    pick_without_replacement(stream_of(node), degree, k, picks.data(), set);
    picks.resize(k);
    EXPECT_EQ(picks, expected);
  }
}

struct Case {
  std::uint32_t degree, k;
  bool replace;
};

class Uniformity : public ::testing::TestWithParam<Case> {};

// Every neighbour (every block of neighbours for large degrees) is taken equally often.
TEST_P(Uniformity, OfNeighboursByChiSquare) {
  const auto [degree, k, replace] = GetParam();
  const std::uint32_t bins = std::min<std::uint32_t>(degree, 1000);
  const std::uint64_t nodes = std::uint64_t{bins} * 2000 / k;
  std::vector<std::int64_t> counts(bins), first(bins), last(bins);
  for (std::uint64_t node = 0; node < nodes; ++node) {
    const auto picks = pick(node, degree, k, replace);
    if (!replace) {
      ASSERT_EQ(std::set<std::uint32_t>(picks.begin(), picks.end()).size(), k);
    }
    for (std::uint32_t p : picks) {
      ASSERT_LT(p, degree);
      ++counts[std::uint64_t{p} * bins / degree];
    }
  }
  // Without replacement the counts of one node repel each other: the statistic shrinks by the finite
  // population factor.
  double total = 0, statistic = 0;
  for (std::int64_t c : counts) total += static_cast<double>(c);
  for (std::uint32_t b = 0; b < bins; ++b) {
    const std::uint64_t begin = (std::uint64_t{b} * degree + bins - 1) / bins,
                        end = (std::uint64_t{b + 1} * degree + bins - 1) / bins;
    const double expected = total * static_cast<double>(end - begin) / degree;
    statistic +=
        (static_cast<double>(counts[b]) - expected) * (static_cast<double>(counts[b]) - expected) / expected;
  }
  if (!replace) statistic *= (degree - 1.0) / (degree - k);
  const double p = testing::chi_square_tail(statistic, bins - 1.0);
  EXPECT_TRUE(testing::plausible(p)) << "degree " << degree << ", k " << k << ", p = " << p;
}

INSTANTIATE_TEST_SUITE_P(Degrees, Uniformity,
                         ::testing::Values(Case{3, 2, false}, Case{3, 1, false}, Case{100, 10, false},
                                           Case{100, 99, false}, Case{40'000, 15, false},
                                           Case{3'000'000, 15, false}, Case{3'000'000'000u, 15, false},
                                           Case{3, 2, true}, Case{100, 10, true}, Case{40'000, 15, true},
                                           Case{3'000'000, 15, true}));

TEST(SamplingRule, EverySubsetOfASmallRowIsEquallyLikely) {
  std::vector<std::int64_t> counts(32);
  for (std::uint64_t node = 0; node < 100'000; ++node) {
    std::uint32_t mask = 0;
    for (std::uint32_t p : pick(node, 5, 2, false)) mask |= 1u << p;
    ++counts[mask];
  }
  std::vector<std::int64_t> pairs;
  for (std::uint32_t mask = 0; mask < 32; ++mask) {
    if (__builtin_popcount(mask) == 2) {
      pairs.push_back(counts[mask]);
    } else {
      EXPECT_EQ(counts[mask], 0);
    }
  }
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value(pairs)));
}

TEST(SamplingRule, RowsOfFourBillionNeighboursAreDrawnExactlyToo) {
  const std::uint64_t degree = std::uint64_t{6} << 32;
  std::vector<std::int64_t> counts(6);
  PickSet set;
  for (std::uint64_t node = 0; node < 20'000; ++node) {
    std::uint64_t picks[15];
    set.begin(15);
    pick_without_replacement_wide(stream_of(node), degree, 15, picks, set);
    for (std::uint64_t p : picks) {
      ASSERT_LT(p, degree);
      ++counts[p >> 32];
    }
  }
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value(counts)));
}

TEST(SamplingRule, NumDrawnFollowsFanoutAndDegree) {
  EXPECT_EQ(num_drawn(0, 5, false), 0u);
  EXPECT_EQ(num_drawn(0, 5, true), 0u);
  EXPECT_EQ(num_drawn(3, 5, false), 3u);
  EXPECT_EQ(num_drawn(3, 5, true), 5u);
  EXPECT_EQ(num_drawn(9, 5, false), 5u);
  EXPECT_EQ(num_drawn(9, -1, true), 9u);
}

}  // namespace
}  // namespace hopfeed
