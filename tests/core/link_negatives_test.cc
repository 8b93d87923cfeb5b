// Negatives have the chances that they ought to have: uniform, by weight, strict, of the nodes that exist;
// and links that have none are refused, each by its cause.
#include "core/seeds/negative_draws.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "tests/core/chi_square.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using Pair = std::pair<std::int64_t, std::int64_t>;

constexpr std::int64_t kUsers = 5, kItems = 7;

/// Users like items: user u items u, u + 1 and u + 2, the first of them twice; of item 6 there is a user
/// less.
testing::TypedGraph likes() {
  testing::TypedGraph graph{.nodes = {{.name = "user", .count = kUsers, .y = {0, 1, 2, 3, 4}},
                                      {.name = "item", .count = kItems, .y = {5, 0, 1, 1, 2, 0, 3}}},
                            .edges = {{.src = "user", .rel = "likes", .dst = "item"}}};
  for (std::int64_t u = 0; u < kUsers; ++u)
    for (const std::int64_t k : {0, 0, 1, 2}) {
      graph.edges[0].sources.push_back(u);
      graph.edges[0].destinations.push_back(u + k);
    }
  return graph;
}

class NegativesOfLinks : public ::testing::Test {
 protected:
  void open(const testing::TypedGraph& graph) {
    graph_ = graph;
    testing::write_typed_dataset(folder_.path() / "graph", graph, testing::random_typed_cut(graph, 2, 3));
    dataset_.emplace(folder_.path() / "graph");
    for (std::size_t e = 0; e < graph.edges[0].sources.size(); ++e)
      joined_.insert({graph.edges[0].sources[e], graph.edges[0].destinations[e]});
  }
  static BatchOptions options(NegativeOptions negatives) {
    BatchOptions options;
    options.link = {.edge_type = "likes", .negatives = std::move(negatives)};
    return options;
  }
  NegativeDraws::Negatives draw(const BatchOptions& options, const Ints& sources, const Ints& times = {},
                                const BatchKey& position = {}) const {
    Ints input_id(sources.size());
    std::iota(input_id.begin(), input_id.end(), 0);
    NegativeDraws::Negatives out;
    BatchKey key = position;
    key.seed = 12;
    key.count = std::ssize(sources);
    NegativeDraws(*dataset_, 0, options, KnownLinks(known_))
        .draw({.key = key, .sources = sources, .times = times, .input_id = input_id}, out);
    return out;
  }
  /// Draws many pairs, of links of a time where it is given, and tests each one's share, which is in
  /// proportion to what `weight` says. Returns how many draws were thrown away.
  template <class Weight>
  std::int64_t expect_shares(const NegativeOptions& negatives, const Weight& weight,
                             std::optional<std::int64_t> time = {}) const {
    const Ints sources(300, 0);
    NegativeOptions many = negatives;
    many.amount = 200;
    BatchOptions timed = options(many);
    if (time) timed.time = "time";
    const auto drawn = draw(timed, sources, time ? Ints(sources.size(), *time) : Ints{});
    std::map<Pair, double> counts;
    for (std::size_t j = 0; j < drawn.destinations.size(); ++j)
      ++counts[{drawn.sources[j], drawn.destinations[j]}];
    double all = 0, statistic = 0, possible = 0;
    for (std::int64_t u = 0; u < kUsers; ++u)
      for (std::int64_t v = 0; v < kItems; ++v) all += weight(u, v);
    for (std::int64_t u = 0; u < kUsers; ++u) {
      for (std::int64_t v = 0; v < kItems; ++v) {
        const double expected = static_cast<double>(drawn.destinations.size()) * weight(u, v) / all;
        if (expected == 0) {
          EXPECT_EQ(counts.count({u, v}), 0U) << u << " " << v;
          continue;
        }
        const double off = counts[{u, v}] - expected;
        statistic += off * off / expected;
        ++possible;
      }
    }
    EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, possible - 1))) << statistic;
    return drawn.retries;
  }
  bool joined(std::int64_t u, std::int64_t v) const { return joined_.contains({u, v}); }
  std::string refused(const BatchOptions& options, const Ints& sources, const Ints& times = {}) const {
    try {
      draw(options, sources, times);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      return error.what();
    }
    return "";
  }

  testing::TypedGraph graph_;
  std::set<Pair> joined_;
  Ints known_;  // source, destination, ...: links that strict negatives must not be
  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
};

TEST_F(NegativesOfLinks, AreUniform) {
  open(likes());
  expect_shares({.mode = NegativeMode::kBinary}, [](auto, auto) { return 1.0; });
}

TEST_F(NegativesOfLinks, ByWeight_HaveTheirShares) {
  open(likes());
  const auto user = [&](std::int64_t u) { return static_cast<double>(graph_.nodes[0].y[u]); };
  const auto item = [&](std::int64_t v) { return static_cast<double>(graph_.nodes[1].y[v]); };
  expect_shares({.mode = NegativeMode::kBinary, .src_weight = "y", .dst_weight = "y"},
                [&](auto u, auto v) { return user(u) * item(v); });
  expect_shares({.mode = NegativeMode::kBinary, .dst_weight = "y"}, [&](auto, auto v) { return item(v); });
}

TEST_F(NegativesOfLinks, Strict_AreUniformOverPairsThatAreNoEdge) {
  open(likes());
  expect_shares({.mode = NegativeMode::kBinary, .strict = true},
                [&](auto u, auto v) { return joined(u, v) ? 0.0 : 1.0; });
}

TEST_F(NegativesOfLinks, StrictByWeight_HaveTheSharesOfWhatIsLeft) {
  open(likes());
  expect_shares({.mode = NegativeMode::kBinary, .strict = true, .src_weight = "y", .dst_weight = "y"},
                [&](auto u, auto v) {
                  return joined(u, v) ? 0.0
                                      : static_cast<double>(graph_.nodes[0].y[u] * graph_.nodes[1].y[v]);
                });
}

// Draws find these three of thirty-five pairs a time in two thousand and so: the others come from what is
// weighed end to end.
testing::TypedGraph nearly_complete(std::int64_t users = kUsers, std::int64_t items = kItems) {
  testing::TypedGraph graph = likes();
  graph.nodes[0].count = users;
  graph.nodes[1].count = items;
  graph.nodes[0].y.resize(static_cast<std::size_t>(users), 1);
  graph.nodes[1].y.resize(static_cast<std::size_t>(items), 1);
  graph.edges[0].sources.clear();
  graph.edges[0].destinations.clear();
  for (std::int64_t u = 0; u < users; ++u) {
    for (std::int64_t v = 0; v < items; ++v) {
      if ((u == 1 && v == 0) || (u == 3 && (v == 2 || v == 6))) continue;
      graph.edges[0].sources.push_back(u);
      graph.edges[0].destinations.push_back(v);
    }
  }
  return graph;
}

TEST_F(NegativesOfLinks, OfANearlyCompleteType_AreStillUniform) {
  open(nearly_complete(50, 60));
  const auto drawn =
      draw(options({.mode = NegativeMode::kBinary, .amount = 10, .strict = true}), Ints(100, 0));
  std::map<Pair, std::int64_t> counts;
  for (std::size_t j = 0; j < drawn.destinations.size(); ++j)
    ++counts[{drawn.sources[j], drawn.destinations[j]}];
  ASSERT_EQ(counts.size(), 3U);
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value({counts[{1, 0}], counts[{3, 2}], counts[{3, 6}]})));
  EXPECT_GT(drawn.retries, 50'000) << "few were found by draws";
}

TEST_F(NegativesOfLinks, OfANearlyCompleteType_KeepTheirWeights) {
  open(nearly_complete());
  // Pairs (1, 0), (3, 2) and (3, 6) weigh 1 * 5, 3 * 1 and 3 * 3.
  expect_shares({.mode = NegativeMode::kBinary, .strict = true, .src_weight = "y", .dst_weight = "y"},
                [&](auto u, auto v) {
                  return joined(u, v) ? 0.0
                                      : static_cast<double>(graph_.nodes[0].y[u] * graph_.nodes[1].y[v]);
                });
}

TEST_F(NegativesOfLinks, OfTriplets_AreOfTheirSources) {
  open(likes());
  const auto drawn =
      draw(options({.mode = NegativeMode::kTriplet, .amount = 3'000, .strict = true}), {0, 2, 4});
  EXPECT_TRUE(drawn.sources.empty());
  for (std::int64_t i = 0; i < 3; ++i) {
    std::map<std::int64_t, std::int64_t> counts;
    for (std::size_t j = static_cast<std::size_t>(i); j < drawn.destinations.size(); j += 3)
      ++counts[drawn.destinations[j]];
    std::vector<std::int64_t> shares;
    for (std::int64_t v = 0; v < kItems; ++v) {
      if (joined(2 * i, v)) {
        EXPECT_EQ(counts[v], 0) << "user " << 2 * i << " likes item " << v;
      } else {
        shares.push_back(counts[v]);
      }
    }
    EXPECT_EQ(shares.size(), 4U);
    EXPECT_TRUE(testing::plausible(testing::uniform_p_value(shares)));
  }
}

TEST_F(NegativesOfLinks, ExistAtTheTimeOfTheirLink) {
  testing::TypedGraph graph = likes();
  graph.nodes[1].time = {0, 10, 20, 30, 40, 50, 60};
  open(graph);
  BatchOptions timed = options({.mode = NegativeMode::kTriplet, .amount = 4'000});
  timed.time = "time";
  const auto drawn = draw(timed, {0, 0, 0}, {0, 35, 60});
  for (const auto& [link, items] : {std::pair{0, 1}, std::pair{1, 4}, std::pair{2, 7}}) {
    std::vector<std::int64_t> counts(kItems);
    for (std::size_t j = static_cast<std::size_t>(link); j < drawn.destinations.size(); j += 3)
      ++counts[static_cast<std::size_t>(drawn.destinations[j])];
    for (int v = items; v < kItems; ++v) EXPECT_EQ(counts[v], 0) << "item " << v << " comes later";
    counts.resize(static_cast<std::size_t>(items));
    if (items > 1) {
      EXPECT_TRUE(testing::plausible(testing::uniform_p_value(counts)));
    }
  }
  EXPECT_NE(refused(timed, {0}, {-1})
                .find("link 0 has no negative: no node of type 'item' could be drawn at "
                      "its time -1; correct the times"),
            std::string::npos)
      << refused(timed, {0}, {-1});
}

testing::TypedGraph likes_with_times() {
  testing::TypedGraph graph = likes();
  graph.nodes[0].time = {0, 10, 20, 30, 40};
  graph.nodes[1].time = {20, 10, 0, 30, 40, 50, 60};
  return graph;
}

// Not one draw is thrown away, and none goes to nodes that do not exist yet.
TEST_F(NegativesOfLinks, OfNodesThatExist_AreDrawnAtOnce) {
  open(likes_with_times());
  const auto user = [&](std::int64_t u) { return static_cast<double>(graph_.nodes[0].y[u]); };
  const auto item = [&](std::int64_t v) { return static_cast<double>(graph_.nodes[1].y[v]); };
  EXPECT_EQ(
      expect_shares(
          {.mode = NegativeMode::kBinary}, [](auto u, auto v) { return u < 3 && v < 3 ? 1.0 : 0.0; }, 25),
      0);
  EXPECT_EQ(expect_shares(
                {.mode = NegativeMode::kBinary, .src_weight = "y", .dst_weight = "y"},
                [&](auto u, auto v) { return u < 4 && v < 4 ? user(u) * item(v) : 0.0; }, 30),
            0);
}

TEST_F(NegativesOfLinks, StrictOfNodesThatExist_HaveTheSharesOfWhatIsLeft) {
  open(likes_with_times());
  expect_shares(
      {.mode = NegativeMode::kBinary, .strict = true, .dst_weight = "y"},
      [&](auto u, auto v) {
        return u < 4 && v < 4 && !joined(u, v) ? static_cast<double>(graph_.nodes[1].y[v]) : 0.0;
      },
      35);
}

// One of three pairs that are no edge does not exist yet, and another is a link: what is weighed end to end
// leaves them out too.
TEST_F(NegativesOfLinks, WeighedEndToEnd_ExistAndAreNoLinks) {
  testing::TypedGraph graph = nearly_complete(50, 60);
  graph.nodes[0].time.assign(50, 5);
  graph.nodes[1].time.assign(60, 5);
  open(graph);
  BatchOptions strict = options({.mode = NegativeMode::kBinary, .amount = 10, .strict = true});
  known_ = {1, 0, 0, 0, 1, 0};  // of which one is an edge too, and one is there twice
  const auto linked = draw(strict, Ints(50, 0));
  EXPECT_GT(linked.retries, 25'000) << "few were found by draws";
  std::map<Pair, std::int64_t> counts;
  for (std::size_t j = 0; j < linked.destinations.size(); ++j)
    ++counts[{linked.sources[j], linked.destinations[j]}];
  EXPECT_EQ(counts.size(), 2U);
  EXPECT_TRUE(testing::plausible(testing::uniform_p_value({counts[{3, 2}], counts[{3, 6}]})));

  graph.nodes[1].time[6] = 7;
  open(graph);
  strict.time = "time";
  const auto early = draw(strict, Ints(50, 0), Ints(50, 6));
  for (std::size_t j = 0; j < early.destinations.size(); ++j)
    EXPECT_EQ(Pair(early.sources[j], early.destinations[j]), Pair(3, 2));
  strict.link.negatives.mode = NegativeMode::kTriplet;
  const auto triplets = draw(strict, Ints(50, 3), Ints(50, 6));
  EXPECT_EQ(triplets.destinations, Ints(500, 2));
}

// Links that are held out of the graph are true all the same.
TEST_F(NegativesOfLinks, Strict_AreNoLinksOfTheList) {
  open(likes());
  known_ = {0, 3, 0, 4, 0, 5, 4, 0, 4, 0};
  expect_shares({.mode = NegativeMode::kBinary, .strict = true}, [&](auto u, auto v) {
    const bool linked = (u == 0 && v >= 3 && v <= 5) || (u == 4 && v == 0);
    return joined(u, v) || linked ? 0.0 : 1.0;
  });
  const auto drawn = draw(options({.mode = NegativeMode::kTriplet, .amount = 20, .strict = true}), {0});
  EXPECT_EQ(drawn.destinations, Ints(20, 6)) << "user 0 likes items 0 to 2, and is to be linked to 3 to 5";
  known_.insert(known_.end(), {0, 6});
  EXPECT_NE(refused(options({.mode = NegativeMode::kTriplet, .strict = true}), {0}).find("leave strict out"),
            std::string::npos);
}

TEST_F(NegativesOfLinks, AreRefusedByTheirCause) {
  testing::TypedGraph graph = likes_with_times();
  graph.nodes[1].y[1] = graph.nodes[1].y[2] = 0;
  open(graph);
  BatchOptions binary = options({.mode = NegativeMode::kBinary, .strict = true, .dst_weight = "y"});
  binary.time = "time";
  EXPECT_EQ(
      refused(binary, {0}, {-1}),
      "link 0 has no negative: no node of type 'user' could be drawn at its time -1; correct the times, "
      "or leave the link out");
  EXPECT_EQ(refused(binary, {0}, {15}),
            "link 0 has no negative: no node of type 'item' that weighs anything could be drawn at its time "
            "15; correct the times or the weights, or leave the link out");
}

// `time` is when a user liked an item; what the users and items call so is not asked.
TEST_F(NegativesOfLinks, WhereTimesAreTheEdges_NodesKnowNone) {
  testing::TypedGraph graph = likes_with_times();
  graph.edges[0].time.assign(graph.edges[0].sources.size(), 3);
  open(graph);
  expect_shares(
      {.mode = NegativeMode::kBinary}, [](auto, auto) { return 1.0; }, -100);
}

TEST_F(NegativesOfLinks, TablesAreCounted) {
  open(likes_with_times());
  known_ = Ints(20, 0);  // ten links
  const auto bytes = [&](const NegativeOptions& negatives, const std::string& time) {
    BatchOptions all = options(negatives);
    all.time = time;
    return static_cast<std::int64_t>(NegativeDraws(*dataset_, 0, all, KnownLinks(known_)).bytes());
  };
  EXPECT_EQ(bytes({.mode = NegativeMode::kBinary}, ""), 0);
  EXPECT_EQ(bytes({.mode = NegativeMode::kBinary}, "time"), 16 * (kUsers + kItems));
  EXPECT_EQ(bytes({.mode = NegativeMode::kTriplet}, "time"), 16 * kItems);
  EXPECT_EQ(bytes({.mode = NegativeMode::kBinary, .src_weight = "y"}, ""), 8 * kUsers);
  EXPECT_EQ(bytes({.mode = NegativeMode::kTriplet, .strict = true}, ""), 16 * 10 + 8 * 2) << "one bucket";
  EXPECT_GE(bytes({.mode = NegativeMode::kBinary, .strict = true, .dst_weight = "y"}, "time"),
            16 * (kUsers + kItems + 10) + 8 * (2 * kItems + 1));
}

// A write far from its place, where an original id of the file was taken at its word.
TEST_F(NegativesOfLinks, OfADamagedRowFile_AreRefusedByFileAndRow) {
  testing::TypedGraph graph{.nodes = {{.name = "user", .count = 6, .time = Ints(6, 0)}},
                            .edges = {{.src = "user", .rel = "likes", .dst = "user"}}};
  for (std::int64_t u = 0; u < 6; ++u) {
    for (std::int64_t v = 0; v < 6; ++v) {
      if (u == 1 && v == 0) continue;
      graph.edges[0].sources.push_back(u);
      graph.edges[0].destinations.push_back(v);
    }
  }
  testing::write_typed_dataset(folder_.path() / "graph", graph);
  const std::filesystem::path rows = folder_.path() / "graph/part-0000/edges/user__likes__user/rows.npy";
  const std::int64_t damage = std::int64_t{1} << 40;
  {
    std::fstream file(rows, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(rows)) - 7 * 16 + 3 * 16 + 8);
    file.write(reinterpret_cast<const char*>(&damage), sizeof(damage));
  }
  dataset_.emplace(folder_.path() / "graph");
  BatchOptions all = options({.mode = NegativeMode::kBinary, .amount = 400, .strict = true});
  for (const char* time : {"", "time"}) {
    all.time = time;
    expect_refused([&] { draw(all, {0}, {1}); }, "rows.npy: row 3 has original id 1099511627776",
                   ErrorCode::kCorrupt);
  }
}

// A position of an epoch has the same negatives in whatever batch covers it, so that a resumed run goes on as
// it would have.
TEST_F(NegativesOfLinks, DoNotDependOnTheBatch) {
  open(likes());
  const BatchOptions twice = options({.mode = NegativeMode::kBinary, .amount = 2});
  const auto whole = draw(twice, Ints(6, 0));
  const auto part = draw(twice, Ints(3, 0), {}, {.epoch = 0, .first = 2});
  for (std::size_t k = 0; k < 2; ++k) {
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(part.sources[k * 3 + i], whole.sources[k * 6 + 2 + i]);
      EXPECT_EQ(part.destinations[k * 3 + i], whole.destinations[k * 6 + 2 + i]);
    }
  }
}

TEST_F(NegativesOfLinks, OfACompleteRow_AreRefused) {
  testing::TypedGraph graph = likes();
  for (std::int64_t v = 0; v < kItems; ++v) {
    graph.edges[0].sources.push_back(2);
    graph.edges[0].destinations.push_back(v);
  }
  open(graph);
  const BatchOptions strict = options({.mode = NegativeMode::kTriplet, .strict = true});
  EXPECT_EQ(
      refused(strict, {1, 2}),
      "link 1 has no negative: node 2 has an edge of type 'user__likes__item', or a link of the list, to "
      "every node that could be drawn; leave strict out, or leave the link out");
  EXPECT_EQ(refused(strict, {1, 3}), "");
}

TEST_F(NegativesOfLinks, OfACompleteType_AreRefused) {
  testing::TypedGraph graph = nearly_complete();
  for (const Pair& pair : {Pair{1, 0}, Pair{3, 2}, Pair{3, 6}}) {
    graph.edges[0].sources.push_back(pair.first);
    graph.edges[0].destinations.push_back(pair.second);
  }
  open(graph);
  EXPECT_EQ(
      refused(options({.mode = NegativeMode::kBinary, .strict = true}), {0}),
      "link 0 has no negative: edges of type 'user__likes__item', or links of the list, join every pair "
      "of nodes that could be drawn; leave strict out, or leave the link out");
}

TEST_F(NegativesOfLinks, ByWeightsThatCannotBe_AreRefusedByName) {
  testing::TypedGraph graph = likes();
  graph.nodes[0].x_width = 2;
  graph.nodes[0].x = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  graph.nodes[1].y = {5, -1, 1, 1, 2, 0, 3};
  open(graph);
  const auto by = [&](const std::string& src, const std::string& dst) {
    return options({.mode = NegativeMode::kBinary, .src_weight = src, .dst_weight = dst});
  };
  EXPECT_EQ(refused(by("x", ""), {0}),
            "negatives cannot be drawn by attribute 'x' of node type 'user': it is not one number per node");
  EXPECT_NE(refused(by("", "y"), {0}).find("attribute 'y' of node type 'item': weight 1 is -1"),
            std::string::npos);
  EXPECT_THROW(draw(by("fame", ""), {0}), Error);
}

}  // namespace
}  // namespace hopfeed
