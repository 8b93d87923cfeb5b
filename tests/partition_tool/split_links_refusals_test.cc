// What split-links refuses: what would give away held-out links, and what contradicts itself.
#include "tests/partition_tool/split_links_fixture.h"

namespace hopfeed {
namespace {

using testing::complaint_of;
using testing::friends;
using testing::SplitLinks;
using testing::TypedGraph;

TEST_F(SplitLinks, EdgesThatAreNotUndirectedAreRefusedAsSuch) {
  TypedGraph graph = friends(1);
  graph.edges[0].sources[0] = (graph.edges[0].sources[0] + 1) % 25;
  EXPECT_NE(refusal(graph, {.is_undirected = true}).find("run hopfeed-partition to-undirected first"),
            std::string::npos);
  EXPECT_EQ(refusal(graph, {}), "");
  TypedGraph late = friends(1);
  late.edges[0].time[0] = 999;
  EXPECT_EQ(refusal(late, {.is_undirected = true}), "");
  EXPECT_NE(refusal(late, {.by = SplitBy::kTime, .is_undirected = true}).find("at the same time"),
            std::string::npos);
  EXPECT_NE(
      refusal(testing::shop_graph(9, 9, 40, 1), {.is_undirected = true}).find("has ends of two node types"),
      std::string::npos);
}

// Else the edge v -> u would tell of u -> v.
TEST_F(SplitLinks, EdgesThatAreThereBothWaysAreRefusedWhereNobodySaysSo) {
  for (const SplitBy by : {SplitBy::kRandom, SplitBy::kTime})
    EXPECT_NE(refusal(friends(1), {.by = by}).find("give --is-undirected"), std::string::npos);
  TypedGraph late = friends(1);
  late.edges[0].time[0] = 999;
  EXPECT_NE(refusal(late, {}).find("give --is-undirected"), std::string::npos);
  EXPECT_EQ(refusal(late, {.by = SplitBy::kTime}), "") << "at another time it is another event";
  TypedGraph loops = friends(1);
  loops.edges[0].sources = loops.edges[0].destinations;
  EXPECT_EQ(refusal(loops, {}), "") << "a loop is its own other way";
  TypedGraph both = friends(1);
  both.edges.push_back(both.edges[0]);
  both.edges[1].rel = "rev_knows";
  both.edges[1].rev_of = "p__knows__p";
  EXPECT_NE(refusal(both, {}).find("import it without its reverse type"), std::string::npos);
}

TEST_F(SplitLinks, AReverseThatNobodyNamedIsRefused) {
  TypedGraph graph = testing::shop_graph(20, 15, 200, 1);
  graph.edges[1].rev_of.clear();
  const std::vector<std::string> buys{"buys"};
  EXPECT_NE(refusal(graph, {.edge_types = buys}).find("name it, or none, by --rev-edge-types"),
            std::string::npos);
  const Dataset named(split(graph, {.edge_types = buys, .rev_edge_types = {"rev_buys"}}));
  EXPECT_EQ(named.meta().edge_types[1].rev_of, "user__buys__item") << "known from now on";
  EXPECT_LT(named.csc(1).num_edges, 200);
  EXPECT_NE(
      refusal(graph, {.edge_types = buys, .rev_edge_types = {"none"}}).find("name it by --rev-edge-types"),
      std::string::npos);
  TypedGraph shown = graph;  // what leads back are other edges
  shown.edges[1] = testing::shop_graph(20, 15, 200, 2).edges[1];
  shown.edges[1].rel = "shown_to";
  shown.edges[1].rev_of.clear();
  const Dataset none(split(shown, {.edge_types = buys, .rev_edge_types = {"none"}}));
  EXPECT_EQ(none.csc(1).num_edges, 200);
}

TEST_F(SplitLinks, ATypeWithTheSameEdgesBackIsRefusedWhateverItIsCalled) {
  TypedGraph graph{
      .nodes = {{.name = "p", .count = 30}},
      .edges = {{.src = "p", .rel = "cites", .dst = "p"}, {.src = "p", .rel = "cited_by", .dst = "p"}}};
  std::mt19937_64 random(3);
  for (int e = 0; e < 80; ++e) {
    const auto a = static_cast<std::int64_t>(random() % 29), b = static_cast<std::int64_t>(random() % 29);
    graph.edges[0].sources.push_back(a);
    graph.edges[0].destinations.push_back(b);
    graph.edges[1].sources.push_back(b);
    graph.edges[1].destinations.push_back(a);
  }
  const std::vector<std::string> cites{"cites"}, none{"none"};
  const char* same = "p__cited_by__p has the edges of p__cites__p the other way round";
  EXPECT_NE(refusal(graph, {.edge_types = cites}).find(same), std::string::npos);
  EXPECT_NE(refusal(graph, {.edge_types = cites, .rev_edge_types = none}).find(same), std::string::npos);
  const Dataset named(split(graph, {.edge_types = cites, .rev_edge_types = {"cited_by"}}));
  EXPECT_LT(named.csc(1).num_edges, 80);
  graph.edges[1].sources[0] = 29;  // one edge is another
  EXPECT_EQ(refusal(graph, {.edge_types = cites}), "");
  graph.edges[1].rel = "rev_cites";
  for (const char* split_type : {"cites", "rev_cites"})
    EXPECT_NE(refusal(graph, {.edge_types = {split_type}}).find("name it, or none, by --rev-edge-types"),
              std::string::npos);
}

TEST_F(SplitLinks, WhatContradictsItselfIsOneLine) {
  const TypedGraph shop = testing::shop_graph(20, 15, 200, 1);
  const auto says = [&](const LinkSplitOptions& options, const std::string& part) {
    const std::string complaint = refusal(shop, options);
    EXPECT_NE(complaint.find(part), std::string::npos) << complaint;
  };
  says({.num_val = {.count = 150}, .num_test = {.count = 100}}, "none would be left to train on");
  says({.num_val = {.ratio = 0.5}, .num_test = {.ratio = 0.6}}, "none would be left to train on");
  says({.disjoint_train = {.count = 190}}, "--disjoint-train-ratio takes all");
  says({.edge_types = {"buys", "rev_buys"}}, "would be split twice");
  says({.edge_types = {"buys"}, .rev_edge_types = {"rev_buys", "none"}}, "names 2 types for 1");
  says({.rev_edge_types = {"buys"}}, "does not lead back along");
  says({.rev_edge_types = {"none"}}, "the reverse of user__buys__item is item__rev_buys__user");
  says({.time = "weight"}, "no int64 attribute of that name");
  says({.neg_sampling_ratio = -1}, "--neg-sampling-ratio -1 is out of range");
  EXPECT_NE(complaint_of([&] { split(shop, {.edge_types = {"sells"}}); }, ErrorCode::kNotFound)
                .find("no edge type 'sells'"),
            std::string::npos);
  TypedGraph timeless = shop;
  for (auto& edges : timeless.edges) edges.time.clear();
  EXPECT_NE(refusal(timeless, {.by = SplitBy::kTime}).find("name one by --time"), std::string::npos);
  TypedGraph other = shop;
  other.edges[1].time[7] = 3;
  EXPECT_NE(refusal(other, {.by = SplitBy::kTime}).find("the other way round at the same times"),
            std::string::npos);
}

TEST(LinkShare, IsAShareOrANumber) {
  EXPECT_EQ(LinkShare::parse("0.25", "--num-val").of(1001), 250);
  EXPECT_EQ(LinkShare::parse("0.0", "--num-val").of(1001), 0);
  EXPECT_EQ(LinkShare::parse("12", "--num-val").of(1001), 12);
  for (const char* wrong : {"", "x", "1.0", "-1", "-0.1", "0.1x", "1e", "nan", "2.5"})
    EXPECT_NE(complaint_of([&] { LinkShare::parse(wrong, "--num-val"); }).find("--num-val is '"),
              std::string::npos)
        << wrong;
}

}  // namespace
}  // namespace hopfeed
