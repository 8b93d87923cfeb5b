// split-links: what is held out cannot be reached in training, every edge is somewhere, and the split is the
// same whatever the cut and the threads.
#include <map>
#include <ranges>
#include <variant>
#include <vector>

#include "core/draws/negative_rule.h"
#include "partition_tool/free_pairs.h"
#include "partition_tool/link_negatives.h"
#include "tests/partition_tool/split_links_fixture.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::complaint_of;
using testing::Edge;
using testing::edges_of;
using testing::friends;
using testing::Ints;
using testing::links_of;
using testing::no_progress;
using testing::Pair;
using testing::pairs_of;
using testing::SplitLinks;
using testing::TypedGraph;

void add(std::multiset<Pair>& all, const std::vector<Pair>& pairs) { all.insert(pairs.begin(), pairs.end()); }

TEST_F(SplitLinks, NoHeldOutEdgeOrItsReverseIsReachable) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const TypedGraph graph = testing::shop_graph(20, 15, 250, seed);  // about every other pair occurs again
    const Dataset made(split(graph, {.seed = seed}));
    const std::multiset<Pair> forward = pairs_of(edges_of(made, 0)), backward = pairs_of(edges_of(made, 1));
    for (const char* name : {"valid", "test"}) {
      ASSERT_FALSE(links_of(made, 0, name).empty());
      for (const auto& [user, item] : links_of(made, 0, name)) {
        EXPECT_FALSE(forward.contains({user, item})) << name;
        EXPECT_FALSE(backward.contains({item, user})) << name;
      }
    }
  }
}

TEST_F(SplitLinks, EveryEdgeIsInOnePlace) {
  const TypedGraph graph = testing::shop_graph(30, 20, 300, 4);
  const Dataset made(split(graph, {.num_val = {.count = 17}, .num_test = {.ratio = 0.3}, .seed = 3}));
  std::multiset<Pair> all = pairs_of(edges_of(made, 0));
  std::vector<Pair> train = links_of(made, 0, "train");
  EXPECT_EQ(std::multiset<Pair>(train.begin(), train.end()), all)
      << "training links are the edges of the graph";
  add(all, links_of(made, 0, "valid"));
  add(all, links_of(made, 0, "test"));
  EXPECT_EQ(all, pairs_of(graph.edges[0]));
  const auto distinct = [](const std::vector<Pair>& pairs) {
    return std::set(pairs.begin(), pairs.end()).size();
  };
  const std::multiset<Pair> edges = pairs_of(graph.edges[0]);
  const std::size_t pairs = std::set(edges.begin(), edges.end()).size();
  EXPECT_EQ(distinct(links_of(made, 0, "valid")), 17U);
  EXPECT_EQ(distinct(links_of(made, 0, "test")), static_cast<std::size_t>(0.3 * static_cast<double>(pairs)));
  ASSERT_EQ(types_.size(), 1U);
  EXPECT_EQ(types_[0].edges, 300);
  EXPECT_EQ(types_[0].message + types_[0].valid + types_[0].test, 300);
  EXPECT_EQ(types_[0].reverse_removed, types_[0].valid + types_[0].test);
}

// One edge of each row weighs something; where it is held out, what stays weighs nothing and is no reason to
// refuse the graph.
TEST_F(SplitLinks, ARowMayLoseAllThatItWeighs) {
  TypedGraph graph = testing::shop_graph(20, 15, 250, 3);
  testing::TypedEdges& edges = graph.edges[0];
  std::set<std::int64_t> seen;
  edges.weight.clear();
  for (const std::int64_t destination : edges.destinations)
    edges.weight.push_back(seen.insert(destination).second ? 1 : 0);
  const Dataset made(split(graph, {.num_val = {.ratio = 0.3}, .num_test = {.ratio = 0.3}, .seed = 1}, 2));
  std::map<std::int64_t, double> weight_of_row;
  const AttrView weights = made.edge_attr(0, "weight");
  const CscView csc = made.csc(0);
  for (std::size_t p = 0; p < csc.parts.size(); ++p)
    for (std::int64_t row = 0; row < csc.parts[p].num_rows; ++row)
      for (std::int64_t e = csc.parts[p].rows[row].offset; e < csc.parts[p].rows[row + 1].offset; ++e)
        weight_of_row[csc.parts[p].rows[row].original_id] +=
            reinterpret_cast<const double*>(weights.parts[p])[e];
  EXPECT_GT(std::ranges::count(std::views::values(weight_of_row), 0.0), 0) << "rows without any weight";
}

// The time of an edge is the id that it had.
TEST_F(SplitLinks, EdgesThatStayKeepTheirAttributesAndTheirOrder) {
  const TypedGraph graph = testing::shop_graph(30, 20, 300, 5);
  const Dataset made(split(graph, {.seed = 1}, 3));
  for (int type : {0, 1}) {
    std::vector<Edge> edges = edges_of(made, type);
    for (std::size_t i = 1; i < edges.size(); ++i)
      if (edges[i].destination == edges[i - 1].destination) {
        EXPECT_LT(edges[i - 1].time, edges[i].time);
      }
    std::ranges::sort(edges, {}, &Edge::id);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      EXPECT_EQ(edges[i].id, static_cast<std::int64_t>(i)) << "ids are positions again";
      if (i > 0) {
        EXPECT_LT(edges[i - 1].time, edges[i].time) << "in the old order";
      }
      const testing::TypedEdges& before = graph.edges[type];
      EXPECT_EQ(edges[i].source, before.sources[edges[i].time]);
      EXPECT_EQ(edges[i].destination, before.destinations[edges[i].time]);
    }
  }
  const AttrView weight = made.edge_attr(0, "weight"), time = made.edge_attr(0, "time");
  for (std::int64_t e = 0; e < made.csc(0).num_edges; ++e) {
    const auto id = reinterpret_cast<const std::int64_t*>(time.parts[0])[e];
    EXPECT_EQ(reinterpret_cast<const double*>(weight.parts[0])[e], graph.edges[0].weight[id]);
  }
  for (const char* name : {"train", "valid", "test"}) {
    const LinkSplit links = made.edge_split(0, name);
    for (std::int64_t i = 0; i < links.count(); ++i) {
      if (!links.labels.empty() && links.labels[i] == 0) continue;
      EXPECT_EQ(links.pairs[2 * i], graph.edges[0].sources[links.times[i]]) << name;
      EXPECT_EQ(links.pairs[2 * i + 1], graph.edges[0].destinations[links.times[i]]) << name;
    }
  }
}

TEST_F(SplitLinks, IsTheSameForAnyCutAndAnyNumberOfThreads) {
  const TypedGraph graph = testing::shop_graph(40, 25, 600, 6);
  for (const SplitBy by : {SplitBy::kRandom, SplitBy::kTime}) {
    LinkSplitOptions options{
        .disjoint_train = {.ratio = 0.25}, .by = by, .add_negative_train_samples = true, .seed = 2};
    const std::string expected = Dataset(split(graph, options)).meta().fingerprint;
    for (const int threads : {1, 3, 64}) {
      for (const int partitions : {1, 3}) {
        options.threads = threads;
        EXPECT_EQ(Dataset(split(graph, options, partitions)).meta().fingerprint, expected)
            << threads << " threads, " << partitions << " partitions";
      }
    }
    options.seed = 3;
    EXPECT_NE(Dataset(split(graph, options)).meta().fingerprint, expected);
  }
}

// Three of ten pairs are held out: each in three of ten splits.
TEST_F(SplitLinks, EachPairIsHeldOutAsOftenAsAnother) {
  TypedGraph graph{.nodes = {{.name = "a", .count = 10}, {.name = "b", .count = 2}},
                   .edges = {{.src = "a", .rel = "r", .dst = "b"}}};
  for (std::int64_t e = 0; e < 10; ++e) {
    graph.edges[0].sources.push_back(e);
    graph.edges[0].destinations.push_back(e % 2);
  }
  std::map<Pair, int> held;
  constexpr int kSplits = 400;
  const fs::path from = temp_.path() / "from";
  testing::write_typed_dataset(from, graph);
  const Dataset dataset(from);
  for (std::uint64_t seed = 0; seed < kSplits; ++seed) {
    SplitGraph made = split_links(
        dataset, {.num_val = {.count = 0}, .num_test = {.count = 3}, .neg_sampling_ratio = 0, .seed = seed},
        no_progress);
    const RawEdges& edges = made.graph.edges[0];
    EXPECT_FALSE(edges.splits.contains("valid"));
    edges.splits.at("test").read(edges, [&](const LinkBlock& block) {
      for (std::size_t i = 0; i < block.pairs.size(); i += 2) ++held[{block.pairs[i], block.pairs[i + 1]}];
    });
  }
  double chi = 0;
  for (const auto& [pair, times] : held) chi += (times - 120.0) * (times - 120.0) / (120.0 * 0.7);
  EXPECT_EQ(held.size(), 10U);
  EXPECT_LT(chi, 33.7);  // 9 or 10 degrees of freedom, one in ten thousand
}

TEST_F(SplitLinks, ByTimeTheLatestAreTestAndThoseBeforeThemValidation) {
  TypedGraph graph = testing::shop_graph(30, 20, 300, 7);
  for (auto& edges : graph.edges)
    for (std::int64_t& time : edges.time) time = time / 7 - 20;  // seven at a time; some before 0
  const Dataset made(
      split(graph, {.num_val = {.count = 30}, .num_test = {.count = 50}, .by = SplitBy::kTime}));
  EXPECT_EQ(types_[0].test, 48);   // 6 of the latest time, then sevens: 6 + 6 * 7
  EXPECT_EQ(types_[0].valid, 28);  // 80 in all: 6 + 10 * 7 are test or valid
  const auto latest = [&](const char* name) {
    const LinkSplit links = made.edge_split(0, name);
    return Ints(links.times.begin(), links.times.end());
  };
  for (const std::int64_t time : latest("test")) EXPECT_GE(time, 42 - 20 - 6);
  for (const std::int64_t time : latest("valid"))
    EXPECT_TRUE(time < 42 - 20 - 6 && time >= 42 - 20 - 10) << time;
  for (const std::int64_t time : latest("train")) EXPECT_LT(time, 42 - 20 - 10);
  for (int type : {0, 1})
    for (const Edge& edge : edges_of(made, type)) EXPECT_LT(edge.time, 42 - 20 - 10);
  EXPECT_EQ(types_[0].reverse_removed, 76);
}

TEST_F(SplitLinks, ByTimeAReverseWithoutTimesLosesEveryCopyOfAHeldPair) {
  TypedGraph graph = testing::shop_graph(8, 6, 100, 8);
  graph.edges[1].time.clear();
  const Dataset made(split(graph, {.by = SplitBy::kTime}));
  const std::multiset<Pair> backward = pairs_of(edges_of(made, 1));
  std::set<Pair> held;
  for (const char* name : {"valid", "test"})
    for (const auto& [user, item] : links_of(made, 0, name)) {
      EXPECT_FALSE(backward.contains({item, user}));
      held.emplace(user, item);
    }
  for (std::size_t e = 0; e < 100; ++e) {
    const Pair pair{graph.edges[0].sources[e], graph.edges[0].destinations[e]};
    EXPECT_EQ(backward.contains({pair.second, pair.first}), !held.contains(pair));
  }
}

TEST_F(SplitLinks, OfOneTimeAreNotTornApart) {
  TypedGraph graph = testing::shop_graph(8, 6, 100, 8);
  for (auto& edges : graph.edges) std::ranges::fill(edges.time, 5);
  EXPECT_NE(refusal(graph, {.by = SplitBy::kTime}).find("more have the same time"), std::string::npos);
}

TEST_F(SplitLinks, DisjointTrainingLinksLeaveTheGraphToo) {
  const TypedGraph graph = testing::shop_graph(30, 20, 300, 9);
  const Dataset made(split(graph, {.disjoint_train = {.ratio = 0.3}, .seed = 5}));
  const std::multiset<Pair> messages = pairs_of(edges_of(made, 0)), backward = pairs_of(edges_of(made, 1));
  std::multiset<Pair> all = messages;
  for (const char* name : {"train", "valid", "test"}) {
    add(all, links_of(made, 0, name));
    for (const auto& [user, item] : links_of(made, 0, name)) {
      EXPECT_FALSE(messages.contains({user, item})) << name;
      EXPECT_FALSE(backward.contains({item, user})) << name;
    }
  }
  EXPECT_EQ(all, pairs_of(graph.edges[0]));
  EXPECT_GT(types_[0].train, 30);
  EXPECT_GT(types_[0].message, 2 * types_[0].train);
}

TEST_F(SplitLinks, UndirectedEdgesGoBothWaysTogether) {
  for (const SplitBy by : {SplitBy::kRandom, SplitBy::kTime}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const TypedGraph graph = friends(seed);
      const Dataset made(split(graph, {.by = by, .is_undirected = true, .seed = seed}));
      const std::vector<Edge> edges = edges_of(made, 0);
      std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> left;
      for (const Edge& edge : edges) left.emplace(edge.source, edge.destination, edge.time);
      for (const Edge& edge : edges) EXPECT_TRUE(left.contains({edge.destination, edge.source, edge.time}));
      const std::multiset<Pair> pairs = pairs_of(edges);
      for (const char* name : {"valid", "test"}) {
        const LinkSplit links = made.edge_split(0, name);
        EXPECT_GT(links.count(), 0);
        for (std::int64_t i = 0; i < links.count(); ++i) {
          if (links.labels[i] == 0) continue;
          const std::int64_t a = links.pairs[2 * i], b = links.pairs[2 * i + 1];
          EXPECT_LE(a, b);
          EXPECT_FALSE(left.contains({b, a, links.times[i]}));
          if (by == SplitBy::kRandom) {
            EXPECT_FALSE(pairs.contains({a, b}) || pairs.contains({b, a}));
          }
        }
      }
      for (const auto& [a, b] : links_of(made, 0, "train")) EXPECT_LE(a, b);
      EXPECT_EQ(types_[0].train,
                std::ranges::count_if(edges, [](const Edge& e) { return e.source <= e.destination; }));
    }
  }
}

TEST_F(SplitLinks, NegativesOfUndirectedEdgesAreNoGivenLinkTheOtherWayRound) {
  TypedGraph graph = friends(3);
  const std::multiset<Pair> edges = pairs_of(graph.edges[0]);
  testing::TypedLinks test;  // half of the pairs that are no edge
  for (std::int64_t a = 0; a < 25; ++a)
    for (std::int64_t b = a + 1; b < 25; ++b)
      if (!edges.contains({a, b}) && (a + b) % 2 == 0) test.pairs.insert(test.pairs.end(), {a, b});
  graph.edges[0].splits["test"] = test;
  const Dataset made(split(
      graph,
      {.num_val = {.count = 4}, .num_test = {.count = 0}, .is_undirected = true, .neg_sampling_ratio = 20}));
  const auto negatives = links_of(made, 0, "valid", 0);
  EXPECT_EQ(negatives.size(), 20 * links_of(made, 0, "valid").size());
  for (const auto& [a, b] : negatives)
    EXPECT_FALSE(edges.contains({a, b}) || (a + b) % 2 == 0) << a << " " << b;
}

TEST_F(SplitLinks, NegativesAreNoEdgesWhateverBecameOfThem) {
  const TypedGraph graph = testing::shop_graph(12, 10, 90, 10);  // about half of all pairs
  const Dataset made(
      split(graph, {.add_negative_train_samples = true, .neg_sampling_ratio = 10.5, .seed = 4}));
  const std::multiset<Pair> edges = pairs_of(graph.edges[0]);
  std::int64_t negatives = 0;
  std::set<Pair> drawn;
  for (const char* name : {"train", "valid", "test"}) {
    const auto positive = links_of(made, 0, name, 1), negative = links_of(made, 0, name, 0);
    EXPECT_EQ(negative.size(),
              static_cast<std::size_t>(std::ceil(10.5 * static_cast<double>(positive.size()))));
    for (const Pair& pair : negative) EXPECT_FALSE(edges.contains(pair)) << name;
    for (const Pair& pair : positive) EXPECT_TRUE(edges.contains(pair)) << name;
    negatives += std::ssize(negative);
    drawn.insert(negative.begin(), negative.end());
    const LinkSplit links = made.edge_split(0, name);
    EXPECT_TRUE(std::ranges::is_sorted(links.labels, std::greater())) << "positives come first";
    for (std::int64_t i = std::ssize(positive); i < links.count(); ++i)
      EXPECT_EQ(links.times[i], links.times[(i - std::ssize(positive)) % std::ssize(positive)]);
  }
  EXPECT_EQ(types_[0].negatives, negatives);
  EXPECT_EQ(drawn.size(), 120U - std::set(edges.begin(), edges.end()).size())
      << "of so many, each pair is drawn";
}

TEST_F(SplitLinks, WithoutNegativesThereAreNoLabels) {
  const Dataset made(split(testing::shop_graph(20, 15, 200, 2), {.neg_sampling_ratio = 0}));
  for (const char* name : {"train", "valid", "test"}) EXPECT_TRUE(made.edge_split(0, name).labels.empty());
  const Dataset with(split(testing::shop_graph(20, 15, 200, 2), {}));
  EXPECT_TRUE(with.edge_split(0, "train").labels.empty()) << "the loader draws them";
  EXPECT_FALSE(with.edge_split(0, "test").labels.empty());
}

TEST_F(SplitLinks, ATypeThatHasAllPairsHasNoNegatives) {
  TypedGraph graph{.nodes = {{.name = "a", .count = 4}, {.name = "b", .count = 4}},
                   .edges = {{.src = "a", .rel = "r", .dst = "b"}}};
  for (std::int64_t i = 0; i < 16; ++i) {
    graph.edges[0].sources.push_back(i / 4);
    graph.edges[0].destinations.push_back(i % 4);
  }
  EXPECT_NE(refusal(graph, {}).find("there is no negative: every pair"), std::string::npos);
  EXPECT_EQ(refusal(graph, {.neg_sampling_ratio = 0}), "");
}

// A hundred draws would miss them nearly always.
TEST(NegativesOfSplits, AreFoundWhereNearlyAllPairsAreEdges) {
  constexpr std::int64_t kNodes = 60;
  Csc csc;
  std::vector<std::int32_t> sources;
  csc.indptr = {0};
  for (std::int64_t v = 0; v < kNodes; ++v) {
    for (std::int64_t u = kNodes; u-- > 0;)  // backwards, and some twice
      if (!(u == 3 && v == 41) && !(u == 59 && v == 7))
        sources.insert(sources.end(), u == 5 ? 2 : 1, static_cast<std::int32_t>(u));
    csc.indptr.push_back(std::ssize(sources));
  }
  csc.indices = std::move(sources);
  NegativeLinkOptions options{.num_sources = kNodes, .square = true, .seed = 9, .threads = 1, .origin = "r"};
  const auto drawn = [&](const std::vector<std::pair<std::int64_t, std::int64_t>>& known) {
    const auto ids = std::get<std::vector<std::int32_t>>(draw_negative_links(csc, known, 30, options));
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i < ids.size(); i += 2) pairs.emplace_back(ids[i], ids[i + 1]);
    return pairs;
  };
  const auto pairs = drawn({});
  EXPECT_EQ(std::set(pairs.begin(), pairs.end()),
            (std::set<std::pair<std::int64_t, std::int64_t>>{{3, 41}, {59, 7}}));
  options.threads = 3;
  EXPECT_EQ(drawn({}), pairs);
  const auto left = drawn({{3, 41}});
  EXPECT_EQ(std::set(left.begin(), left.end()), (std::set<std::pair<std::int64_t, std::int64_t>>{{59, 7}}));
  EXPECT_EQ(complaint_of([&] {
              drawn({{3, 41}, {59, 7}});
            }),
            "r: there is no negative: every pair of nodes is an edge or a link of a split; use "
            "--neg-sampling-ratio 0");
}

TEST(FreePairs, AreAllThatAreNoEdgeEachOnce) {
  Csc csc;
  csc.indptr = {0, 2, 2, 5};
  csc.indices = std::vector<std::int32_t>{3, 0, 1, 1, 0};
  const FreePairs free(csc, {{2, 1}}, {.num_sources = 4, .square = true, .threads = 2});
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < free.count(); ++i) pairs.push_back(free.pair(i));
  EXPECT_EQ(pairs,
            (std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 0}, {2, 0}, {0, 1}, {3, 1}, {3, 2}}));
}

// Both have the same seed: a model would be tested on what it was trained with.
TEST(NegativesOfSplits, AreNotThoseThatALoaderDraws) {
  constexpr std::int64_t kNodes = 1'000, kCount = 64;
  Csc csc;
  csc.indptr.assign(kNodes + 1, 0);  // no edges
  const IdArray drawn = draw_negative_links(csc, {}, kCount,
                                            {.num_sources = kNodes,
                                             .square = false,
                                             .seed = 7,
                                             .edge_type = 0,
                                             .split = 0,
                                             .threads = 1,
                                             .origin = ""});
  const auto& pairs = std::get<std::vector<std::int32_t>>(drawn);
  const NodeStream of_loader = negative_stream({.seed = 7}, 0, LinkEnd::kSource);
  int same = 0;
  for (std::int64_t i = 0; i < kCount; ++i)
    same += pairs[2 * i] == static_cast<std::int64_t>(draw_below_wide(of_loader.of(i, 0), 0, kNodes));
  EXPECT_LT(same, 5);
}

// As of lastfm, whose test edges are given: validation edges are split off, and test links are no negatives.
TEST_F(SplitLinks, ATestSplitThatIsThereStays) {
  TypedGraph graph = testing::shop_graph(6, 5, 12, 3);
  const std::multiset<Pair> edges = pairs_of(graph.edges[0]);
  testing::TypedLinks test;
  for (std::int64_t u = 0; u < 6; ++u)
    for (std::int64_t i = 0; i < 5; ++i)
      if (!edges.contains({u, i}) && test.pairs.size() < 26) test.pairs.insert(test.pairs.end(), {u, i});
  graph.edges[0].splits["test"] = test;
  EXPECT_NE(refusal(graph, {}).find("has the edge split 'test' already"), std::string::npos);
  const Dataset made(
      split(graph, {.num_val = {.count = 3}, .num_test = {.count = 0}, .neg_sampling_ratio = 9}));
  const LinkSplit kept = made.edge_split(0, "test");
  EXPECT_EQ(Ints(kept.pairs.begin(), kept.pairs.end()), test.pairs);
  std::set<Pair> known(edges.begin(), edges.end());
  for (const Pair& pair : links_of(made, 0, "test")) known.insert(pair);
  for (const Pair& pair : links_of(made, 0, "valid", 0)) EXPECT_FALSE(known.contains(pair));
}

}  // namespace
}  // namespace hopfeed
