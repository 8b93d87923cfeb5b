// Links as seeds through worker mode: the same bytes as one process makes whatever the number of workers and
// partitions, and after a worker's death; and what the loader refuses of links.
#include <algorithm>

#include "tests/support/typed_dataset.h"
#include "tests/worker_mode/same_bytes.h"

namespace hopfeed {
namespace {

/// Links of the first edge type, which joins two node types and has a reverse; half of them are its split
/// "train", with times.
testing::TypedGraph link_graph() {
  for (std::uint64_t seed = 1;; ++seed) {
    testing::TypedGraph graph =
        testing::random_typed_graph({.max_nodes = 300, .seed = seed, .reverses = true});
    testing::TypedEdges& edges = graph.edges[0];
    if (edges.src == edges.dst || edges.sources.size() < 300 || edges.weight.empty()) continue;
    for (testing::TypedNodes& nodes : graph.nodes) nodes.y[0] = 1;  // weights of negatives: not all zero
    for (testing::TypedEdges& other : graph.edges)
      if (other.rel.starts_with("rev_"))
        other.rev_of = other.dst + "__" + other.rel.substr(4) + "__" + other.src;
    for (std::size_t i = 0; i < 150; ++i) {
      edges.splits["train"].pairs.push_back(edges.sources[2 * i]);
      edges.splits["train"].pairs.push_back(edges.destinations[2 * i]);
      edges.splits["train"].times.push_back(40 + static_cast<std::int64_t>(i % 9));
    }
    return graph;
  }
}

class LinksTest : public LoaderTestWithin<> {
 protected:
  // Once for all tests: a dataset is many small files, each synced to the disk.
  static void SetUpTestSuite() {
    LoaderTestWithin<>::SetUpTestSuite();
    const testing::TypedGraph graph = link_graph();
    for (const int parts : {1, 2, 3})
      testing::write_typed_dataset(linked(parts), graph, testing::random_typed_cut(graph, parts, 5));
  }
  static LoaderOptions link_options(int parts) {
    LoaderOptions o = options();
    o.dataset = linked(parts).string();
    o.batch.link.edge_type = "r0";
    return o;
  }

 private:
  static std::filesystem::path linked(int parts) { return folder() / ("linked" + std::to_string(parts)); }
};

struct LinkKind {
  const char* name;
  BatchOptions options;
  LinkOptions link;
  bool given = false;  // pairs and labels instead of the split
};

class LinksThroughWorkers : public LinksTest, public ::testing::WithParamInterface<LinkKind> {
 protected:
  static LoaderOptions options_of_kind(int parts) {
    LoaderOptions o = link_options(parts);
    o.batch = GetParam().options;
    o.batch.link = GetParam().link;
    if (!GetParam().given) return o;
    o.links.emplace();
    o.links->pairs.emplace();
    for (std::int64_t i = 0; i < 100; ++i) {
      o.links->pairs->insert(o.links->pairs->end(), {i % 3, i % 2});
      o.links->labels.push_back(i % 5);
    }
    return o;
  }
};

TEST_P(LinksThroughWorkers, OneTwoAndFourWorkers_OneTwoAndThreePartitions_GiveTheSameBytes) {
  expect_same_bytes_of_workers_and_partitions([&](int parts) { return options_of_kind(parts); });
}

TEST_P(LinksThroughWorkers, WorkerKilled_TrainerGetsTheSameBytes) {
  expect_same_bytes_after_a_kill([&](int parts) { return options_of_kind(parts); });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, LinksThroughWorkers,
    ::testing::Values(
        LinkKind{"Plain", {.fanouts = {4, 3}, .edge_ids = true}, {.edge_type = "r0"}},
        LinkKind{"StrictBinary",
                 {.fanouts = {4, 3}},
                 {.edge_type = "r0",
                  .negatives = {.mode = NegativeMode::kBinary, .amount = 1.5, .strict = true},
                  .exclude = Exclude::kReverse}},
        LinkKind{"WeightedTriplets",
                 {.fanouts = {4, 3}, .weight = "weight"},
                 {.edge_type = "r0",
                  .negatives = {.mode = NegativeMode::kTriplet, .amount = 3, .dst_weight = "y"}}},
        LinkKind{"TemporalTriplets",
                 {.fanouts = {4, 3}, .time = "time"},
                 {.edge_type = "r0", .negatives = {.mode = NegativeMode::kTriplet, .strict = true}}},
        LinkKind{"Disjoint",
                 {.fanouts = {4, 3}, .disjoint = true},
                 {.edge_type = "r0",
                  .negatives = {.mode = NegativeMode::kBinary, .src_weight = "y", .dst_weight = "y"}}},
        LinkKind{"Labor",
                 {.fanouts = {4, 3}, .labor = true},
                 {.edge_type = "r0", .negatives = {.mode = NegativeMode::kBinary}}},
        LinkKind{"GivenWithLabels",
                 {.fanouts = {4, 3}},
                 {.edge_type = "r0", .negatives = {.mode = NegativeMode::kBinary}},
                 true}),
    [](const auto& info) { return std::string(info.param.name); });

class BadLinks : public LinksTest {
 protected:
  static std::string refused(const std::function<void(LoaderOptions&)>& change) {
    LoaderOptions o = link_options(1);
    change(o);
    const std::string error = error_of([&] { Loader loader(o); });
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    return error;
  }
  static void expect(const std::string& error, const std::string& part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
};

TEST_F(BadLinks, AreNamed) {
  expect(refused([](auto& o) {
           o.links = {{.pairs = {{0, 1'000'000}}}};
         }),
         "the destination 1000000 of link 0");
  expect(refused([](auto& o) {
           o.links = {{.pairs = {{0, 0}}, .labels = {1, 2}}};
         }),
         "there are 2 labels of links for 1 links");
  expect(refused([](auto& o) {
           o.links = {{.pairs = {{0, 0}}, .times = {1}}};
         }),
         "link times are given, but no time to sample by");
  expect(refused([](auto& o) { o.links = {{.split = "holiday"}}; }), "holiday");
  expect(refused([](auto& o) { o.batch.link.edge_type = "hates"; }), "hates");
  expect(refused([](auto& o) {
           o.batch.link = {}, o.links = {{.pairs = {{0, 0}}}};
         }),
         "links are given, but not of which edge type");
  expect(refused([](auto& o) { o.seeds = {{1}}; }), "the seeds are links, so option seeds is not read");
  expect(refused([](auto& o) { o.seed_weights = {1}; }), "option seed_weights is not read");
  expect(refused([](auto& o) { o.node_type = "n0"; }), "option node_type is not read");
  expect(refused([](auto& o) { o.split = "valid"; }), "option split is not read");
}

TEST_F(BadLinks, ALinkWithoutANegative_IsTheBatchsError) {
  LoaderOptions o = link_options(1);
  o.batch.link = {.edge_type = "r0", .negatives = {.mode = NegativeMode::kTriplet, .dst_weight = "y"}};
  o.batch.time = "time";
  o.links = {{.pairs = {{0, 0}}, .times = {-1'000}}};
  Loader loader(o);
  loader.begin_epoch(0);
  expect(error_of([&] { loader.next(); }), "invalid: link 0 has no negative: no node of type");
}

}  // namespace
}  // namespace hopfeed
