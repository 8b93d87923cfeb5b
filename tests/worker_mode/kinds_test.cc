// Every kind of sampling through worker mode, on a graph of several types: the same bytes as one process makes of one partition, whatever
// the number of workers and partitions, and after a worker's death. That those are right is what tests/core compares with oracles.
#include <algorithm>

#include "tests/support/typed_dataset.h"
#include "tests/worker_mode/same_bytes.h"

namespace hopfeed {
namespace {

struct Kind {
  const char* name;
  BatchOptions options;
  std::int64_t batch_size = 16;
  bool seed_times = false;  // given by hand
};

class KindsThroughWorkers : public LoaderTestWithin<>, public ::testing::WithParamInterface<Kind> {
 protected:
  // The first random graph that has weights and the reverses that walks go by; times it has anyway. Labels number clusters too, so many that batches are left after
  // a kill.
  static testing::TypedGraph graph() {
    for (std::uint64_t seed = 1;; ++seed) {
      testing::TypedGraph graph =
          testing::random_typed_graph({.max_nodes = 300, .seed = seed, .reverses = true});
      const bool weighted =
          std::any_of(graph.edges.begin(), graph.edges.end(), [&](const testing::TypedEdges& edges) {
            return edges.dst == graph.nodes[0].name && !edges.weight.empty();
          });
      const auto has = [&](const char* rel) {
        return std::any_of(graph.edges.begin(), graph.edges.end(),
                           [&](const testing::TypedEdges& edges) { return edges.rel == rel; });
      };
      if (!weighted || !has("rev_r0") || !has("rev_r1") || graph.nodes[0].count < 200) continue;
      graph.nodes[0].num_classes = 24;
      for (std::size_t v = 0; v < graph.nodes[0].y.size(); ++v)
        graph.nodes[0].y[v] = static_cast<std::int64_t>(v % 24);
      return graph;
    }
  }

  LoaderOptions options_of_kind(int parts) const {
    const testing::TypedGraph typed = graph();
    const std::filesystem::path dataset = scratch_.path() / std::to_string(parts);
    if (!std::filesystem::exists(dataset))
      testing::write_typed_dataset(dataset, typed, testing::random_typed_cut(typed, parts, 5));
    LoaderOptions o = options();
    o.dataset = dataset.string();
    o.batch = GetParam().options;
    o.batch_size = GetParam().batch_size;
    if (GetParam().seed_times)
      for (std::size_t i = 0; i < typed.nodes[0].splits.at("train").size(); ++i)
        o.seed_times.push_back(static_cast<std::int64_t>(i) * 7 % 40 - 10);
    return o;
  }

 private:
  testing::TempFolder scratch_;
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
        Kind{"Typed", {.fanouts = {4, 3}, .edge_ids = true}},
        Kind{"EdgeFanouts", {.fanouts = {4, 3}, .edge_fanouts = {{"r0", {0, 2}}, {"r1", {-1, 1}}}}},
        Kind{"Replacement", {.fanouts = {4, 3}, .replace = true, .edge_ids = true}},
        Kind{"SeedTimes", {.fanouts = {4, 3}, .time = "time", .edge_ids = true}, 16, true},
        Kind{"LaborOfEachBatch", {.fanouts = {4, 3}, .labor = true}},
        Kind{"Weighted", {.fanouts = {4, 3}, .weight = "weight", .edge_attrs = {"weight"}}},
        Kind{"WeightedReplacement", {.fanouts = {4, 3}, .replace = true, .weight = "weight"}},
        Kind{"Temporal", {.fanouts = {4, 3}, .time = "time", .time_window = 9}},
        Kind{"TemporalLast",
             {.fanouts = {2, 2}, .time = "time", .temporal_strategy = TemporalStrategy::kLast}},
        Kind{"Labor", {.fanouts = {4, 3}, .labor = true, .labor_seeds = 32}},
        Kind{"Induced", {.fanouts = {4, 3}, .subgraph = Subgraph::kInduced, .edge_ids = true}},
        Kind{"Bidirectional", {.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional}},
        Kind{"Disjoint", {.fanouts = {4, 3}, .disjoint = true}},
        Kind{"WholeNeighbourhoods", {.fanouts = {-1, -1}, .edge_ids = true}},
        Kind{"Metapath",
             {.sampler = BatchOptions::kWalkSampler,
              .walk = {.length = 6, .per_seed = 2, .metapath = {"r1", "rev_r1", "rev_r0", "r0"}},
              .edge_ids = true}},
        Kind{"Clusters",
             {.sampler = BatchOptions::kClusterSampler,
              .cluster = "y",
              .subgraph = Subgraph::kInduced,
              .edge_ids = true},
             1}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
