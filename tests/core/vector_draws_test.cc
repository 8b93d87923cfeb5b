// Draws in vector lanes against core/draws/sampling_rule.h, one number after the other, on every instruction
// set of this machine.
#include "core/draws/vector_draws.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <random>

#include "core/draws/keyed_shuffle.h"
#include "core/draws/labor_rule.h"
#include "core/draws/sampling_rule.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed {
namespace {

// Leaves one instruction set after the other as the only one; all of them again in the end.
class EachTarget : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<std::int64_t> targets() { return hwy::SupportedAndGeneratedTargets(); }

NodeStream keys_of(std::uint64_t seed) { return node_stream({.seed = seed}); }

// Draws for `count` made-up rows both ways. Rows that the lanes leave to the serial rule must be the doubtful
// ones.
void expect_serial_draws(std::mt19937_64& random, std::uint32_t count, std::uint32_t k,
                         std::uint64_t max_degree, Replacement replacement) {
  const NodeStream keys = keys_of(random());
  DrawRows rows{};
  rows.count = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    rows.tree[i] = static_cast<std::uint32_t>(random());
    rows.node[i] = i % 2 ? random() : random() % 1000;  // ids of more than 32 bits too
    const std::uint64_t least = replacement == Replacement::kWith ? 1 : k + 1;
    rows.degree[i] = std::max<std::uint64_t>(least, random() % max_degree + 1);
  }
  DrawPicks picks;
  const std::uint32_t again = draw_rows(rows, k, replacement, keys, picks);
  ASSERT_EQ(again >> (count - 1) >> 1, 0u) << "a lane behind the last row";
  for (std::uint32_t i = 0; i < count; ++i) {
    const NodeStream stream = keys.of(rows.node[i], static_cast<std::uint32_t>(rows.tree[i]));
    const auto degree = static_cast<std::uint32_t>(rows.degree[i]);
    std::vector<std::uint32_t> serial(k + 4);
    LinearSeen seen;
    if (replacement == Replacement::kWith)
      pick_with_replacement(stream, degree, k, serial.data());
    else
      pick_without_replacement(stream, degree, k, serial.data(), seen);
    if (again >> i & 1) {
      EXPECT_GT(degree, 1u << 16) << "a small range has hardly ever a biased remainder";
      continue;
    }
    for (std::uint32_t j = 0; j < k; ++j)
      ASSERT_EQ(picks.pick[j * DrawRows::kRows + i], serial[j])
          << "row " << i << " of degree " << degree << ", draw " << j;
  }
}

TEST_P(EachTarget, DrawsWithoutReplacement_AreThoseOfTheSerialRule) {
  std::mt19937_64 random(1);
  for (const std::uint64_t max_degree : {6ull, 20ull, 1000ull, 100'000ull}) {
    for (std::uint32_t k = 1; k <= kMaxLaneDraws; ++k)
      for (std::uint32_t count = 1; count <= DrawRows::kRows; ++count)
        expect_serial_draws(random, count, k, max_degree, Replacement::kWithout);
  }
}

TEST_P(EachTarget, DrawsWithReplacement_AreThoseOfTheSerialRule) {
  std::mt19937_64 random(2);
  for (const std::uint64_t max_degree : {1ull, 20ull, 100'000ull}) {
    for (std::uint32_t k = 1; k <= kMaxLaneDraws; ++k)
      expect_serial_draws(random, DrawRows::kRows, k, max_degree, Replacement::kWith);
  }
}

// With ranges near 2^32 half of the draws are doubtful, so the lanes must say so instead of answering.
TEST_P(EachTarget, DegreesNearTheLimit_AreDrawnRightOrLeftToTheSerialRule) {
  std::mt19937_64 random(3);
  for (int repeat = 0; repeat < 200; ++repeat)
    expect_serial_draws(random, DrawRows::kRows, 5, 0xFFFFFFFF, Replacement::kWithout);
}

TEST_P(EachTarget, WeightedDraws_AreThoseOfTheSerialRule) {
  std::mt19937_64 random(4);
  for (const std::uint64_t max_degree : {1ull, 20ull, 100'000ull, 0x7FFFFFFFull}) {
    for (std::uint32_t k = 1; k <= kMaxLaneDraws; ++k) {
      NodeStream keys = keys_of(random());
      DrawRows rows{};
      rows.count = 1 + k % DrawRows::kRows;
      for (std::uint32_t i = 0; i < rows.count; ++i) {
        rows.tree[i] = static_cast<std::uint32_t>(random());
        rows.node[i] = random();
        rows.degree[i] = random() % max_degree + 1;
      }
      DrawPicks picks;
      const std::uint32_t again = draw_alias_rows(rows, k, keys, picks);
      ASSERT_EQ(again >> (rows.count - 1) >> 1, 0u) << "a lane behind the last row";
      for (std::uint32_t i = 0; i < rows.count; ++i) {
        keys.node = rows.node[i];
        keys.tree = static_cast<std::uint32_t>(rows.tree[i]);
        if (again >> i & 1) {
          EXPECT_GT(rows.degree[i], 1u << 16) << "a small range has hardly ever a biased remainder";
          continue;
        }
        for (std::uint32_t t = 0; t < k; ++t) {
          const AliasDraw draw = alias_draw(keys, t, static_cast<std::uint32_t>(rows.degree[i]));
          ASSERT_EQ(picks.pick[t * DrawRows::kRows + i], std::uint64_t{draw.column} << 32 | draw.place);
        }
      }
    }
  }
}

TEST_P(EachTarget, UpperVariates_AreThoseOfTheRule) {
  std::mt19937_64 random(8);
  for (const std::int64_t stride : {1, 2}) {
    for (const std::int64_t count : {0, 1, 15, 16, 63, 64, 65, 1000}) {
      std::vector<std::int64_t> ids(static_cast<std::size_t>(count * stride));
      for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() >> (random() % 2 ? 1 : 40));
      // Two hops share a run of the generator, behind others that stay as they are.
      constexpr std::size_t kAt = 3;
      std::vector<std::uint16_t> uppers(kAt + static_cast<std::size_t>(count), 7), others = uppers;
      const std::uint64_t key = random();
      upper_variates({.first = ids.data(), .count = count, .stride = stride}, key, kAt,
                     {nullptr, uppers.data(), nullptr, others.data()});
      for (std::int64_t i = 0; i < count; ++i) {
        const NodeStream stream{.key = key,
                                .retry_key = 0,
                                .node = static_cast<std::uint64_t>(ids[static_cast<std::size_t>(i * stride)]),
                                .tree = 0};
        const std::size_t at = kAt + static_cast<std::size_t>(i);
        ASSERT_EQ(uppers[at], labor_variate(stream, 1) >> 47) << i << " of " << count;
        ASSERT_EQ(others[at], labor_variate(stream, 7) >> 47) << i << " of " << count;
      }
      for (std::size_t i = 0; i < kAt; ++i) ASSERT_EQ(uppers[i], 7);
      uppers.resize((uppers.size() / kMarkedTogether + 1) * kMarkedTogether);
      std::vector<std::uint8_t> bits(uppers.size() / 8);
      mark_below(uppers.data(), uppers.size(), 0x0800, bits.data());
      for (std::size_t i = 0; i < uppers.size(); ++i) ASSERT_EQ(bits[i / 8] >> i % 8 & 1, uppers[i] < 0x0800);
    }
  }
}

// Also where the upper half of a variate is the threshold's, and only the lower one decides.
TEST_P(EachTarget, VariatesBelowAThreshold_AreThoseOfTheRule) {
  std::mt19937_64 random(9);
  for (const std::size_t count : {1u, 7u, 8u, 33u, 64u}) {
    alignas(64) std::int64_t nodes[kMaxVariates] = {};
    for (std::size_t i = 0; i < count; ++i) nodes[i] = static_cast<std::int64_t>(random() >> 20);
    VariatesBelow below{.key = random(), .hop = static_cast<std::uint32_t>(random() % 16), .threshold = 0};
    const auto variate = [&](std::size_t i) {
      return labor_variate({below.key, 0, static_cast<std::uint64_t>(nodes[i]), 0}, below.hop);
    };
    const std::uint64_t one = variate(random() % count);
    for (const std::uint64_t threshold : {std::uint64_t{1} << 61, one, one + 1, one - 1}) {
      below.threshold = threshold;
      std::vector<std::uint64_t> taken(kMaxVariates), want;
      for (std::size_t i = 0; i < count; ++i)
        if (variate(i) < threshold) want.push_back(i);
      taken.resize(take_below({nodes, count}, below, taken.data()));
      ASSERT_EQ(taken, want);
    }
  }
}

TEST_P(EachTarget, NodesTakenByBit_AreThoseOfTheTable) {
  std::mt19937_64 random(7);
  for (const std::uint32_t num_nodes : {1u, 31u, 32u, 1'000u, 300'000u}) {
    std::vector<std::uint8_t> bits((num_nodes / kMarkedTogether + 2) * kMarkedTogether / 8);
    for (std::uint8_t& byte : bits) byte = static_cast<std::uint8_t>(random());
    for (const std::size_t count : {0u, 1u, 7u, 8u, 15u, 16u, 17u, 100u, 4'096u}) {
      std::vector<std::int32_t> nodes(count);
      for (std::int32_t& node : nodes) node = static_cast<std::int32_t>(random() % num_nodes);
      std::vector<std::uint32_t> places(count + kMarkedTogether), want;
      std::vector<std::int32_t> taken(count + kMarkedTogether), wanted;
      for (std::uint32_t i = 0; i < count; ++i)
        if (bits[static_cast<std::uint32_t>(nodes[i]) / 8] >> nodes[i] % 8 & 1)
          want.push_back(i), wanted.push_back(nodes[i]);
      const std::size_t left = take_marked(nodes, num_nodes, bits.data(), {taken.data(), places.data()});
      places.resize(left);
      taken.resize(left);
      ASSERT_EQ(places, want);
      ASSERT_EQ(taken, wanted);
      places.resize(count + kMarkedTogether);
      taken.resize(count + kMarkedTogether);
      if (count == 0) continue;
      for (const std::int32_t bad : {-1, static_cast<std::int32_t>(num_nodes), INT32_MIN}) {
        nodes[random() % count] = bad;
        EXPECT_EQ(take_marked(nodes, num_nodes, bits.data(), {taken.data(), places.data()}), kNoNode);
      }
    }
  }
}

TEST_P(EachTarget, Shuffle_IsTheSameWithAnyNumberOfPositionsAtATime) {
  for (const std::int64_t size : {1, 2, 5, 1000, 1 << 20}) {
    const KeyedShuffle shuffle(size, 7, 3);
    const std::int64_t count = std::min<std::int64_t>(size, 149);
    std::vector<std::int64_t> together(static_cast<std::size_t>(count));
    shuffle.positions(size - count, together);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t alone = -1;
      shuffle.positions(size - count + i, {&alone, 1});
      EXPECT_EQ(alone, together[static_cast<std::size_t>(i)]) << "position " << i << " of " << size;
    }
  }
}

// Pinned, so that every instruction set gives these and not just the same as itself.
TEST_P(EachTarget, Shuffle_KeepsItsKnownAnswer) {
  std::vector<std::int64_t> positions(10);
  KeyedShuffle(10, 42, 0).positions(0, positions);
  std::vector<std::int64_t> serial(10);
  for (std::int64_t i = 0; i < 10; ++i) {
    // One round at a time by Random123's own generator.
    std::uint64_t x = static_cast<std::uint64_t>(i);
    const std::uint64_t key =
        node_stream({.purpose = Purpose::kShuffle, .seed = 42, .epoch = 0, .hop = 0}).key;
    const NodeStream partners = node_stream({.purpose = Purpose::kShuffle, .seed = 42, .epoch = 0, .hop = 1});
    for (std::uint32_t round = 0; round < 48 + 2 * 4; ++round) {
      const std::uint64_t there = (draw_below_wide(partners, round, 10) + 10 - x) % 10,
                          larger = std::max(x, there);
      if (philox(static_cast<std::uint32_t>(larger), 0, round, 0, key).word[0] & 1) x = there;
    }
    serial[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(x);
  }
  EXPECT_EQ(positions, serial);
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EachTarget, ::testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace hopfeed
