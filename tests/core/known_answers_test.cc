// Cases with answers that other libraries' own tests know (docs/batch.md, pyg-lib's cycle of six and
// cuGraph's), and the faults of those libraries as tests of ours.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/batch/deal.h"
#include "core/sampler/neighbor_sampler.h"
#include "tests/core/sampled_graphs.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

using testing::ints;
using Ints = std::vector<std::int64_t>;

testing::TypedGraph cycle_of_six() { return testing::cycle_of_six("paper"); }

class KnownAnswers : public testing::SampledGraphs {
 protected:
  BatchView sample(const testing::TypedGraph& graph, const Ints& seeds, BatchOptions options) {
    options.edge_ids = edge_ids_;
    return keep(testing::make_batch(open(graph), {.seeds = seeds}, options, 123456));
  }

  static void expect_edges(const BatchView& batch, const Ints& sources, const Ints& targets,
                           const Ints& edges) {
    EXPECT_EQ(testing::source_row(batch), sources);
    EXPECT_EQ(testing::target_row(batch), targets);
    EXPECT_EQ(ints(batch.get("e_id", Store::kEdge)), edges);
  }
  bool edge_ids_ = true;

  static void expect_nodes(const BatchView& batch, const Ints& trees, const Ints& nodes) {
    EXPECT_EQ(ints(batch.get("batch", Store::kNode)), trees);
    EXPECT_EQ(ints(batch.n_id()), nodes);
  }
};

TEST_F(KnownAnswers, HeteroOfOneTypeIsThePlainCase) {
  const BatchView batch = sample(cycle_of_six(), {2, 3}, {.fanouts = {2, 2}});
  expect_edges(batch, {2, 1, 0, 3, 4, 0, 1, 5}, {0, 0, 1, 1, 2, 2, 3, 3}, {4, 5, 6, 7, 2, 3, 8, 9});
  EXPECT_EQ(ints(batch.n_id()), (Ints{2, 3, 1, 4, 0, 5}));
  EXPECT_EQ(ints(batch.num_sampled_nodes()), (Ints{2, 2, 2}));
}

TEST_F(KnownAnswers, AHopOfFanoutZeroDrawsNothingNorDoTheHopsBehindIt) {
  const BatchView last = sample(cycle_of_six(), {2, 3}, {.fanouts = {2, 0}});
  expect_edges(last, {2, 1, 0, 3}, {0, 0, 1, 1}, {4, 5, 6, 7});
  EXPECT_EQ(ints(last.num_sampled_nodes()), (Ints{2, 2, 0}));
  EXPECT_EQ(ints(last.num_sampled_edges()), (Ints{4, 0}));
  for (const bool disjoint : {false, true}) {
    const BatchView first = sample(cycle_of_six(), {2, 3}, {.fanouts = {0, 2}, .disjoint = disjoint});
    EXPECT_EQ(ints(first.n_id()), (Ints{2, 3}));
    EXPECT_EQ(ints(first.num_sampled_nodes()), (Ints{2, 0, 0}));
    EXPECT_EQ(ints(first.num_sampled_edges()), (Ints{0, 0}));
    EXPECT_EQ(ints(sample(cycle_of_six(), {2, 3}, {.fanouts = {0}, .disjoint = disjoint}).n_id()),
              (Ints{2, 3}));
  }
}

TEST_F(KnownAnswers, Disjoint) {
  const BatchView batch = sample(cycle_of_six(), {2, 3}, {.fanouts = {2, 2}, .disjoint = true});
  expect_edges(batch, {2, 3, 4, 5, 6, 0, 0, 7, 8, 1, 1, 9}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5},
               {4, 5, 6, 7, 2, 3, 6, 7, 4, 5, 8, 9});
  expect_nodes(batch, {0, 1, 0, 0, 1, 1, 0, 0, 1, 1}, {2, 3, 1, 3, 2, 4, 0, 4, 1, 5});
  EXPECT_EQ(ints(batch.num_sampled_nodes()), (Ints{2, 4, 4}));
  EXPECT_EQ(ints(batch.num_sampled_edges()), (Ints{4, 8}));
}

TEST_F(KnownAnswers, DisjointSeedsThatRepeatAreTreesOfTheirOwn) {
  const BatchView batch = sample(cycle_of_six(), {2, 2}, {.fanouts = {-1}, .disjoint = true});
  expect_nodes(batch, {0, 1, 0, 0, 1, 1}, {2, 2, 1, 3, 1, 3});
  expect_edges(batch, {2, 3, 4, 5}, {0, 0, 1, 1}, {4, 5, 4, 5});
  EXPECT_EQ(batch.batch_size(), 2);
  EXPECT_FALSE(batch.has("seed_index", Store::kNode));
}

TEST_F(KnownAnswers, TimesOfNodes) {
  testing::TypedGraph graph = cycle_of_six();
  graph.nodes[0].time = {0, 1, 2, 3, 4, 5};
  for (const auto& [strategy, first] :
       {std::pair{TemporalStrategy::kUniform, 2}, std::pair{TemporalStrategy::kLast, 1}}) {
    const BatchView batch =
        sample(graph, {2, 3}, {.fanouts = {first, 2}, .time = "time", .temporal_strategy = strategy});
    expect_edges(batch, {2, 3, 4, 0, 5, 1}, {0, 1, 2, 2, 3, 3}, {4, 6, 2, 3, 4, 5});
    expect_nodes(batch, {0, 1, 0, 1, 0, 1}, {2, 3, 1, 2, 0, 1});
    EXPECT_EQ(ints(batch.get("seed_time", Store::kNode)), (Ints{2, 3}));
  }
}

TEST_F(KnownAnswers, TimesOfEdges) {
  testing::TypedGraph graph = cycle_of_six();
  graph.nodes[0].time = {0, 0, 5, 6, 0, 0};  // of the seeds
  for (std::int64_t e = 0; e < 12; ++e) graph.edges[0].time.push_back(e);
  const BatchView batch = sample(graph, {2, 3}, {.fanouts = {2, 2}, .time = "time"});
  expect_edges(batch, {2, 3, 4, 5, 0, 6, 1}, {0, 0, 1, 2, 2, 4, 4}, {4, 5, 6, 2, 3, 4, 5});
  expect_nodes(batch, {0, 1, 0, 0, 1, 0, 1}, {2, 3, 1, 3, 2, 0, 1});
  graph.nodes[0].time = Ints(6, -1);
  const BatchView early = sample(graph, {2, 3}, {.fanouts = {2, 2}, .time = "time"});
  expect_edges(early, {}, {}, {});
  expect_nodes(early, {0, 1}, {2, 3});
}

// pyg-lib compares 64-bit times as 32-bit ids where those are given.
TEST_F(KnownAnswers, TimesKeepTheir64Bits) {
  testing::TypedGraph graph = cycle_of_six();
  const std::int64_t day = std::int64_t{1} << 40;
  graph.nodes[0].time = {0, day + 1, day, day - 1, 0, 0};
  const BatchView batch = sample(graph, {2}, {.fanouts = {-1}, .time = "time"});
  expect_edges(batch, {1}, {0}, {5});  // node 1 is later by one
}

TEST_F(KnownAnswers, Biased) {
  testing::TypedGraph graph = cycle_of_six();
  for (int e = 0; e < 12; ++e) graph.edges[0].weight.push_back(e % 2 == 0 ? 1 : 0);
  const BatchView batch = sample(graph, {0, 1}, {.fanouts = {1}, .weight = "weight"});
  expect_edges(batch, {2, 0}, {0, 1}, {0, 2});
  EXPECT_EQ(ints(batch.n_id()), (Ints{0, 1, 5}));
}

// cuGraph's: the one edge into node 0 weighs nothing.
TEST_F(KnownAnswers, Biased_ARowThatWeighsNothing) {
  const testing::TypedGraph graph{.nodes = {{.name = "paper", .count = 6}},
                                  .edges = {{.src = "paper",
                                             .dst = "paper",
                                             .sources = {3, 4, 5},
                                             .destinations = {0, 1, 2},
                                             .weight = {0, 12, 14}}}};
  for (const bool replace : {false, true}) {
    const BatchView batch =
        sample(graph, {0, 1, 2}, {.fanouts = {1}, .replace = replace, .weight = "weight"});
    EXPECT_EQ(ints(batch.n_id()), (Ints{0, 1, 2, 4, 5}));
    expect_edges(batch, {3, 4}, {1, 2}, {1, 2});
  }
}

// pyg-lib gives edges of weight zero when it runs out of others.
TEST_F(KnownAnswers, EdgesOfWeightZeroNeverCome) {
  testing::TypedGraph graph = cycle_of_six();
  for (int e = 0; e < 12; ++e) graph.edges[0].weight.push_back(e % 2 == 0 ? 1 : 0);
  for (std::int64_t fanout : {1, 2, 3, -1}) {
    const BatchView batch = sample(graph, {0, 1, 2, 3, 4, 5}, {.fanouts = {fanout}, .weight = "weight"});
    EXPECT_EQ(ints(batch.get("e_id", Store::kEdge)), (Ints{0, 2, 4, 6, 8, 10})) << fanout;
  }
}

TEST_F(KnownAnswers, Bidirectional_HasEachDrawnEdgeInBothDirections) {
  const BatchOptions options{.fanouts = {-1}, .subgraph = Subgraph::kBidirectional, .keep_orig_edges = true};
  const BatchView batch = sample(cycle_of_six(), {2, 3}, options);
  expect_edges(batch, {1, 2, 0, 3, 0, 1}, {0, 0, 1, 1, 2, 3}, {5, 4, 6, 7, 4, 7});
  EXPECT_EQ(ints(batch.n_id()), (Ints{2, 3, 1, 4}));
  EXPECT_EQ(ints(batch.get("_orig_edge_index", Store::kEdge)), (Ints{2, 1, 0, 3, 0, 0, 1, 1}));
  EXPECT_EQ(ints(batch.num_sampled_edges()), (Ints{4})) << "of the drawn edges";
}

TEST_F(KnownAnswers, Bidirectional_HasParallelEdgesAndLoopsOnce) {
  const testing::TypedGraph graph{.nodes = {{.count = 2}},
                                  .edges = {{.sources = {1, 1, 0}, .destinations = {0, 0, 0}}}};
  const BatchView batch = sample(graph, {0}, {.fanouts = {-1}, .subgraph = Subgraph::kBidirectional});
  expect_edges(batch, {0, 1, 0}, {0, 0, 1}, {2, 0, 0});
  for (const char* name : {"_orig_edge_index", "num_sampled_edges"})
    EXPECT_FALSE(batch.has(name, Store::kEdge)) << name;
  EXPECT_FALSE(batch.has("num_sampled_nodes", Store::kNode));
}

// What an edge carries is the drawn one's, also where its reverse is in the graph and was not drawn.
TEST_F(KnownAnswers, Bidirectional_ReversesCarryWhatTheDrawnEdgeHas) {
  const testing::TypedGraph graph{.nodes = {{.count = 2}},
                                  .edges = {{.sources = {1, 0}, .destinations = {0, 1}, .weight = {2.5, 7}}}};
  const BatchView batch =
      sample(graph, {0}, {.fanouts = {-1}, .subgraph = Subgraph::kBidirectional, .edge_attrs = {"weight"}});
  expect_edges(batch, {1, 0}, {0, 1}, {0, 0});
  const auto weights = batch.get("weight", Store::kEdge).as<double>();
  EXPECT_EQ(std::vector<double>(weights.begin(), weights.end()), (std::vector<double>{2.5, 2.5}));
}

testing::TypedGraph authors_and_papers() {
  return {
      .nodes = {{.name = "paper", .count = 2}, {.name = "author", .count = 2}},
      .edges = {{.src = "author", .rel = "writes", .dst = "paper", .sources = {0, 1}, .destinations = {0, 0}},
                {.src = "paper", .rel = "rev_writes", .dst = "author", .sources = {1}, .destinations = {0}}}};
}

TEST_F(KnownAnswers, Bidirectional_ATypeAndItsReverseHaveEachOthersEdges) {
  edge_ids_ = false;
  const BatchView batch =
      sample(authors_and_papers(), {0}, {.fanouts = {-1, -1}, .subgraph = Subgraph::kBidirectional});
  EXPECT_EQ(ints(batch.get("n_id", Store::kNode, 0)), (Ints{0, 1}));
  EXPECT_EQ(ints(batch.get("n_id", Store::kNode, 1)), (Ints{0, 1}));
  EXPECT_EQ(ints(batch.get("edge_index", Store::kEdge, 0)), (Ints{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(ints(batch.get("edge_index", Store::kEdge, 1)), (Ints{0, 1, 0, 0, 0, 1}));
}

TEST_F(KnownAnswers, Bidirectional_ADeclaredReverseNeedsNoName) {
  edge_ids_ = false;
  testing::TypedGraph graph = authors_and_papers();
  graph.edges[1].rel = "written_by";
  graph.edges[1].rev_of = "author__writes__paper";
  graph.edges.push_back(
      {.src = "paper", .rel = "cites", .dst = "paper", .sources = {1}, .destinations = {0}});
  const BatchView batch = sample(
      graph, {0},
      {.fanouts = {-1, -1}, .edge_fanouts = {{"cites", {0, 0}}}, .subgraph = Subgraph::kBidirectional});
  EXPECT_EQ(ints(batch.get("edge_index", Store::kEdge, 0)), (Ints{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(ints(batch.get("edge_index", Store::kEdge, 1)), (Ints{0, 1, 0, 0, 0, 1}));
}

// PyG's and DGL's induced subgraph of a cycle's nodes 1 to 4 (pyg-lib's `subgraph`).
TEST_F(KnownAnswers, Induced_NodesOneToFourOfTheCycle) {
  const BatchView batch =
      sample(cycle_of_six(), {1, 2, 3, 4}, {.fanouts = {}, .subgraph = Subgraph::kInduced});
  expect_edges(batch, {1, 0, 2, 1, 3, 2}, {0, 1, 1, 2, 2, 3}, {3, 4, 5, 6, 7, 8});
}

// cuGraph-PyG's graph of papers and authors, from its papers as node seeds.
TEST_F(KnownAnswers, Hetero_PapersAndTheirAuthors) {
  const testing::TypedGraph graph{.nodes = {{.name = "paper", .count = 6}, {.name = "author", .count = 4}},
                                  .edges = {{.src = "paper",
                                             .rel = "cites",
                                             .dst = "paper",
                                             .sources = {0, 1, 2, 4, 3, 4, 5, 5},
                                             .destinations = {4, 5, 4, 3, 2, 1, 0, 1}},
                                            {.src = "author",
                                             .rel = "writes",
                                             .dst = "paper",
                                             .sources = {0, 1, 2, 3, 3, 0},
                                             .destinations = {0, 1, 2, 3, 4, 5}}}};
  const BatchView batch = sample(graph, {0, 1, 2, 3, 4}, {.fanouts = {2, 2}});
  EXPECT_EQ(ints(batch.get("n_id", Store::kNode, 0)), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(ints(batch.get("n_id", Store::kNode, 1)), (Ints{0, 1, 2, 3}));
  EXPECT_EQ(ints(batch.get("num_sampled_nodes", Store::kNode, 0)), (Ints{5, 1, 0}));
  EXPECT_EQ(ints(batch.get("num_sampled_nodes", Store::kNode, 1)), (Ints{0, 4, 0}));
  EXPECT_EQ(ints(batch.get("num_sampled_edges", Store::kEdge, 0)), (Ints{7, 1}));
  EXPECT_EQ(ints(batch.get("num_sampled_edges", Store::kEdge, 1)), (Ints{5, 1}));
  EXPECT_EQ(ints(batch.get("e_id", Store::kEdge, 0)), (Ints{6, 5, 7, 4, 3, 0, 2, 1}));
  EXPECT_EQ(ints(batch.get("edge_index", Store::kEdge, 1)), (Ints{0, 1, 2, 3, 3, 0, 0, 1, 2, 3, 4, 5}));
}

// pyg-lib's seeds of two types at times of their own, the latest neighbours of each. Its class for types has
// two new nodes B in the last hop and not one: from A0 it goes on to B1 beside the later B0, though one
// neighbour is asked for.
TEST_F(KnownAnswers, Hetero_LatestNeighboursOfSeedsOfTwoTypes) {
  const testing::TypedGraph graph{
      .nodes = {{.name = "A", .count = 3, .time = {1, 0, 3}}, {.name = "B", .count = 2, .time = {2, 1}}},
      .edges = {
          {.src = "B", .rel = "to_a", .dst = "A", .sources = {1, 0, 1, 0}, .destinations = {0, 0, 2, 2}},
          {.src = "A", .rel = "to_b", .dst = "B", .sources = {0, 1, 2}, .destinations = {0, 1, 1}}}};
  const BatchOptions options{.fanouts = {1, 1},
                             .edge_fanouts = {{"to_b", {2, 1}}},
                             .time = "time",
                             .temporal_strategy = TemporalStrategy::kLast};
  NeighborSampler sampler(open(graph), options);
  const Ints of_a{2, 0}, of_b{1, 1, 0}, times_of_a{3, 1}, times_of_b{2, 4, 3};
  const TypedSeeds seeds[] = {{.node_type = 0, .ids = of_a, .times = times_of_a},
                              {.node_type = 1, .ids = of_b, .times = times_of_b}};
  const Sample& sample =
      sampler.sample({.key = {.seed = 1, .epoch = 0, .first = 0, .count = 5}, .seeds = seeds});
  EXPECT_EQ(ints(sample.nodes[0].per_hop), (Ints{2, 4, 2}));
  EXPECT_EQ(ints(sample.nodes[1].per_hop), (Ints{3, 2, 1}));
  EXPECT_EQ(ints(sample.nodes[0].dataset_ids), (Ints{2, 0, 1, 1, 2, 0, 0, 1}));
  EXPECT_EQ(ints(sample.nodes[0].trees), (Ints{0, 1, 2, 3, 3, 4, 0, 1}));
  EXPECT_EQ(ints(sample.nodes[1].dataset_ids), (Ints{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(ints(sample.nodes[1].trees), (Ints{2, 3, 4, 0, 1, 3}));
  EXPECT_EQ(ints(sample.edges[0].per_hop), (Ints{2, 2}));
  EXPECT_EQ(ints(sample.edges[1].per_hop), (Ints{4, 2}));
}

// cuGraph-PyG's len() and drop_last.
TEST(KnownDeals, FiveSeedsInBatchesOfTwo_AreThreeAndTwoWithoutTheLast) {
  EXPECT_EQ(Deal({.batch_size = 2}, 5).steps(), 3);
  EXPECT_EQ(Deal({.batch_size = 2, .drop_last = true}, 5).steps(), 2);
}

TEST_F(KnownAnswers, WhatTheDatasetDoesNotHaveIsNamed) {
  testing::TypedGraph graph = cycle_of_six();
  graph.edges[0].weight = std::vector<double>(12, 1.0);
  const auto refused = [&](const BatchOptions& options, const char* expected) {
    try {
      sample(graph, {2}, options);
      ADD_FAILURE() << "not refused: " << expected;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  refused({.fanouts = {1}, .edge_fanouts = {{"from", {1}}}},
          "no edge type 'from'; the dataset has: paper__to__paper");
  refused({.fanouts = {1}, .edge_fanouts = {{"to", {1, 2}}}},
          "edge type 'to' has 2 fanouts and the others 1");
  refused({.fanouts = {1}, .weight = "w"}, "has no alias tables for a weight 'w'; it has: weight");
  refused({.fanouts = {1}, .time = "time"}, "has no rows in the order of a time 'time'; it has: none");
  refused({.fanouts = {1}, .weight = "weight", .time = "time"}, "weight and time exclude each other");
  refused({.fanouts = {1}, .temporal_strategy = TemporalStrategy::kLast}, "last needs times");
  refused({.fanouts = {1}, .time_window = 3}, "time_window need times");
  refused({.fanouts = {1}, .time_start = 0}, "time_start needs times");
  refused({.fanouts = {1}, .keep_orig_edges = true}, "keep_orig_edges keeps the edges that a bidirectional");
  graph = authors_and_papers();
  refused({.fanouts = {1}, .subgraph = Subgraph::kBidirectional},
          "'author__writes__paper' has the reverses of 'paper__rev_writes__author' among its edges, which "
          "have no edge ids");
  graph.edges.pop_back();
  refused({.fanouts = {1}, .subgraph = Subgraph::kBidirectional},
          "edge type 'author__writes__paper' has no reverse type 'paper__rev_writes__author'");
  graph = cycle_of_six();
  graph.edges[0].weight = std::vector<double>(12, 1.0);
  refused({.fanouts = {1}, .edge_attrs = {"length"}}, "has no attribute 'length'; it has: weight");
}

// Else neighbours later than their seeds would come by it.
TEST_F(KnownAnswers, AnEdgeTypeWhoseTimesNoRowIsInTheOrderOf_IsRefusedUnlessItIsLeftOut) {
  testing::TypedGraph graph = authors_and_papers();
  graph.nodes[0].time.assign(static_cast<std::size_t>(graph.nodes[0].count), 5);
  for (testing::TypedEdges& edges : graph.edges) {
    edges.time.assign(edges.sources.size(), 9);
    edges.in_order_of_time = edges.dst == graph.nodes[0].name && &edges == &graph.edges.front();
  }
  BatchOptions options{.fanouts = {2}, .time = "time"};
  const auto said = [&] {
    try {
      const BatchView batch = sample(graph, {0}, options);
      return std::to_string(batch.total_edges());
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(said().find("was imported without 'time' as its time, though that attribute is there"),
            std::string::npos)
      << said();
  for (std::size_t e = 1; e < graph.edges.size(); ++e) options.edge_fanouts[graph.edges[e].rel] = {0};
  EXPECT_EQ(said(), "0");  // all of the first type are later
}

}  // namespace
}  // namespace hopfeed
