// The generator against Random123's published answers, and the exactness of bounded draws.
#include "core/draws/keyed_random.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/core/chi_square.h"

namespace hopfeed {
namespace {

TEST(KeyedRandom, PhiloxGivesThePublishedAnswers) {
  // Random123's kat_vectors, philox4x32 with 10 rounds.
  const RandomWords zeros = philox(0, 0, 0, 0, 0);
  EXPECT_EQ(zeros.word[0], 0x6627e8d5u);
  EXPECT_EQ(zeros.word[1], 0xe169c58du);
  EXPECT_EQ(zeros.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zeros.word[3], 0x9b00dbd8u);
  const RandomWords ones = philox(~0u, ~0u, ~0u, ~0u, ~0ull);
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
  const RandomWords pi = philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0x299f31d0a4093822ull);
  EXPECT_EQ(pi.word[0], 0xd16cfe09u);
  EXPECT_EQ(pi.word[1], 0x94fdccebu);
  EXPECT_EQ(pi.word[2], 0x5001e420u);
  EXPECT_EQ(pi.word[3], 0x24126ea1u);
}

TEST(KeyedRandom, EveryPartOfTheKeyMakesAnotherStream) {
  std::set<std::uint64_t> keys;
  const StreamOptions base{
      .purpose = Purpose::kNeighbors, .seed = 1, .epoch = 2, .first = 3, .hop = 4, .edge_type = 5};
  StreamOptions variants[] = {base, base, base, base, base, base, base, base};
  variants[1].purpose = Purpose::kRetries;
  variants[2].seed = std::uint64_t{1} << 63;
  variants[3].epoch = 3;
  variants[4].first = 2;
  variants[5].first = std::int64_t{3} << 33;
  variants[6].hop = 5;
  variants[7].edge_type = 4;
  for (const StreamOptions& options : variants) keys.insert(stream_key(options));
  EXPECT_EQ(keys.size(), std::size(variants));
}

TEST(KeyedRandom, BoundedDrawsAreExactWhereMultiplyShiftAloneIsBiased) {
  // With a bound of 3 * 2^30 plain multiply-shift takes every third value twice as often; rejection must not.
  const std::uint32_t bound = 3u << 30;
  std::vector<std::int64_t> counts(3);
  std::int64_t rejected = 0;
  for (std::uint64_t node = 0; node < 300'000; ++node) {
    const NodeStream stream{.key = 7, .retry_key = 8, .node = node, .tree = 0};
    const std::uint32_t word = stream.words(0).word[0];
    rejected += bounded(word, bound).rejected;
    ++counts[draw_below(stream, 0, word, bound) % 3];
  }
  EXPECT_NEAR(static_cast<double>(rejected) / 300'000, 0.25, 0.01);
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value(counts)))
      << counts[0] << ' ' << counts[1] << ' ' << counts[2];
}

TEST(KeyedRandom, WideDrawsReachBoundsAboveTwoToThe32) {
  const std::uint64_t bound = std::uint64_t{5} << 33;
  std::vector<std::int64_t> counts(5);
  for (std::uint64_t node = 0; node < 200'000; ++node) {
    const NodeStream stream{.key = 7, .retry_key = 8, .node = node, .tree = 0};
    const std::uint64_t value = draw_below_wide(stream, 0, bound);
    ASSERT_LT(value, bound);
    ++counts[value >> 33];
  }
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value(counts)));
}

}  // namespace
}  // namespace hopfeed
