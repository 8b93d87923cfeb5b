// Alias tables and weighted draws: integers that sum up, chances that are right with and without replacement,
// and rows that a few heavy edges would make slow.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/dataset/alias_table.h"
#include "core/sampler/neighbor_sampler.h"
#include "tests/core/chi_square.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

std::vector<std::uint64_t> integers_of(const std::vector<double>& weights) {
  std::vector<AliasEntry> table(weights.size());
  AliasBuilder().build(weights, table);
  std::vector<std::uint64_t> integers(weights.size());
  alias_weights(table, integers.data());
  return integers;
}

TEST(AliasTable, IntegersAreInProportionAndSumUp) {
  for (const std::vector<double>& weights : {std::vector<double>{1},
                                             {1, 1, 1},
                                             {1, 2, 3, 4},
                                             {0, 5, 0, 1e-30, 7},
                                             {1e300, 1e-300, 1e299},
                                             {3, 3, 3, 3, 3, 3, 3}}) {
    const auto integers = integers_of(weights);
    EXPECT_EQ(std::accumulate(integers.begin(), integers.end(), std::uint64_t{0}), weights.size() * kColumn);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(integers[i] == 0, weights[i] == 0) << "positive weights are at least 1, zero stays zero";
      EXPECT_NEAR(static_cast<double>(integers[i]),
                  weights[i] / sum * static_cast<double>(weights.size() * kColumn),
                  static_cast<double>(weights.size()) + 1);
    }
  }
}

// A plain sum of these is off by so much that the first edge, which takes up the difference, has two units
// too many for each edge.
TEST(AliasTable, OfALongRowTheSumIsExact) {
  constexpr std::uint64_t kEdges = 1 << 24;
  const auto integers = integers_of(std::vector<double>(kEdges, 0.1));
  EXPECT_NEAR(static_cast<double>(integers[0]), static_cast<double>(kColumn), kEdges);
  EXPECT_NEAR(static_cast<double>(integers[kEdges / 2]), static_cast<double>(kColumn), 1);
}

// pyg-lib's test of its biased random numbers: cumulated 0, .75, 0, .8, 0, .25, 0, .5.
TEST(AliasTable, SharesOfPygLibsBiases) {
  const auto first_share = [](const std::vector<double>& weights) {
    return static_cast<double>(integers_of(weights)[0]) / static_cast<double>(2 * kColumn);
  };
  EXPECT_EQ(first_share({1.5, 0.5}), 0.75);
  EXPECT_NEAR(first_share({1, 0.25}), 0.8, 1e-9);
  EXPECT_EQ(first_share({0.125, 0.375}), 0.25);
  EXPECT_EQ(first_share({1, 1}), 0.5);
}

TEST(AliasTable, AThresholdOfZeroMeansAWeightOfZero) {
  const std::vector<double> weights{0, 8, 0, 0, 0, 0, 0, 0, 1e-20, 0};
  std::vector<AliasEntry> table(weights.size());
  AliasBuilder().build(weights, table);
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(table[i].threshold == 0, weights[i] == 0) << i;
}

TEST(AliasTable, WeightsThatAreNoneAreRefused) {
  for (const std::vector<double>& weights :
       {std::vector<double>{1, -1}, {1, std::nan("")}, {INFINITY, 1}, {1e308, 1e308, 1e308}}) {
    std::vector<AliasEntry> table(weights.size());
    EXPECT_THROW(AliasBuilder().build(weights, table), Error);
  }
}

TEST(AliasTable, OfWeightsThatAreAllZeroNothingIsDrawn) {
  const std::vector<double> weights(5, 0.0);
  std::vector<AliasEntry> table(weights.size());
  EXPECT_FALSE(AliasBuilder().build(weights, table));
  for (std::uint32_t i = 0; i < table.size(); ++i) EXPECT_TRUE(weighs_nothing(table[i], i));
  EXPECT_EQ(integers_of(weights), std::vector<std::uint64_t>(weights.size(), 0));
  EXPECT_THROW(alias_table(weights), Error) << "of seeds and nodes something has to be drawn";

  EXPECT_TRUE(AliasBuilder().build(std::vector<double>{0, 3, 0, 0, 0}, table));
  for (std::uint32_t i = 0; i < table.size(); ++i) EXPECT_FALSE(weighs_nothing(table[i], i));
}

// Many independent draws of one row at once: each tree of a disjoint batch draws for itself.
class Draws : public ::testing::Test {
 protected:
  static constexpr std::int64_t kTrees = 40'000;

  // How often each edge comes, and each first edge.
  void draw(const std::vector<double>& weights, std::int64_t fanout, bool replace) {
    testing::TypedGraph graph{.nodes = {{.count = static_cast<std::int64_t>(weights.size()) + 1}},
                              .edges = {{}}};
    for (std::size_t i = 0; i < weights.size(); ++i) {
      graph.edges[0].sources.push_back(static_cast<std::int64_t>(i) + 1);
      graph.edges[0].destinations.push_back(0);
      graph.edges[0].weight.push_back(weights[i]);
    }
    testing::write_typed_dataset(folder_.path() / "star", graph);
    const Dataset dataset(folder_.path() / "star");
    const std::vector<std::int64_t> seeds(kTrees, 0);
    const NodeList list(seeds, {.node_type = 0, .shuffle = false});
    BatchMaker maker(
        dataset, list,
        {.fanouts = {fanout}, .replace = replace, .weight = "weight", .disjoint = true, .edge_ids = true});
    const auto block = testing::make_block(maker, {.seed = 11, .epoch = 0, .first = 0, .count = kTrees});
    const auto edges = testing::ints(block.view().get("e_id", Store::kEdge));
    const auto targets = testing::target_row(block.view());
    taken_.assign(weights.size(), 0);
    first_.assign(weights.size(), 0);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      ++taken_[edges[i]];
      if (i == 0 || targets[i] != targets[i - 1]) ++first_[edges[i]];
    }
  }

  // p-value of counts out of kTrees against chances that need not sum up to one.
  static double p_value(const std::vector<std::int64_t>& counts, const std::vector<double>& chances) {
    double statistic = 0, freedom = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const double expected = chances[i] * static_cast<double>(kTrees);
      if (expected == 0) {
        EXPECT_EQ(counts[i], 0);
        continue;
      }
      const double spread = expected * (1 - chances[i]);
      if (spread < 1e-9) continue;
      statistic +=
          (static_cast<double>(counts[i]) - expected) * (static_cast<double>(counts[i]) - expected) / spread;
      ++freedom;
    }
    return testing::chi_square_tail(statistic, freedom);
  }

  testing::TempFolder folder_;
  std::vector<std::int64_t> taken_, first_;
};

// Chances of being taken in k draws in proportion to what is left, by enumeration.
void add_inclusions(const std::vector<double>& weights, std::int64_t k, double chance,
                    std::vector<bool>& taken, std::vector<double>& inclusion) {
  if (k == 0) return;
  double left = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) left += taken[i] ? 0 : weights[i];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (taken[i] || weights[i] == 0) continue;
    const double here = chance * weights[i] / left;
    inclusion[i] += here;
    taken[i] = true;
    add_inclusions(weights, k - 1, here, taken, inclusion);
    taken[i] = false;
  }
}

std::vector<double> inclusions(const std::vector<double>& weights, std::int64_t k) {
  std::vector<bool> taken(weights.size());
  std::vector<double> inclusion(weights.size());
  add_inclusions(weights, k, 1, taken, inclusion);
  return inclusion;
}

TEST_F(Draws, WithReplacementAreInProportion) {
  const std::vector<double> weights{1, 2, 3, 4, 0, 10, 0.5};
  draw(weights, 1, true);
  std::vector<double> chances;
  for (double weight : weights) chances.push_back(weight / 20.5);
  EXPECT_GT(p_value(taken_, chances), 1e-6);
}

TEST_F(Draws, WithoutReplacementAreSuccessive) {
  const std::vector<double> weights{1, 2, 3, 4, 0, 10, 0.5};
  for (std::int64_t k : {1, 2, 3, 5}) {
    draw(weights, k, false);
    EXPECT_GT(p_value(taken_, inclusions(weights, k)), 1e-6) << k << " draws";
    std::vector<double> chances;
    for (double weight : weights) chances.push_back(weight / 20.5);
    EXPECT_GT(p_value(first_, chances), 1e-6) << "the first of " << k;
  }
}

// Rejection would hardly ever get past the heavy ones: what is left is drawn from sums.
TEST_F(Draws, BesideVeryHeavyEdgesTheLightAreAsLikelyAsTheirWeights) {
  const std::vector<double> weights{1e8, 1, 2, 3, 1e8, 4};
  draw(weights, 4, false);
  EXPECT_EQ(taken_[0], kTrees);
  EXPECT_EQ(taken_[4], kTrees);
  std::vector<double> light = inclusions({1, 2, 3, 4}, 2);
  EXPECT_GT(p_value({taken_[1], taken_[2], taken_[3], taken_[5]}, light), 1e-6);
}

TEST_F(Draws, ARowThatWeighsNothingGivesNothing) {
  for (const bool replace : {false, true}) {
    for (const std::int64_t k : {-1, 1, 3, 5, 30}) {
      draw(std::vector<double>(20, 0.0), k, replace);
      EXPECT_EQ(taken_, std::vector<std::int64_t>(20, 0)) << k << " draws";
    }
  }
}

TEST_F(Draws, ARowWithFewerWeightsThanDrawsGivesThemAll) {
  std::vector<double> weights(50, 0);
  weights[7] = 1e-9, weights[31] = 1, weights[49] = 1e9;
  draw(weights, 5, false);
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(taken_[i], weights[i] > 0 ? kTrees : 0) << i;
}

/// How many of the rows of 40 edges that are drawn from are summed up: each cost O(degree), the others
/// O(fanout).
std::uint64_t rows_summed(const std::vector<double>& weights, std::int64_t fanout, bool replace) {
  constexpr std::int64_t kRows = 500;
  testing::TypedEdges edges{.src = "n", .rel = "to", .dst = "n"};
  for (std::int64_t v = 0; v < kRows; ++v) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      edges.sources.push_back((v + static_cast<std::int64_t>(i) + 1) % kRows);
      edges.destinations.push_back(v);
      edges.weight.push_back(weights[i]);
    }
  }
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "data",
                               {.nodes = {{.name = "n", .count = kRows}}, .edges = {edges}});
  const Dataset dataset(folder.path() / "data");
  NeighborSampler sampler(dataset, {.fanouts = {fanout}, .replace = replace, .weight = "weight"});
  std::vector<std::int64_t> seeds(kRows);
  std::iota(seeds.begin(), seeds.end(), 0);
  const TypedSeeds typed{.node_type = 0, .ids = seeds, .times = {}};
  sampler.sample({.key = {.seed = 5, .epoch = 0, .first = 0, .count = kRows}, .seeds = {&typed, 1}});
  return sampler.rows_summed();
}

// At most 2k + 16 draws for k edges, and sums only where a few weights leave nothing to the others. Of the
// first rows' weights those that have been drawn are never more than half: to come to 2k + 16 draws is less
// likely than 1e-6.
TEST(WeightedCost, RowsAreSummedOnlyWhereAFewWeightsAreMostOfThem) {
  std::vector<double> ordinary, heavy(40, 1e-3);
  for (int i = 0; i < 40; ++i) ordinary.push_back(1 + i % 5);
  heavy[3] = heavy[17] = 1e9;
  for (const std::int64_t fanout : {1, 5, 10}) {
    EXPECT_EQ(rows_summed(ordinary, fanout, false), 0U) << fanout;
    EXPECT_EQ(rows_summed(heavy, fanout, true), 0U) << "repeats are what is asked for";
  }
  EXPECT_EQ(rows_summed(heavy, 1, false), 0U);
  EXPECT_EQ(rows_summed(heavy, 3, false), 500U) << "each row, and counted";
  EXPECT_EQ(rows_summed(heavy, -1, false), 0U) << "all edges are no draw";
}

TEST(WeightedScratch, OfAHubThatIsSummed_IsAsLargeAsWasToldAtStart) {
  const testing::TempFolder folder;
  constexpr std::size_t kDegree = 100'000;
  testing::TypedEdges edges{.src = "n", .rel = "to", .dst = "n"};
  edges.sources.assign(kDegree, 1);
  edges.destinations.assign(kDegree, 0);
  edges.weight.assign(kDegree, 1);
  edges.weight[0] = 1e12;  // comes again and again: the second of two is drawn from sums
  testing::write_typed_dataset(folder.path() / "data",
                               {.nodes = {{.name = "n", .count = 2}}, .edges = {edges}});
  const Dataset dataset(folder.path() / "data");
  const std::vector<std::int64_t> ids{0};
  const NodeList seeds(ids, {});
  BatchMaker maker(dataset, seeds, {.fanouts = {2}, .weight = "weight"});
  const testing::Block block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 1});
  EXPECT_EQ(block.view().num_edges(), 2);
  EXPECT_GT(maker.scratch_bytes(), 2 * kDegree * sizeof(std::uint64_t));
  EXPECT_LE(maker.scratch_bytes(), maker.scratch(1).at_most);
}

TEST_F(Draws, AHubOf3000EdgesIsExact) {
  std::vector<double> weights;
  for (int i = 0; i < 3'000; ++i) weights.push_back(1 + i % 7);
  draw(weights, 20, true);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  double statistic = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = 20.0 * kTrees * weights[i] / sum;
    statistic +=
        (static_cast<double>(taken_[i]) - expected) * (static_cast<double>(taken_[i]) - expected) / expected;
  }
  EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, 2'999)));
}

}  // namespace
}  // namespace hopfeed
