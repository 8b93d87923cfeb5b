// Random walks: against a serial oracle, by their chances, and where they cannot go.
#include "core/sampler/walk_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "tests/core/chi_square.h"
#include "tests/core/random_graphs.h"
#include "tests/oracle/walk_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

BatchOptions walks(const WalkOptions& walk) {
  BatchOptions options{.sampler = BatchOptions::kWalkSampler};
  options.walk = walk;
  options.edge_ids = true;
  return options;
}

std::vector<Ints> ways_of(const BatchView& batch) {
  const ArrayView array = batch.get("walks", Store::kBatch);
  const auto values = array.as<std::int64_t>();
  std::vector<Ints> ways;
  for (std::int64_t w = 0; w < array.shape[0]; ++w)
    ways.emplace_back(values.begin() + w * array.shape[1], values.begin() + (w + 1) * array.shape[1]);
  return ways;
}

/// The walks of a batch in original ids.
std::vector<Ints> named(const BatchView& batch) {
  std::vector<Ints> ways = ways_of(batch);
  for (Ints& way : ways)
    for (std::int64_t& node : way)
      if (node >= 0) node = batch.n_id()[static_cast<std::size_t>(node)];
  return ways;
}

TEST(Walks, OfRandomGraphs_AreTheOracles) {
  const testing::TempFolder folder;
  std::int64_t compared = 0, ended = 0;
  for (int graph_seed = 1; graph_seed <= testing::num_random_graphs(); ++graph_seed) {
    const auto seed = static_cast<std::uint64_t>(graph_seed);
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 60, .num_edges = 200, .num_train = 10, .seed = seed});
    const WalkOptions walk{.length = static_cast<std::int64_t>(1 + seed % 7),
                           .per_seed = static_cast<std::int64_t>(1 + seed % 3),
                           .p = seed % 4 == 0   ? 1000.0
                                : seed % 4 == 1 ? 0.25
                                                : 1.0,
                           .q = seed % 4 == 0   ? 1000.0
                                : seed % 4 == 1 ? 4.0
                                                : 1.0};
    testing::write_tiny_dataset(folder.path() / "graph", graph,
                                testing::random_cut(graph, 1 + static_cast<int>(seed % 3), seed));
    const Dataset dataset(folder.path() / "graph");
    const Ints seeds{5, 17, 5, 40, 0};
    const testing::Block block = testing::make_batch(dataset, {.seeds = seeds}, walks(walk), seed);
    const std::vector<Ints> got = named(block.view());
    ASSERT_EQ(got.size(), seeds.size() * static_cast<std::size_t>(walk.per_seed));
    const testing::TypedGraph typed{.nodes = {{.count = graph.num_nodes}},
                                    .edges = {{.sources = graph.src, .destinations = graph.dst}}};
    for (std::size_t w = 0; w < got.size(); ++w) {
      Ints want{seeds[w / static_cast<std::size_t>(walk.per_seed)]};
      for (const std::int64_t edge : testing::serial_walk(
               typed, {.node = want[0], .number = static_cast<std::uint32_t>(w)}, walk, {.seed = seed}))
        want.push_back(edge < 0 ? -1 : graph.src[static_cast<std::size_t>(edge)]);
      EXPECT_EQ(got[w], want) << "graph " << seed << ", walk " << w;
      ++compared;
      ended += want.back() < 0;
    }
  }
  EXPECT_GT(compared, testing::num_random_graphs() / 2);
  EXPECT_GT(ended, 0) << "some walks meet a node without neighbours";
}

// Two hubs whose rows are sorted behind so many walks from them, one after the other.
TEST(Walks, FromHubs_AreTheOraclesBeforeAndAfterTheirRowsAreSorted) {
  constexpr std::int64_t kLeaves = 100, kWalks = 60;
  testing::TypedGraph graph{.nodes = {{.count = 2 + kLeaves}}, .edges = {{}}};
  const auto add = [&](std::int64_t source, std::int64_t destination) {
    graph.edges[0].sources.push_back(source);
    graph.edges[0].destinations.push_back(destination);
  };
  for (std::int64_t leaf = 2; leaf < 2 + kLeaves; ++leaf) {
    for (const std::int64_t hub : {0, 1}) add(leaf, hub), add(hub, leaf);
    for (const std::int64_t step : {1, 7, 30}) add(2 + (leaf * step + 1) % kLeaves, leaf);
  }
  for (const double q : {4.0, 0.25}) {
    const testing::TempFolder folder;
    testing::write_typed_dataset(folder.path() / "hubs", graph);
    const Dataset dataset(folder.path() / "hubs");
    const WalkOptions walk{.length = 5, .per_seed = kWalks, .p = 2, .q = q};
    const Ints seeds{0, 1, 0};
    const std::vector<Ints> got =
        named(testing::make_batch(dataset, {.seeds = seeds}, walks(walk), 4).view());
    for (std::size_t w = 0; w < got.size(); ++w) {
      Ints want{seeds[w / kWalks]};
      for (const std::int64_t edge : testing::serial_walk(
               graph, {.node = want[0], .number = static_cast<std::uint32_t>(w)}, walk, {.seed = 4}))
        want.push_back(graph.edges[0].sources[static_cast<std::size_t>(edge)]);
      EXPECT_EQ(got[w], want) << "walk " << w;
    }
  }
}

// Each step is an edge of the batch, under its imported position, and the edges are grouped as everywhere.
TEST(Walks, EdgesAreThoseThatWereWalked) {
  const testing::TempFolder folder;
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 80, .num_edges = 900, .num_train = 10, .seed = 4});
  testing::write_tiny_dataset(folder.path() / "graph", graph, testing::random_cut(graph, 2, 4));
  const Dataset dataset(folder.path() / "graph");
  const testing::Block block =
      testing::make_batch(dataset, {.seeds = {1, 2, 3, 4, 1}}, walks({.length = 5, .per_seed = 4}));
  const BatchView batch = block.view();
  const Ints sources = testing::source_row(batch), targets = testing::target_row(batch);
  const auto e_id = batch.get("e_id", Store::kEdge).as<std::int64_t>();
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const auto id = static_cast<std::size_t>(e_id[e]);
    EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(sources[e])], graph.src[id]);
    EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(targets[e])], graph.dst[id]);
  }
  std::size_t begin = 0;
  for (std::size_t hop = 0; hop < 5; ++hop) {
    std::vector<std::pair<std::int64_t, std::int64_t>> walked, listed;
    for (const Ints& way : ways_of(batch))
      if (way[hop + 1] >= 0) walked.emplace_back(way[hop], way[hop + 1]);
    const auto count = static_cast<std::size_t>(batch.num_sampled_edges()[hop]);
    for (std::size_t e = begin; e < begin + count; ++e) listed.emplace_back(targets[e], sources[e]);
    EXPECT_TRUE(std::is_sorted(targets.begin() + static_cast<std::ptrdiff_t>(begin),
                               targets.begin() + static_cast<std::ptrdiff_t>(begin + count)));
    std::sort(walked.begin(), walked.end());
    std::sort(listed.begin(), listed.end());
    EXPECT_EQ(walked, listed);
    begin += count;
  }
  EXPECT_EQ(batch.batch_size(), 4) << "distinct seeds";
}

TEST(Walks, OnTheRing_StepOneOrThreeOfFour) {  // pyg-lib's random_walk
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph", testing::ring_graph(4));
  const Dataset dataset(folder.path() / "graph");
  const testing::Block block = testing::make_batch(dataset, {.seeds = {0, 1, 2, 3}}, walks({.length = 5}));
  const std::vector<Ints> ways = named(block.view());
  ASSERT_EQ(ways.size(), 4U);
  for (const Ints& way : ways) {
    ASSERT_EQ(way.size(), 6U);
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(std::abs(way[i + 1] - way[i]) % 2, 1);
  }
}

// From t = 0 by v = 1: back to 0 weighs 1/p, node 2 is in 0's row, nodes 3 and 4 are not. 0's row is {1, 2},
// 1's {0, 2, 3, 4}.
std::vector<std::int64_t> second_steps(double p, double q, std::int64_t per_seed) {
  const testing::TempFolder folder;
  const testing::TinyGraph graph{.num_nodes = 5, .src = {1, 2, 0, 2, 3, 4}, .dst = {0, 0, 1, 1, 1, 1}};
  testing::write_tiny_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  std::vector<std::int64_t> counts(5);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const testing::Block block = testing::make_batch(
        dataset, {.seeds = {0}}, walks({.length = 2, .per_seed = per_seed, .p = p, .q = q}), seed);
    for (const Ints& way : named(block.view()))
      if (way[1] == 1) ++counts[static_cast<std::size_t>(way[2])];
  }
  return counts;
}

void expect_chances(const std::vector<std::int64_t>& counts, const std::vector<double>& weights) {
  double total = 0, sum = 0, statistic = 0;
  int used = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) total += static_cast<double>(counts[i]), sum += weights[i];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (weights[i] == 0) {
      EXPECT_EQ(counts[i], 0);
      continue;
    }
    const double expected = total * weights[i] / sum, off = static_cast<double>(counts[i]) - expected;
    statistic += off * off / expected;
    ++used;
  }
  EXPECT_GT(total, 10'000);
  EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, used - 1))) << statistic;
}

TEST(Walks, Node2vecsSteps_HaveTheirChances) {
  expect_chances(second_steps(1, 1, 1'000), {1, 0, 1, 1, 1});
  expect_chances(second_steps(0.25, 4, 1'000), {4, 0, 1, 0.25, 0.25});
  expect_chances(second_steps(4, 0.5, 1'000), {0.25, 0, 1, 2, 2});
}

// A leaf's only neighbour is where the walk came from, and 1/p is next to nothing: proposals are refused, the
// sums decide.
TEST(Walks, NoWayButBack_IsTaken) {
  const testing::TempFolder folder;
  const testing::TinyGraph graph{.num_nodes = 2, .src = {1, 0}, .dst = {0, 1}};
  testing::write_tiny_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  const testing::Block block = testing::make_batch(dataset, {.seeds = {0}}, walks({.length = 3, .p = 1e9}));
  EXPECT_EQ(named(block.view()), (std::vector<Ints>{{0, 1, 0, 1}}));
}

TEST(Walks, BackToAHub_SortItsRowInTheScratchThatWasToldAtStart) {
  const testing::TempFolder folder;
  constexpr std::size_t kDegree = 100'000;
  testing::TinyGraph graph{
      .num_nodes = 2, .src = Ints(kDegree, 1), .dst = Ints(kDegree, 0)};  // and the way back to it
  graph.src.push_back(0);
  graph.dst.push_back(1);
  testing::write_tiny_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  const Ints ids{0};
  const NodeList seeds(ids, {});
  BatchMaker maker(dataset, seeds, walks({.length = 2, .p = 1e9}));
  const testing::Block block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 1});
  EXPECT_EQ(named(block.view()), (std::vector<Ints>{{0, 1, 0}}));
  EXPECT_GT(maker.scratch_bytes(), kDegree * sizeof(std::int64_t));
  EXPECT_LE(maker.scratch_bytes(), maker.scratch(1).at_most);
}

TEST(Walks, Metapath_GoesByItsEdgeTypesInTurn) {
  const testing::TempFolder folder;
  const testing::TypedGraph graph{
      .nodes = {{.name = "author", .count = 2}, {.name = "paper", .count = 3}},
      .edges = {{.src = "paper", .rel = "by", .dst = "author", .sources = {0, 2}, .destinations = {0, 1}},
                {.src = "author",
                 .rel = "wrote",
                 .dst = "paper",
                 .sources = {1, 0, 0},
                 .destinations = {0, 1, 2}}}};
  testing::write_typed_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  const WalkOptions walk{.length = 4, .metapath = {"by", "wrote"}};
  const testing::Block block = testing::make_batch(dataset, {.seeds = {0, 1}}, walks(walk));
  const BatchView batch = block.view();
  // author 0 <- paper 0 <- author 1 <- paper 2 <- author 0, and from author 1 the other half of it
  EXPECT_EQ(ways_of(batch), (std::vector<Ints>{{0, 0, 1, 1, 0}, {1, 1, 0, 0, 1}}));
  EXPECT_EQ(testing::ints(batch.get("n_id", Store::kNode, 0)), (Ints{0, 1}));
  EXPECT_EQ(testing::ints(batch.get("n_id", Store::kNode, 1)), (Ints{0, 2}));
}

std::string refused(const Dataset& dataset, const BatchOptions& options) {
  try {
    testing::make_batch(dataset, {.seeds = {0}}, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Walks, ThatCannotBe_AreRefusedByName) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph", testing::ring_graph(4));
  const Dataset dataset(folder.path() / "graph");
  const auto expect = [&](const BatchOptions& options, const std::string& part) {
    const std::string said = refused(dataset, options);
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect(walks({.length = 0}), "walk.length is 0");
  expect(walks({.length = 1'025}), "walk.length is 1025");
  expect(walks({.length = 2, .per_seed = 0}), "walk.per_seed is 0; choose 1 to ");
  expect(walks({.length = 2, .p = 0}), "walk.p is 0");
  expect(walks({.length = 2, .q = std::numeric_limits<double>::quiet_NaN()}), "walk.q is nan");
  expect(walks({.length = 2, .metapath = {"nope"}}), "no edge type 'nope'");
  BatchOptions both = walks({.length = 2});
  both.disjoint = true;
  expect(both, "knows no disjoint");
  BatchOptions stray;
  stray.walk.length = 3;
  expect(stray, "sampler 'neighbor' knows no walk.length");
  BatchOptions unknown;
  unknown.sampler = "nope";
  expect(unknown, "there is no sampler 'nope'");
}

TEST(Walks, FromANodeTypeThatTheMetapathDoesNotEndAt_AreRefusedByTheirNames) {
  const testing::TempFolder folder;
  const testing::TypedGraph graph{
      .nodes = {{.name = "author", .count = 2}, {.name = "paper", .count = 3}},
      .edges = {{.src = "author", .rel = "wrote", .dst = "paper", .sources = {1}, .destinations = {0}}}};
  testing::write_typed_dataset(folder.path() / "graph", graph);
  EXPECT_NE(refused(Dataset(folder.path() / "graph"), walks({.length = 1}))
                .find("begin at node type 'paper', but there are seeds of type 'author'"),
            std::string::npos);
}

TEST(Walks, OptionsComeBackFromTheirText) {
  const BatchOptions options =
      walks({.length = 7, .per_seed = 3, .p = 0.1, .q = 3.7, .metapath = {"a", "b"}});
  EXPECT_EQ(BatchOptions::from_json(options.to_json()).to_json(), options.to_json());
  EXPECT_NE(options.hash(),
            walks({.length = 8, .per_seed = 3, .p = 0.1, .q = 3.7, .metapath = {"a", "b"}}).hash());
}

}  // namespace
}  // namespace hopfeed
