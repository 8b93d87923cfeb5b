// Every kind of sampling through worker mode, on a graph of several types: the same bytes as one process
// makes of one partition, whatever the number of workers and partitions, and after a worker's death. That
// those are right is what tests/core compares with oracles.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/typed_dataset.h"
#include "tests/worker_mode/same_bytes.h"

namespace hopfeed {
namespace {

struct KindCase {
  const char* name;
  BatchOptions options = {};
  std::int64_t batch_size = 16;
  bool seed_times = false;  // given by hand
};

class KindsThroughWorkers : public LoaderTestWithin<>, public ::testing::WithParamInterface<KindCase> {
 protected:
  // Once for all kinds: a dataset is many small files, each synced to the disk.
  static void SetUpTestSuite() {
    LoaderTestWithin<>::SetUpTestSuite();
    for (const int parts : {1, 2, 3})
      testing::write_typed_dataset(typed(parts), graph(), testing::random_typed_cut(graph(), parts, 5));
  }

  static LoaderOptions options_of_kind(int parts) {
    LoaderOptions o = options();
    o.dataset = typed(parts).string();
    o.batch = GetParam().options;
    o.deal.batch_size = GetParam().batch_size;
    for (std::int64_t i = 0; GetParam().seed_times && i < graph().nodes[0].count; ++i)
      o.seed_times.push_back(i * 7 % 40 - 10);
    return o;
  }

 private:
  static std::filesystem::path typed(int parts) { return folder() / ("typed" + std::to_string(parts)); }

  /// Whether an edge type leads into the seeds' type that is as asked.
  template <class Is>
  static bool leads_to_seeds(const testing::TypedGraph& graph, Is is) {
    return std::ranges::any_of(graph.edges, [&](const testing::TypedEdges& edges) {
      return edges.dst == graph.nodes[0].name && edges.sources.size() > 100 && is(edges);
    });
  }

  /// The first random graph where each kind below has something to do. Labels number clusters too, so many
  /// that batches are left after a kill.
  static const testing::TypedGraph& graph() {
    static const testing::TypedGraph first = [] {
      for (std::uint64_t seed = 1;; ++seed) {
        testing::TypedGraph graph = testing::random_typed_graph(
            {.max_nodes = 300, .seed = seed, .reverses = true, .empty_type = true});
        testing::TypedNodes& seeds = graph.nodes[0];
        const testing::TypedEdges &r0 = graph.edges[0], &r1 = graph.edges[1];
        // The metapath: back and forth along r1, then along r0, which have reverses between two types alone.
        const bool walks =
            r0.src == seeds.name && r0.dst != seeds.name && r1.dst == seeds.name && r1.src != seeds.name;
        if (seeds.count < 200 || !walks ||
            !leads_to_seeds(graph, [](const auto& edges) { return !edges.weight.empty(); }) ||
            !leads_to_seeds(graph, [](const auto& edges) { return !edges.time.empty(); }) ||
            !leads_to_seeds(graph, [](const auto& edges) { return edges.time.empty(); }))  // of their sources
          continue;
        seeds.num_classes = 24;
        for (std::int64_t v = 0; v < seeds.count; ++v) seeds.y[v] = v % 24;
        return graph;
      }
    }();
    return first;
  }
};

TEST_P(KindsThroughWorkers, OneTwoAndFourWorkers_OneTwoAndThreePartitions_GiveTheSameBytes) {
  expect_same_bytes_of_workers_and_partitions([&](int parts) { return options_of_kind(parts); });
}

TEST_P(KindsThroughWorkers, WorkerKilled_TrainerGetsTheSameBytes) {
  expect_same_bytes_after_a_kill([&](int parts) { return options_of_kind(parts); });
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, KindsThroughWorkers,
    ::testing::Values(
        KindCase{"Typed", {.fanouts = {4, 3}, .edge_ids = true}},
        KindCase{"WholeNeighbourhoods", {.fanouts = {-1, -1}, .edge_ids = true}},
        KindCase{"EdgeFanouts", {.fanouts = {4, 3}, .edge_fanouts = {{"r0", {0, 2}}, {"r1", {-1, 1}}}}},
        KindCase{"Replacement", {.fanouts = {4, 3}, .replace = true, .edge_ids = true}},
        KindCase{"Disjoint", {.fanouts = {4, 3}, .disjoint = true}},
        KindCase{"DisjointReplacement", {.fanouts = {4, 3}, .replace = true, .disjoint = true}},
        KindCase{"Weighted", {.fanouts = {4, 3}, .weight = "weight", .edge_attrs = {"weight"}}},
        KindCase{"WeightedReplacement", {.fanouts = {4, 3}, .replace = true, .weight = "weight"}},
        KindCase{"Temporal", {.fanouts = {4, 3}, .time = "time", .time_window = 9}},
        KindCase{"TemporalReplacement", {.fanouts = {4, 3}, .replace = true, .time = "time"}},
        KindCase{"TemporalLast",
                 {.fanouts = {2, 2}, .time = "time", .temporal_strategy = TemporalStrategy::kLast}},
        KindCase{"SeedTimesOfAnAttribute", {.fanouts = {4, 3}, .time = "time", .seed_time = "y"}},
        KindCase{.name = "SeedTimes",
                 .options = {.fanouts = {4, 3}, .time = "time", .edge_ids = true},
                 .seed_times = true},
        KindCase{"Labor", {.fanouts = {4, 3}, .labor = true}},
        KindCase{"LaborOfManyBatches", {.fanouts = {4, 3}, .labor = true, .labor_seeds = 32}},
        KindCase{"Induced", {.fanouts = {4, 3}, .subgraph = Subgraph::kInduced, .edge_ids = true}},
        KindCase{"Bidirectional", {.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional}},
        KindCase{"BidirectionalWithTheDrawn",
                 {.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional, .keep_orig_edges = true}},
        KindCase{"Metapath",
                 {.sampler = BatchOptions::kWalkSampler,
                  .walk = {.length = 6, .per_seed = 2, .metapath = {"r1", "rev_r1", "rev_r0", "r0"}},
                  .edge_ids = true}},
        KindCase{"Clusters",
                 {.sampler = BatchOptions::kClusterSampler,
                  .cluster = "y",
                  .subgraph = Subgraph::kInduced,
                  .edge_ids = true},
                 1}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
