// The keyed shuffle: a bijection for every size, pairs of positions uniform where small-domain ciphers fail.
#include "core/draws/keyed_shuffle.h"
#include "core/draws/epoch_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/core/chi_square.h"

namespace hopfeed {
namespace {

std::vector<std::int64_t> all_positions(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(size));
  KeyedShuffle(size, seed, epoch).positions(0, out);
  return out;
}

TEST(KeyedShuffle, IsABijectionOfEverySize) {
  for (std::int64_t size : {1, 2, 3, 4, 5, 7, 8, 16, 17, 140, 1000, 65'537}) {
    std::vector<std::int64_t> found = all_positions(size, 9, 4), expected(found.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected) << "size " << size;
  }
}

TEST(KeyedShuffle, APartOfAnEpochEqualsTheWholeEpochThere) {
  const auto whole = all_positions(1000, 3, 1);
  std::vector<std::int64_t> part(77);
  KeyedShuffle(1000, 3, 1).positions(500, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 500));
}

TEST(KeyedShuffle, SeedsAndEpochsGiveDifferentOrders) {
  EXPECT_NE(all_positions(100, 1, 0), all_positions(100, 1, 1));
  EXPECT_NE(all_positions(100, 1, 0), all_positions(100, 2, 0));
}

TEST(KeyedShuffle, HugeListsNeedNoMemory) {
  const std::int64_t size = std::int64_t{1} << 47;
  std::vector<std::int64_t> out(1000);
  KeyedShuffle(size, 1, 1).positions(size - 1000, out);
  std::sort(out.begin(), out.end());
  EXPECT_TRUE(std::adjacent_find(out.begin(), out.end()) == out.end());
  EXPECT_GE(out.front(), 0);
  EXPECT_LT(out.back(), size);
}

// Where do positions (i, j) go, over many keys? All n (n - 1) ordered pairs must be equally likely.
class OrderedPairs : public ::testing::TestWithParam<int> {};

TEST_P(OrderedPairs, OfPositionsAreUniform) {
  const int n = GetParam();
  const int per_pair = n > 100 ? 10 : 200, trials = n * (n - 1) * per_pair;
  const std::int64_t pairs[][2] = {{0, 1}, {0, n - 1}, {n / 2, n / 2 - 1}};
  std::vector<std::vector<std::int64_t>> counts(std::size(pairs),
                                                std::vector<std::int64_t>(static_cast<std::size_t>(n * n)));
  const auto position = [](const KeyedShuffle& shuffle, std::int64_t at) {
    std::int64_t out = 0;
    shuffle.positions(at, {&out, 1});
    return out;
  };
  for (int trial = 0; trial < trials; ++trial) {
    const KeyedShuffle shuffle(n, static_cast<std::uint64_t>(trial / 7), trial % 7);
    for (std::size_t p = 0; p < std::size(pairs); ++p) {
      ++counts[p]
              [static_cast<std::size_t>(position(shuffle, pairs[p][0]) * n + position(shuffle, pairs[p][1]))];
    }
  }
  for (auto& table : counts) {
    std::vector<std::int64_t> off_diagonal;
    for (int i = 0; i < n * n; ++i) {
      if (i / n != i % n) {
        off_diagonal.push_back(table[static_cast<std::size_t>(i)]);
      } else {
        EXPECT_EQ(table[static_cast<std::size_t>(i)], 0);
      }
    }
    const double p = testing::uniform_p_value(off_diagonal);
    EXPECT_TRUE(testing::plausible(p)) << "n = " << n << ", p = " << p;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, OrderedPairs, ::testing::Values(5, 16, 140));

}  // namespace
}  // namespace hopfeed
