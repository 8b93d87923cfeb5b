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
  variants[1].purpose = Purpose::kWalks;
  variants[2].seed = std::uint64_t{1} << 63;
  variants[3].epoch = 3;
  variants[4].first = 2;
  variants[5].first = std::int64_t{3} << 33;
  variants[6].hop = 5;
  variants[7].edge_type = 4;
  for (const StreamOptions& options : variants) keys.insert(node_stream(options).key);
  EXPECT_EQ(keys.size(), std::size(variants));
}

// First draws and retries of every purpose, in all hops and edge types, epochs and batches near the first
// ones, where a purpose that adds a number to another's would meet it; far hops for those that shift theirs
// by one bit.
TEST(KeyedRandom, NoStreamMeetsAnother) {
  std::vector<std::uint32_t> hops{0, 1, 2, 3, 4, 5};
  for (int bit = 3; bit < 32; ++bit) hops.insert(hops.end(), {1U << bit, (1U << bit) + 1});
  std::set<std::uint64_t> keys;
  std::size_t streams = 0;
  for (std::uint32_t purpose = 0; purpose <= static_cast<std::uint32_t>(kLastPurpose) + 1; ++purpose)
    for (const std::uint32_t hop : hops)
      for (std::uint32_t edge_type = 0; edge_type < 3; ++edge_type)
        for (std::int64_t epoch = 0; epoch < 3; ++epoch)
          for (const std::int64_t first : {0, 1, 1024}) {
            const NodeStream stream = node_stream({.purpose = static_cast<Purpose>(purpose),
                                                   .seed = 1,
                                                   .epoch = epoch,
                                                   .first = first,
                                                   .hop = hop,
                                                   .edge_type = edge_type});
            keys.insert({stream.key, stream.retry_key});
            streams += 2;
          }
  EXPECT_EQ(keys.size(), streams);
}

// What a stream's number is made of is in docs/formats.md: the last number of the first counter is 0 of
// draws and 1 of retries, and no other use has it.
TEST(KeyedRandom, StreamsAreKeyedAsTheTableOfTheDocsHasIt) {
  const auto key_of = [](const RandomWords& words) {
    return static_cast<std::uint64_t>(words.word[1]) << 32 | words.word[0];
  };
  const NodeStream stream = node_stream({.purpose = Purpose::kShuffle,
                                         .seed = 7,
                                         .epoch = std::int64_t{3} << 32 | 2,
                                         .first = std::int64_t{5} << 32 | 4,
                                         .hop = 1,
                                         .edge_type = 9});
  EXPECT_EQ(stream.key, key_of(philox(2, 3, 4, 5, key_of(philox(5, 1, 9, 0, 7)))));
  EXPECT_EQ(stream.retry_key, key_of(philox(2, 3, 4, 5, key_of(philox(5, 1, 9, 1, 7)))));
  EXPECT_EQ(stream.node, 0);
  const NodeStream other = stream.of(11, 12);
  EXPECT_EQ(other.key, stream.key);
  EXPECT_EQ(other.retry_key, stream.retry_key);
  EXPECT_EQ(other.words(2).word[0], philox(11, 0, 12, 2, stream.key).word[0]);
  EXPECT_EQ(other.retry_words(3, 1).word[0], philox(11, 0, 12, 1 << 16 | 3, stream.retry_key).word[0]);
}

// So another retry key moves nothing but the draws that are rejected.
TEST(KeyedRandom, OnlyARejectedDrawLooksAtTheRetries) {
  const std::uint32_t bound = 3u << 30;
  for (std::uint64_t node = 0; node < 1'000; ++node) {
    const NodeStream stream = node_stream({.seed = 3}).of(node);
    NodeStream other = stream;
    other.retry_key = 1;
    const std::uint32_t word = stream.words(0).word[0];
    if (bounded(word, bound).rejected) {
      EXPECT_EQ(draw_below(stream, 0, word, bound),
                draw_below(stream, 0, stream.retry_words(0, 1).word[0], bound))
          << "the next candidate is a retry's";
    } else {
      EXPECT_EQ(draw_below(stream, 0, word, bound), draw_below(other, 0, word, bound));
    }
  }
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
