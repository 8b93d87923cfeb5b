// to-undirected, deduplicate, add-self-loops, co-occurrence and made-up interactions, each against what an
// obvious program says.
#include "partition_tool/edit_edges.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "partition_tool/co_occurrence.h"
#include "partition_tool/generate_bipartite.h"
#include "tests/partition_tool/changed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::complaint_of;
using testing::Edge;
using testing::edges_of;
using testing::Ints;
using testing::no_progress;
using testing::TypedGraph;

class EditEdges : public ::testing::Test {
 protected:
  fs::path write(const TypedGraph& graph, int partitions) {
    const fs::path folder = temp_.path() / ("from" + std::to_string(number_++));
    testing::write_typed_dataset(
        folder, graph,
        partitions > 1 ? testing::random_typed_cut(graph, partitions, 5) : testing::TypedCut());
    return folder;
  }
  /// What `change(dataset)` makes of a graph that was cut into `partitions`.
  template <class Change>
  fs::path made_by(const TypedGraph& graph, int partitions, const Change& change) {
    const Dataset dataset(write(graph, partitions));
    const auto changed = change(dataset);
    const fs::path to = temp_.path() / ("to" + std::to_string(number_++));
    testing::write_dataset(to, changed.graph);
    testing::verify(to);
    return to;
  }
  std::string fingerprint_of(const TypedGraph& graph) { return Dataset(write(graph, 1)).meta().fingerprint; }
  testing::TempFolder temp_;
  int number_ = 0;
};

/// Nodes of one type with parallel edges, loops, weights and times. The row of 4 weighs nothing, nor will
/// those that 18 and 19 have once edges are turned around.
TypedGraph web(std::uint64_t seed) {
  TypedGraph graph{.nodes = {{.name = "p", .count = 20}},
                   .edges = {{.src = "p", .rel = "links", .dst = "p"}}};
  std::mt19937_64 random(seed);
  for (std::int64_t e = 0; e < 150; ++e) {
    graph.edges[0].sources.push_back(static_cast<std::int64_t>(random() % 20));
    graph.edges[0].destinations.push_back(static_cast<std::int64_t>(random() % 18));
    const bool weighs = graph.edges[0].destinations.back() != 4 && graph.edges[0].sources.back() < 18;
    graph.edges[0].weight.push_back(weighs ? 1 + static_cast<double>(random() % 5) : 0);
    graph.edges[0].time.push_back(static_cast<std::int64_t>(random() % 1000));
  }
  return graph;
}

/// The edges whose numbers are listed, as a list of their own.
testing::TypedEdges chosen(const testing::TypedEdges& all, const Ints& numbers) {
  testing::TypedEdges edges{.src = all.src, .rel = all.rel, .dst = all.dst};
  for (const std::int64_t e : numbers) {
    edges.sources.push_back(all.sources[e]);
    edges.destinations.push_back(all.destinations[e]);
    if (!all.weight.empty()) edges.weight.push_back(all.weight[e]);
    if (!all.time.empty()) edges.time.push_back(all.time[e]);
  }
  return edges;
}

/// Numbers of the first edge of each pair.
Ints first_of_pairs(const testing::TypedEdges& edges) {
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  Ints numbers;
  for (std::int64_t e = 0; e < std::ssize(edges.sources); ++e)
    if (seen.emplace(edges.sources[e], edges.destinations[e]).second) numbers.push_back(e);
  return numbers;
}

// The fingerprint covers neighbours, ids and attributes of every row: one list of edges, imported, is what
// the tool must make.
TEST_F(EditEdges, DeduplicateIsAnImportOfTheFirstEdgeOfEachPair) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const TypedGraph graph = web(seed);
    TypedGraph expected = graph;
    expected.edges[0] = chosen(graph.edges[0], first_of_pairs(graph.edges[0]));
    ASSERT_LT(expected.edges[0].sources.size(), 150U);
    for (const int partitions : {1, 3}) {
      const Dataset made(made_by(graph, partitions, [&](const Dataset& dataset) {
        EditedGraph edited = deduplicate(dataset, {.threads = 1 + partitions}, no_progress);
        EXPECT_EQ(edited.types.size(), 1U);
        EXPECT_EQ(edited.types[0].before, 150);
        EXPECT_EQ(edited.types[0].after, std::ssize(expected.edges[0].sources));
        return edited;
      }));
      EXPECT_EQ(made.meta().fingerprint, fingerprint_of(expected));
      EXPECT_EQ(made.meta().edge_types[0].weights, (std::vector<std::string>{"weight"}));
      EXPECT_EQ(made.meta().edge_types[0].times, (std::vector<std::string>{"time"}));
    }
  }
}

TEST_F(EditEdges, ToUndirectedMergesEdgesWithTheirReverse) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const TypedGraph graph = web(seed);
    testing::TypedEdges both = graph.edges[0];
    for (std::size_t e = 0; e < 150; ++e) {
      both.sources.push_back(graph.edges[0].destinations[e]);
      both.destinations.push_back(graph.edges[0].sources[e]);
      both.weight.push_back(graph.edges[0].weight[e]);
      both.time.push_back(graph.edges[0].time[e]);
    }
    TypedGraph expected = graph;
    expected.edges[0] = chosen(both, first_of_pairs(both));
    for (const int partitions : {1, 2})
      EXPECT_EQ(Dataset(made_by(graph, partitions,
                                [&](const Dataset& dataset) {
                                  return to_undirected(dataset, {.threads = 3}, no_progress);
                                }))
                    .meta()
                    .fingerprint,
                fingerprint_of(expected));
  }
}

TEST_F(EditEdges, ToUndirectedAddsTheReverseOfATypeBetweenTwoNodeTypes) {
  const TypedGraph with = testing::shop_graph(20, 15, 200, 3);
  TypedGraph graph = with, expected = with;
  graph.edges.pop_back();
  expected.edges[1].weight = expected.edges[0].weight;  // a reverse has the attributes of its edge
  for (const int partitions : {1, 3}) {
    const Dataset made(made_by(graph, partitions, [&](const Dataset& dataset) {
      return to_undirected(dataset, {.threads = 2}, no_progress);
    }));
    EXPECT_EQ(made.meta().fingerprint, fingerprint_of(expected));
    EXPECT_EQ(made.meta().edge_types[1].times, (std::vector<std::string>{"time"}));
    EXPECT_EQ(made.meta().edge_types[1].weights, (std::vector<std::string>{"weight"}));
  }
  const Dataset again(made_by(expected, 1, [&](const Dataset& dataset) {
    EditedGraph edited = to_undirected(dataset, {}, no_progress);
    EXPECT_TRUE(edited.types.empty());
    return edited;
  }));
  EXPECT_EQ(again.meta().fingerprint, fingerprint_of(expected)) << "what has its reverse stays as it is";
}

TEST_F(EditEdges, AReverseKeepsATimeOfNodesOnlyWhereItsOwnSourcesHaveIt) {
  TypedGraph graph = testing::shop_graph(20, 15, 200, 3);
  graph.edges.pop_back();
  graph.edges[0].time.clear();
  graph.nodes[0].time.assign(20, 4);
  const auto undirected = [&](const Dataset& dataset) { return to_undirected(dataset, {}, no_progress); };
  EXPECT_TRUE(Dataset(made_by(graph, 1, undirected)).meta().edge_types[1].times.empty());
  graph.nodes[1].time.assign(15, 4);
  EXPECT_EQ(Dataset(made_by(graph, 1, undirected)).meta().edge_types[1].times,
            (std::vector<std::string>{"time"}));
}

TEST_F(EditEdges, ANameThatIsTakenIsRefused) {
  TypedGraph graph = testing::shop_graph(20, 15, 200, 3);
  graph.edges[1].rev_of.clear();
  EXPECT_NE(complaint_of([&] {
              made_by(graph, 1, [&](const Dataset& dataset) {
                return to_undirected(dataset, {.edge_types = {"buys"}}, no_progress);
              });
            }).find("item__rev_buys__user already"),
            std::string::npos);
}

TEST_F(EditEdges, SelfLoopsAreAddedWhereThereAreNone) {
  const TypedGraph graph = web(2);
  TypedGraph expected = graph;
  std::set<std::int64_t> have;
  for (std::size_t e = 0; e < 150; ++e)
    if (graph.edges[0].sources[e] == graph.edges[0].destinations[e]) have.insert(graph.edges[0].sources[e]);
  ASSERT_FALSE(have.empty());
  for (std::int64_t v = 0; v < 20; ++v) {
    if (have.contains(v)) continue;
    expected.edges[0].sources.push_back(v);
    expected.edges[0].destinations.push_back(v);
    expected.edges[0].weight.push_back(0.5);
    expected.edges[0].time.push_back(-7);
  }
  for (const int partitions : {1, 2}) {
    SelfLoopOptions options;
    options.threads = 2;
    options.fill = {{"weight", "0.5"}, {"time", "-7"}};
    const Dataset made(made_by(graph, partitions, [&](const Dataset& dataset) {
      return add_self_loops(dataset, options, no_progress);
    }));
    EXPECT_EQ(made.meta().fingerprint, fingerprint_of(expected));
  }
}

TEST_F(EditEdges, LoopsThatMakeNoSenseAreOneLine) {
  const auto refusal = [&](const TypedGraph& graph, const std::vector<std::string>& types,
                           const std::map<std::string, std::string>& fill) {
    SelfLoopOptions options;
    options.edge_types = types;
    options.fill = fill;
    return complaint_of([&] {
      made_by(graph, 1,
              [&](const Dataset& dataset) { return add_self_loops(dataset, options, no_progress); });
    });
  };
  const TypedGraph shop = testing::shop_graph(9, 9, 40, 1);
  EXPECT_NE(refusal(shop, {}, {}).find("no edge type has both ends in one node type"), std::string::npos);
  EXPECT_NE(refusal(shop, {"buys"}, {}).find("leads from one node type to another"), std::string::npos);
  EXPECT_NE(refusal(web(1), {}, {{"weight", "1"}}).find("--fill time=NUMBER"), std::string::npos);
  EXPECT_NE(refusal(web(1), {}, {{"weight", "1"}, {"time", "1.5"}}).find("no number that fits int64"),
            std::string::npos);
  EXPECT_NE(refusal(web(1), {}, {{"weight", "1"}, {"time", "1"}, {"size", "1"}}).find("has this attribute"),
            std::string::npos);
}

// Where u -> v is held out and v -> u is an edge, to-undirected would make u -> v one again; a loop may be
// held out too.
TEST_F(EditEdges, EdgesThatAreHeldOutLinksAreNotAdded) {
  TypedGraph graph{.nodes = {{.name = "p", .count = 9}},
                   .edges = {{.src = "p",
                              .rel = "links",
                              .dst = "p",
                              .sources = {1, 8, 2, 5, 3, 0},
                              .destinations = {3, 3, 3, 3, 4, 6}}}};
  auto& splits = graph.edges[0].splits;
  const auto refusal = [&](auto change) { return complaint_of([&] { made_by(graph, 1, change); }); };
  const auto undirected = [](const Dataset& dataset) { return to_undirected(dataset, {}, no_progress); };
  const auto loops = [](const Dataset& dataset) {
    SelfLoopOptions options;
    options.edge_types = {"links"};
    return add_self_loops(dataset, options, no_progress);
  };
  splits["train"] = {.pairs = {3, 5, 4, 4}};
  splits["valid"] = {.pairs = {3, 5, 3, 7, 4, 4}, .labels = {0, 1, 0}};
  splits["test"] = {.pairs = {6, 7, 3, 0}};
  EXPECT_EQ(refusal(undirected), "") << "links to train on, negatives, and links between others";
  EXPECT_EQ(refusal(loops), "");
  splits["test"] = {.pairs = {6, 7, 3, 7, 3, 5}};
  EXPECT_NE(refusal(undirected).find("3 -> 5 is held out by an edge split, and to-undirected would"),
            std::string::npos);
  EXPECT_EQ(refusal(loops), "");
  splits["test"] = {.pairs = {4, 4}};
  EXPECT_EQ(refusal(undirected), "");
  EXPECT_NE(refusal(loops).find("4 -> 4 is held out by an edge split, and add-self-loops would"),
            std::string::npos);
  // Nor in the reverse of a type with splits, which to-undirected leaves as it is.
  splits["test"] = {.pairs = {3, 5, 4, 4}};
  graph.edges.push_back(graph.edges[0]);
  std::swap(graph.edges[0].sources, graph.edges[0].destinations);
  graph.edges[0].splits.clear();
  graph.edges[1].rel = "back";
  graph.edges[1].rev_of = "p__links__p";
  EXPECT_NE(refusal(loops).find("4 -> 4 is held out"), std::string::npos);
  EXPECT_EQ(refusal(undirected), "");
  // The reverse of the edges that stayed, as a type beside them, has no held-out link.
  graph = testing::shop_graph(20, 15, 200, 3);
  graph.edges.pop_back();
  graph.edges[0].splits["test"] = {.pairs = {0, 0}};
  EXPECT_EQ(refusal(undirected), "");
}

// ---- co-occurrence

/// item -> {item, users in common}, by the obvious program.
std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> common_users(const testing::TypedEdges& edges,
                                                                           std::int64_t max_degree) {
  std::map<std::int64_t, std::set<std::int64_t>> items_of;
  for (std::size_t e = 0; e < edges.sources.size(); ++e)
    items_of[edges.sources[e]].insert(edges.destinations[e]);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> common;
  for (const auto& [user, items] : items_of) {
    if (std::ssize(items) > max_degree) continue;
    for (const std::int64_t a : items)
      for (const std::int64_t b : items)
        if (a != b) ++common[{a, b}];
  }
  return common;
}

TEST_F(EditEdges, CoOccurrenceIsWhatTheObviousProgramCounts) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    TypedGraph graph = testing::shop_graph(40, 30, 400, seed);
    for (std::int64_t item = 0; item < 25; ++item) {  // a user who buys nearly everything
      graph.edges[0].sources.push_back(7);
      graph.edges[0].destinations.push_back(item);
      graph.edges[0].weight.push_back(1);
      graph.edges[0].time.push_back(9);
    }
    graph.edges.pop_back();
    graph.edges[0].splits["train"] = {.pairs = {0, 0}};
    for (const auto& [min_users, max_degree] : {std::pair{1, 100}, {3, 100}, {2, 14}}) {
      auto expected = common_users(graph.edges[0], max_degree);
      std::erase_if(expected, [&, least = min_users](const auto& pair) { return pair.second < least; });
      ASSERT_FALSE(expected.empty());
      for (const int partitions : {1, 2}) {
        CoOccurrence counted;
        const Dataset made(
            made_by(graph, partitions, [&, least = min_users, most = max_degree](const Dataset& dataset) {
              counted = co_occurrence(dataset,
                                      {.edge_type = "buys",
                                       .min_users = least,
                                       .max_user_degree = most,
                                       .weighted = true,
                                       .threads = 1 + partitions},
                                      no_progress);
              struct Made {
                RawGraph& graph;
              };
              return Made{counted.graph};
            }));
        std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> found;
        const CscView csc = made.csc(1);
        const std::vector<Edge> edges = edges_of(made, 1);
        const auto* users = reinterpret_cast<const std::int64_t*>(made.edge_attr(1, "users").parts[0]);
        std::map<std::int64_t, std::int64_t> users_of_id;
        for (std::int64_t e = 0; e < csc.num_edges; ++e)
          users_of_id[static_cast<const std::int32_t*>(csc.parts[0].edge_ids)[e]] = users[e];
        for (const Edge& edge : edges)
          EXPECT_TRUE(found.emplace(std::pair{edge.source, edge.destination}, users_of_id[edge.id]).second)
              << "each pair once";
        EXPECT_EQ(found, expected);
        EXPECT_EQ(counted.pairs * 2, csc.num_edges);
        std::map<std::int64_t, std::set<std::int64_t>> items_of;
        for (std::size_t e = 0; e < graph.edges[0].sources.size(); ++e)
          items_of[graph.edges[0].sources[e]].insert(graph.edges[0].destinations[e]);
        EXPECT_EQ(counted.users_left_out,
                  std::ranges::count_if(items_of, [most = max_degree](const auto& user) {
                    return std::ssize(user.second) > most;
                  }));
        EXPECT_TRUE(max_degree == 100 || counted.users_left_out > 0);
        EXPECT_EQ(made.meta().edge_types[1].folder(), "item__co_occurs__item");
      }
    }
  }
}

TEST_F(EditEdges, CoOccurrenceOfEdgesThatAreNotSplitIsRefused) {
  TypedGraph graph = testing::shop_graph(20, 15, 200, 3);
  const auto count = [&](const CoOccurrenceOptions& options) {
    return complaint_of([&] {
      made_by(graph, 1, [&](const Dataset& dataset) { return co_occurrence(dataset, options, no_progress); });
    });
  };
  EXPECT_NE(count({.edge_type = "buys"}).find("has no edge split 'train'"), std::string::npos);
  EXPECT_EQ(count({.edge_type = "buys", .all_edges = true}), "");
  EXPECT_NE(count({.edge_type = "buys", .rel = "a b", .all_edges = true}).find("no valid name"),
            std::string::npos);
  graph.edges[0].splits["test"] = {.pairs = {0, 0}};  // as an import gives them
  EXPECT_NE(count({.edge_type = "buys"}).find("has no edge split 'train'"), std::string::npos);
  graph.edges[0].splits["train"] = {.pairs = {0, 0}};
  EXPECT_EQ(count({.edge_type = "buys"}), "");
}

// ---- made-up interactions

TEST_F(EditEdges, MadeUpInteractionsAreThoseOfTheirSeedWhateverTheThreads) {
  const auto make = [&](int threads, std::uint64_t seed) {
    const fs::path folder = temp_.path() / ("made" + std::to_string(number_++));
    const RawGraph graph = generate_bipartite({.num_users = 300,
                                               .num_items = 900,
                                               .num_interactions = 9'000,
                                               .num_tastes = 8,
                                               .seed = seed,
                                               .threads = threads},
                                              no_progress);
    testing::write_dataset(folder, graph);
    testing::verify(folder);
    return folder;
  };
  const Dataset one(make(1, 1)), three(make(3, 1)), other(make(1, 2));
  EXPECT_EQ(one.meta().fingerprint, three.meta().fingerprint);
  EXPECT_NE(one.meta().fingerprint, other.meta().fingerprint);
  EXPECT_EQ(one.meta().edge_types[1].rev_of, "user__interacts__item");
  // The reverse has the same edges, by id and time.
  std::vector<Edge> forward = edges_of(one, 0), backward = edges_of(one, 1);
  ASSERT_EQ(forward.size(), 9'000U);
  for (Edge& edge : backward) std::swap(edge.source, edge.destination);
  std::ranges::sort(forward, {}, &Edge::id);
  std::ranges::sort(backward, {}, &Edge::id);
  EXPECT_EQ(forward, backward);
  // Tastes are planted: far more than an eighth of the interactions are with items of the user's taste.
  const auto taste = [&](int type, std::int64_t node) {
    return reinterpret_cast<const std::int64_t*>(
        one.attr(type, "taste").parts[0])[one.dataset_id(type, node)];
  };
  const auto loyal = std::ranges::count_if(
      forward, [&](const Edge& edge) { return taste(0, edge.source) == taste(1, edge.destination); });
  EXPECT_NEAR(static_cast<double>(loyal) / 9'000, 0.8 + 0.2 / 8, 0.03);
  // Times are even, users and items far from it.
  const auto early = std::ranges::count_if(forward, [](const Edge& edge) { return edge.time < 777'600 / 4; });
  EXPECT_NEAR(static_cast<double>(early) / 9'000, 0.25, 0.03);
  std::map<std::int64_t, int> users, items;
  for (const Edge& edge : forward) ++users[edge.source], ++items[edge.destination];
  const auto most = [](const std::map<std::int64_t, int>& counts) {
    int largest = 0;
    for (const auto& [node, count] : counts) largest = std::max(largest, count);
    return largest;
  };
  EXPECT_GT(most(users), 4 * 30);
  EXPECT_GT(most(items), 8 * 10);
}

TEST_F(EditEdges, InteractionsOutOfRangeAreRefused) {
  const auto refusal = [](const BipartiteOptions& options) {
    return complaint_of([&] { generate_bipartite(options, no_progress); });
  };
  EXPECT_NE(refusal({.num_users = 0, .num_items = 5}).find("--users 0 is out of range"), std::string::npos);
  EXPECT_NE(
      refusal({.num_users = 5, .num_items = 5, .num_tastes = 6}).find("--tastes 6 is out of range (1 to 5)"),
      std::string::npos);
  EXPECT_NE(refusal({.num_users = 5, .num_items = 5, .num_tastes = 1, .loyalty = 1.5}).find("--loyalty"),
            std::string::npos);
}

}  // namespace
}  // namespace hopfeed
