// Layer-dependent sampling: each edge with the probability that it should have, sources shared between
// destinations and, where asked for, between batches. That it is the rule to the letter is what
// kinds_oracle_test.cc shows.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/error.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::int64_t kSources = 40, kDestinations = 10;

// Sources 0 to 39, of which destination 40 + i has the first 4 (i + 1).
class Labor : public ::testing::Test {
 protected:
  Labor() {
    testing::TypedGraph graph{.nodes = {{.count = kSources + kDestinations}}, .edges = {{}}};
    for (std::int64_t i = 0; i < kDestinations; ++i) {
      for (std::int64_t source = 0; source < 4 * (i + 1); ++source) {
        graph.edges[0].sources.push_back(source);
        graph.edges[0].destinations.push_back(kSources + i);
      }
      seeds_.push_back(kSources + i);
    }
    testing::write_typed_dataset(folder_.path() / "data", graph);
    dataset_.emplace(folder_.path() / "data");
    list_.emplace(seeds_, NodeListOptions{.node_type = 0, .shuffle = false});
  }

  // The sources that each destination takes.
  std::vector<std::set<std::int64_t>> taken(const BatchOptions& options, const BatchKey& key) {
    BatchMaker maker(*dataset_, *list_, options);
    const auto block = testing::make_block(maker, key);
    const BatchView view = block.view();
    const Ints index = testing::ints(view.get("edge_index", Store::kEdge, 0));
    const std::size_t edges = index.size() / 2;
    std::vector<std::set<std::int64_t>> sources(static_cast<std::size_t>(key.count));
    for (std::size_t e = 0; e < edges; ++e) sources[index[edges + e]].insert(view.n_id()[index[e]]);
    return sources;
  }

  testing::TempFolder folder_;
  Ints seeds_;
  std::optional<Dataset> dataset_;
  std::optional<NodeList> list_;
};

TEST_F(Labor, EachEdgeIsTakenWithFanoutOverDegree) {
  constexpr std::int64_t kRounds = 20'000, kFanout = 5;
  std::vector<std::vector<std::int64_t>> counts(kDestinations, Ints(kSources, 0));
  for (std::int64_t round = 0; round < kRounds; ++round) {
    const auto sources = taken({.fanouts = {kFanout}, .labor = true},
                               {.seed = 5, .epoch = round, .first = 0, .count = kDestinations});
    for (std::size_t d = 0; d < kDestinations; ++d)
      for (std::int64_t source : sources[d]) ++counts[d][source];
  }
  for (std::int64_t d = 0; d < kDestinations; ++d) {
    const std::int64_t degree = 4 * (d + 1);
    const double chance = std::min(1.0, static_cast<double>(kFanout) / static_cast<double>(degree));
    const double deviation = std::sqrt(kRounds * chance * (1 - chance));
    for (std::int64_t source = 0; source < degree; ++source)
      EXPECT_NEAR(counts[d][source], kRounds * chance, 5 * deviation) << "degree " << degree;
  }
}

TEST_F(Labor, DestinationsOfLargerDegree_TakeAPartOfWhatOthersTake) {
  const auto sources =
      taken({.fanouts = {5}, .labor = true}, {.seed = 1, .first = 0, .count = kDestinations});
  for (std::size_t d = 1; d + 1 < kDestinations; ++d) {
    const auto known = static_cast<std::int64_t>(4 * (d + 1));  // sources that both have
    for (std::int64_t source : sources[d + 1]) {
      if (source < known) {
        EXPECT_TRUE(sources[d].contains(source)) << source << " of destination " << d;
      }
    }
  }
}

TEST_F(Labor, BatchesOfOneRunOfPositions_ShareVariates) {
  const BatchOptions shared{.fanouts = {5}, .labor = true, .labor_seeds = kDestinations},
      own{.fanouts = {5}, .labor = true};
  bool differs = false;
  for (std::int64_t first = 0; first < kDestinations; ++first) {
    const auto whole = taken(shared, {.seed = 2, .first = 0, .count = kDestinations});
    EXPECT_EQ(taken(shared, {.seed = 2, .first = first, .count = 1})[0], whole[first]);
    differs |= taken(own, {.seed = 2, .first = first, .count = 1})[0] != whole[first];
  }
  EXPECT_TRUE(differs) << "without labor_seeds each batch has variates of its own";
}

TEST_F(Labor, WhatItCannotGoWithIsRefused) {
  for (const BatchOptions& options :
       {BatchOptions{.replace = true, .labor = true}, BatchOptions{.labor = true, .weight = "weight"},
        BatchOptions{.labor = true, .time = "time"}, BatchOptions{.labor = true, .disjoint = true},
        BatchOptions{.labor = true, .labor_seeds = -1}, BatchOptions{.labor_seeds = 10}})
    EXPECT_THROW(options.validate(), Error);
  EXPECT_FALSE(BatchOptions{.labor = true}.bounded()) << "a row may give all of its edges";
}

}  // namespace
}  // namespace hopfeed
