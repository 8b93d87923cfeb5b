// Layer-dependent sampling where it is most entangled: more hops than share a hash of the nodes, tables that
// one batch leaves to the next, cuts whose parts end anywhere. Against the rule, node by node, and against
// the serial oracle, field by field.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/draws/labor_rule.h"
#include "core/draws/labor_variates.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

std::int64_t below(std::mt19937_64& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
}

// The rule in words of the generator: block 0 has the upper halves of four hops, block 1 the lower ones.
TEST(LaborRule, FourHopsTakeTheWordsOfTwoBlocks) {
  constexpr std::uint64_t kKey = 0x0123456789ABCDEF, kNode = 0xFEDCBA9876543210;
  for (std::uint32_t hop = 0; hop < 9; ++hop) {
    const auto word = [&](std::uint32_t block) {
      return std::uint64_t{philox(0x76543210, 0xFEDCBA98, 0, block, kKey).word[hop % 4]};
    };
    const std::uint64_t variate = labor_variate({.key = kKey, .retry_key = 0, .node = kNode, .tree = 0}, hop);
    EXPECT_EQ(variate, word(0) << 31 | word(1) >> 1) << "hop " << hop;
    EXPECT_LT(variate, std::uint64_t{1} << 63);
  }
}

class LaborTables : public ::testing::Test {
 protected:
  static constexpr std::int64_t kNodes[] = {20'011, 70};  // with row records, and without
  LaborTables() {
    const testing::TypedGraph graph{
        .nodes = {{.name = "a", .count = kNodes[0]}, {.name = "b", .count = kNodes[1]}},
        .edges = {{.src = "b", .dst = "a", .sources = {3}, .destinations = {5}}}};
    testing::write_typed_dataset(folder_.path() / "data", graph, testing::random_typed_cut(graph, 3, 4));
    dataset_.emplace(folder_.path() / "data");
  }

  // Checks every node in the first hop that is wanted: its upper bits, and whether they are below each cut.
  void expect_rule(const LaborVariates::Wanted& wanted) {
    const LaborVariates::View view = variates_.of(*dataset_, wanted);
    ASSERT_NE(view.uppers, nullptr) << "hop " << wanted.first_hop;
    for (std::int64_t node = 0; node < kNodes[wanted.node_type]; ++node) {
      const auto original = static_cast<std::uint64_t>(dataset_->original_id(wanted.node_type, node));
      const std::uint64_t upper =
          labor_variate({.key = wanted.key, .retry_key = 0, .node = original, .tree = 0}, wanted.first_hop) >>
          47;
      ASSERT_EQ(view.uppers[node], upper) << "node " << node << " in hop " << wanted.first_hop;
      for (std::size_t cut = 0; cut < LaborVariates::kCuts.size(); ++cut)
        ASSERT_EQ(view.below[cut][node / 8] >> node % 8 & 1, upper < LaborVariates::kCuts[cut])
            << "node " << node << " below cut " << cut << " in hop " << wanted.first_hop;
    }
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
  LaborVariates variates_;
};

TEST_F(LaborTables, OfEveryNodeOfEveryPart_AreThoseOfTheRule) {
  ASSERT_GT(dataset_->original_ids(0, 1).count, 5'000);
  ASSERT_NE(dataset_->original_ids(0, 0).count % static_cast<std::int64_t>(kMarkedTogether), 0);
  for (int type : {0, 1})
    for (std::uint32_t hop = 0; hop < 6; ++hop)
      expect_rule({.node_type = type, .key = 77 + hop / kLaborHops, .first_hop = hop, .end_hop = 6});
}

// In a later batch under the same key an earlier hop may need them, or another node type, or a batch in
// between has another key.
TEST_F(LaborTables, WhateverWasAskedBefore_AreThoseOfTheRule) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 40; ++round) {
    const auto hop = static_cast<std::uint32_t>(below(random, 7));
    expect_rule({.node_type = round % 5 == 0 ? 0 : 1,
                 .key = static_cast<std::uint64_t>(below(random, 2)),
                 .first_hop = hop,
                 .end_hop = hop + 1 + static_cast<std::uint32_t>(below(random, 3))});
    if (HasFailure()) return;
  }
}

// Also of those whose upper bits are the threshold's, which the bits below the cut at these would lose.
TEST(LaborTablesView, BitsAboveAThreshold_HaveAllThatMayBeBelowIt) {
  const std::uint8_t bits[3] = {};
  const LaborVariates::View view{.below = {&bits[0], &bits[1], &bits[2]}};
  EXPECT_EQ(view.bits_above(0), &bits[0]);
  EXPECT_EQ(view.bits_above(0x07FF), &bits[0]);
  EXPECT_EQ(view.bits_above(0x0800), &bits[1]);
  EXPECT_EQ(view.bits_above(0x7FFF), &bits[2]);
  EXPECT_EQ(view.bits_above(0x8000), nullptr);
}

TEST_F(LaborTables, OfTheHopsToCome_AreMadeAtOnceAndKept) {
  const auto of = [&](std::uint32_t hop) {
    return variates_.of(*dataset_, {.node_type = 0, .key = 5, .first_hop = hop, .end_hop = 6}).uppers;
  };
  const std::uint16_t* const first = of(1);
  const std::uint16_t before = first[0];
  const_cast<std::uint16_t*>(first)[0] ^= 1;  // a second making would mend it
  EXPECT_NE(of(2), first);
  EXPECT_EQ(of(1)[0], before ^ 1);
  of(0);  // was not among them
  EXPECT_EQ(of(1)[0], before);
}

constexpr std::int64_t kLayers = 9, kWidth = 50;

// Every in-edge of layer l comes from layer l + 1, so that a hop has its frontier however deep it is. Two
// edge types share a source type, and one has sources without in-edges.
testing::TypedGraph layers(std::mt19937_64& random) {
  testing::TypedGraph graph{
      .nodes = {{.name = "a", .count = kLayers * kWidth, .y = Ints(kLayers * kWidth, 1)},
                {.name = "b", .count = 90, .y = Ints(90, 1)}}};
  Ints place(kLayers * kWidth);
  std::iota(place.begin(), place.end(), 0);
  std::ranges::shuffle(place, random);
  for (const char* rel : {"r0", "r1", "from_b"}) {
    testing::TypedEdges edges{.src = rel[0] == 'f' ? "b" : "a", .rel = rel, .dst = "a"};
    for (std::int64_t node = 0; node < kLayers * kWidth; ++node) {
      const std::int64_t layer = node / kWidth;
      if (edges.src == "a" && layer + 1 == kLayers) continue;
      for (std::int64_t degree = below(random, node % 7 == 0 ? 200 : 25); degree > 0; --degree) {
        edges.sources.push_back(edges.src == "b" ? below(random, 90)
                                                 : place[(layer + 1) * kWidth + below(random, kWidth)]);
        edges.destinations.push_back(place[node]);
      }
    }
    graph.edges.push_back(edges);
  }
  // The seeds come first.
  graph.nodes[0].splits["train"] = Ints(place.begin(), place.begin() + 2 * kWidth);
  return graph;
}

BatchOptions deep_options(std::mt19937_64& random) {
  const auto fanouts = [&](std::int64_t hops) {
    const std::int64_t choices[] = {-1, 0, 1, 2, 3, 5, 8, 12};
    Ints list;
    while (std::ssize(list) < hops) list.push_back(choices[below(random, 8)]);
    return list;
  };
  const std::int64_t hops = 5 + below(random, 4);
  BatchOptions options{.fanouts = Ints(static_cast<std::size_t>(hops), 2 + below(random, 4)), .labor = true};
  for (const char* rel : {"r1", "from_b"})
    if (below(random, 3) > 0) options.edge_fanouts[rel] = fanouts(hops);
  options.labor_seeds = below(random, 2) * (1 + below(random, 40));
  options.edge_ids = below(random, 2) == 1;
  return options;
}

// One sampler makes several batches in any order, some under one key, with tables and without.
TEST(LaborOracle, MoreHopsThanShareAHash_GiveTheSameBatchFieldByField) {
  std::mt19937_64 random(8);
  testing::TempFolder folder;
  std::int64_t late_edges = 0;
  for (int round = 0; round < 6; ++round) {
    const testing::TypedGraph graph = layers(random);
    auto cut = testing::random_typed_cut(graph, 1 + round % 4, random());
    cut.wide_ids = round % 2 == 1;
    testing::write_typed_dataset(folder.path() / "graph", graph, cut);
    const Dataset dataset(folder.path() / "graph");
    const Ints& seeds = graph.nodes[0].splits.at("train");
    const NodeList list(seeds, {.node_type = 0, .shuffle = false});
    for (int kind = 0; kind < 4; ++kind) {
      const BatchOptions options = deep_options(random);
      BatchMaker maker(dataset, list, options);
      for (int batch = 0; batch < 5; ++batch) {
        const std::int64_t first = below(random, list.size() - 30);
        const BatchKey key{.seed = 4, .epoch = 0, .first = first, .count = 1 + below(random, 30)};
        SCOPED_TRACE("round " + std::to_string(round) + ", kind " + std::to_string(kind) + ", batch " +
                     std::to_string(batch) + ", options " + options.to_json());
        const auto block = testing::make_block(maker, key);
        const auto expected = testing::serial_sample(
            graph, 0, Ints(seeds.begin() + first, seeds.begin() + first + key.count), options, key);
        testing::expect_same(block.view(), expected, graph, 0, options);
        for (const Ints& per_hop : expected.edges_per_hop)
          late_edges += std::accumulate(per_hop.begin() + kLaborHops, per_hop.end(), std::int64_t{0});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(late_edges, 10'000) << "edges of hops behind the first " << kLaborHops;
}

}  // namespace
}  // namespace hopfeed
