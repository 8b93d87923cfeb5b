// The inclusion probability: answers worked out by hand, the definition written down as products, equal bytes
// with any number of threads.
#include "partition_tool/hotness/hotness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hopfeed {
namespace {

struct Graph {
  std::vector<std::int64_t> indptr;
  std::vector<std::int32_t> indices;
  HotnessGraph view(std::span<const std::int64_t> train) const {
    return {.num_nodes = std::ssize(indptr) - 1,
            .edges = {{.indptr = indptr, .indices = std::span(indices)}},
            .train = train};
  }
};

Graph random_graph(std::int64_t num_nodes, std::int64_t num_edges, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::int32_t>> rows(num_nodes);
  for (std::int64_t e = 0; e < num_edges; ++e)
    rows[random() % (1 + random() % num_nodes)].push_back(static_cast<std::int32_t>(random() % num_nodes));
  Graph graph{.indptr = {0}, .indices = {}};
  for (const auto& row : rows) {
    graph.indices.insert(graph.indices.end(), row.begin(), row.end());
    graph.indptr.push_back(std::ssize(graph.indices));
  }
  return graph;
}

/// The definition, word by word: p_h by products over all pairs of nodes and their out-neighbours.
std::vector<double> by_products(const Graph& graph, const std::vector<std::int64_t>& train,
                                const HotnessOptions& options) {
  const std::int64_t n = std::ssize(graph.indptr) - 1;
  std::vector<double> p(n), missed_all(n, 1.0);
  for (std::int64_t v = 0; v < n; ++v) {
    const bool seed = train.empty() || std::find(train.begin(), train.end(), v) != train.end();
    const double count = train.empty() ? static_cast<double>(n) : static_cast<double>(train.size());
    p[v] = seed ? std::min(1.0, static_cast<double>(options.batch_size) / count) : 0.0;
    missed_all[v] *= 1 - p[v];
  }
  for (std::int64_t fanout : options.fanouts) {
    std::vector<double> next(n);
    for (std::int64_t v = 0; v < n; ++v) {
      double missed = 1;
      for (std::int64_t u = 0; u < n; ++u) {
        const double degree = static_cast<double>(graph.indptr[u + 1] - graph.indptr[u]);
        for (std::int64_t e = graph.indptr[u]; e < graph.indptr[u + 1]; ++e) {
          if (graph.indices[e] == v)
            missed *= 1 - (fanout < 0 ? 1.0 : std::min(1.0, static_cast<double>(fanout) / degree)) * p[u];
        }
      }
      next[v] = 1 - missed;
      missed_all[v] *= missed;
    }
    p = next;
  }
  for (double& value : missed_all) value = 1 - value;
  return missed_all;
}

// Edges 0->1, 1->2, 0->3, 1->3: node 3 draws one of two.
const Graph kDiamond{.indptr = {0, 0, 1, 2, 4}, .indices = {0, 1, 0, 1}};

TEST(Hotness, HandComputedDiamond) {
  const std::vector<std::int64_t> train{2, 3};
  const auto p = inclusion_probability(kDiamond.view(train), {.fanouts = {1, 1}, .batch_size = 1});
  // p0 = 0, 0, 1/2, 1/2; p1(1) = 1 - (1 - 1/2)(1 - 1/4), p1(0) = 1/4; p2(0) = p1(1).
  const std::vector<double> expected{1 - 0.75 * 0.375, 0.625, 0.5, 0.5};
  for (int v = 0; v < 4; ++v) EXPECT_NEAR(p[v], expected[v], 1e-15) << v;
}

TEST(Hotness, FanoutMinusOneTakesAllNeighbours) {
  const std::vector<std::int64_t> train{2, 3};
  const auto p = inclusion_probability(kDiamond.view(train), {.fanouts = {-1}, .batch_size = 1});
  const std::vector<double> expected{0.5, 0.75, 0.5, 0.5};
  for (int v = 0; v < 4; ++v) EXPECT_NEAR(p[v], expected[v], 1e-15) << v;
}

// GLT 0.2 starts each seed at probability 1: then all that training nodes reach is certain, and there is no
// order.
TEST(Hotness, SeedsStartAtBatchSizeOverTrainingNodes_AndKeepTheOrderOfTheirDegrees) {
  constexpr std::int64_t kHubs = 10, kTrain = 100;
  Graph graph{.indptr = std::vector<std::int64_t>(kHubs + 1, 0), .indices = {}};
  std::vector<std::int64_t> train;
  for (std::int64_t t = 0; t < kTrain; ++t) {  // hub i is a neighbour of the first 10 (i + 1) of them
    for (std::int64_t hub = t / 10; hub < kHubs; ++hub)
      graph.indices.push_back(static_cast<std::int32_t>(hub));
    graph.indptr.push_back(std::ssize(graph.indices));
    train.push_back(kHubs + t);
  }
  const auto p = inclusion_probability(graph.view(train), {.fanouts = {-1}, .batch_size = 1});
  for (const std::int64_t t : train) EXPECT_NEAR(p[t], 0.01, 1e-15);
  for (std::int64_t hub = 1; hub < kHubs; ++hub) EXPECT_GT(p[hub], p[hub - 1]);
  EXPECT_LT(p[kHubs - 1], 1);
}

TEST(Hotness, CertainNodesAreOneAndNeverNaN) {
  const std::vector<std::int64_t> train{2, 3};
  const auto p = inclusion_probability(kDiamond.view(train), {.fanouts = {2, 2, 2}, .batch_size = 1000});
  for (int v = 0; v < 4; ++v) EXPECT_EQ(p[v], 1.0) << v;
}

TEST(Hotness, NodesOutOfReachAreZero) {
  const std::vector<std::int64_t> train{1};
  const auto p = inclusion_probability(kDiamond.view(train), {.fanouts = {1}, .batch_size = 1});
  EXPECT_EQ(p, (std::vector<double>{1, 1, 0, 0}));
}

TEST(Hotness, WithoutTrainingNodesEveryNodeIsOne) {
  const std::vector<std::int64_t> everyone{0, 1, 2, 3};
  const HotnessOptions options{.fanouts = {1, 1}, .batch_size = 1};
  EXPECT_EQ(inclusion_probability(kDiamond.view({}), options),
            inclusion_probability(kDiamond.view(everyone), options));
}

TEST(Hotness, RepeatedTrainingNodesCountOnce) {
  const std::vector<std::int64_t> once{2, 3}, twice{3, 2, 3, 3};
  const HotnessOptions options{.fanouts = {1, 1}, .batch_size = 1};
  EXPECT_EQ(inclusion_probability(kDiamond.view(twice), options),
            inclusion_probability(kDiamond.view(once), options));
}

TEST(Hotness, NoHopsLeavesTheSeeds) {
  const std::vector<std::int64_t> train{0, 1, 3};
  const auto p = inclusion_probability(kDiamond.view(train), {.fanouts = {}, .batch_size = 1});
  const std::vector<double> expected{1.0 / 3, 1.0 / 3, 0, 1.0 / 3};
  for (int v = 0; v < 4; ++v) EXPECT_NEAR(p[v], expected[v], 1e-15) << v;
}

TEST(Hotness, EmptyGraphHasNone) {
  const Graph empty{.indptr = {0}, .indices = {}};
  EXPECT_TRUE(inclusion_probability(empty.view({}), {}).empty());
}

TEST(Hotness, AgreesWithTheDefinitionInProducts) {
  for (unsigned seed : {1U, 2U, 3U}) {
    const Graph graph = random_graph(120, 900, seed);
    std::vector<std::int64_t> train;
    for (std::int64_t v = static_cast<std::int64_t>(seed); v < 120; v += 3) train.push_back(v);
    for (const std::vector<std::int64_t>& fanouts :
         {std::vector<std::int64_t>{15, 10, 5}, {2}, {-1, 1}, {1, 1, 1, 1}}) {
      const HotnessOptions options{.fanouts = fanouts, .batch_size = 4};
      const auto fast = inclusion_probability(graph.view(train), options),
                 slow = by_products(graph, train, options);
      for (std::size_t v = 0; v < slow.size(); ++v) EXPECT_NEAR(fast[v], slow[v], 1e-12) << "node " << v;
    }
  }
}

TEST(Hotness, AnyNumberOfThreadsGivesTheSameBits) {
  const Graph graph = random_graph(1'000, 20'000, 7);
  const std::vector<std::int64_t> train{1, 5, 9, 500, 999};
  const auto one = inclusion_probability(graph.view(train), {.batch_size = 2, .threads = 1});
  for (int threads : {2, 3, 8, 2'000})
    EXPECT_EQ(inclusion_probability(graph.view(train), {.batch_size = 2, .threads = threads}), one)
        << threads;
}

TEST(Hotness, WideIdsGiveTheSameBits) {
  const Graph graph = random_graph(300, 3'000, 8);
  const std::vector<std::int64_t> train{1, 2, 3}, wide(graph.indices.begin(), graph.indices.end());
  const HotnessGraph view{.num_nodes = 300,
                          .edges = {{.indptr = graph.indptr, .indices = std::span<const std::int64_t>(wide)}},
                          .train = train};
  EXPECT_EQ(inclusion_probability(view, {.batch_size = 1}),
            inclusion_probability(graph.view(train), {.batch_size = 1}));
}

TEST(Hotness, RowsThatAreMadeGiveTheSameBits) {
  const Graph graph = random_graph(1'000, 20'000, 9);
  const std::vector<std::int64_t> train{1, 5, 999};
  const MakeRow<std::int32_t> make = [&](std::int64_t v, std::span<std::int32_t> row) {
    std::copy_n(graph.indices.begin() + graph.indptr[v], row.size(), row.begin());
  };
  const HotnessGraph made{
      .num_nodes = 1'000, .edges = {{.indptr = graph.indptr, .indices = make}}, .train = train};
  for (int threads : {1, 3})
    EXPECT_EQ(inclusion_probability(made, {.batch_size = 2, .threads = threads}),
              inclusion_probability(graph.view(train), {.batch_size = 2}));
}

TEST(Hotness, EachEdgeTypeDrawsItsFanout) {
  // Types a = {0, 1} and b = {2, 3, 4}. Node 0 has the in-neighbours 2, 3, 4 under the first edge type and 2
  // under the second; node 2 has 1 under the third.
  const std::vector<std::int64_t> from_b{0, 3, 3}, mixed{0, 1, 1}, to_b{0, 1, 1, 1}, train{0};
  const std::vector<std::int32_t> b_nodes{0, 1, 2}, first_b{0}, second_a{1};
  const HotnessGraph graph{
      .num_nodes = 5,
      .edges = {{.indptr = from_b, .indices = std::span(b_nodes), .first_dst = 0, .first_src = 2},
                {.indptr = mixed, .indices = std::span(first_b), .first_dst = 0, .first_src = 2},
                {.indptr = to_b, .indices = std::span(second_a), .first_dst = 2, .first_src = 0}},
      .train = train};
  const double third = 1.0 / 3;
  for (int threads : {1, 4}) {
    const auto p = inclusion_probability(graph, {.fanouts = {1, 1}, .batch_size = 1, .threads = threads});
    const std::vector<double> expected{1, 1, 1, third, third};  // 2 is certain by the second type, then 1
    for (int v = 0; v < 5; ++v) EXPECT_NEAR(p[v], expected[v], 1e-15) << v;
  }
}

}  // namespace
}  // namespace hopfeed
