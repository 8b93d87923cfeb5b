// Every kind of sampling through worker mode, on a graph of several types: the same bytes as the serial oracle whatever the number
// of workers and partitions, and after a worker's death.
#include <signal.h>

#include <algorithm>

#include "tests/support/typed_dataset.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

struct Kind {
  const char* name;
  BatchOptions options;
};

class KindsThroughWorkers : public LoaderTestWithin<>, public ::testing::WithParamInterface<Kind> {
 protected:
  // The first random graph that has weights; times it has anyway.
  static testing::TypedGraph graph() {
    for (std::uint64_t seed = 1;; ++seed) {
      testing::TypedGraph graph = testing::random_typed_graph({.max_nodes = 300, .seed = seed});
      const bool weighted =
          std::any_of(graph.edges.begin(), graph.edges.end(), [&](const testing::TypedEdges& edges) {
            return edges.dst == graph.nodes[0].name && !edges.weight.empty();
          });
      if (weighted && graph.nodes[0].count >= 200) return graph;
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
    return o;
  }

 private:
  testing::TempFolder scratch_;
};

TEST_P(KindsThroughWorkers, OneTwoAndFourWorkers_OneTwoAndThreePartitions_GiveTheSameBytes) {
  const std::vector<std::string> want = expected(options_of_kind(1));
  for (int number : {1, 2, 3}) {
    LoaderOptions o = options_of_kind(number);
    o.num_workers = number == 3 ? 4 : number;
    Loader loader(o);
    EXPECT_EQ(loaded(loader), want) << number << " partitions, " << o.num_workers << " workers";
  }
}

TEST_P(KindsThroughWorkers, WorkerKilled_TrainerGetsTheSameBytes) {
  const LoaderOptions o = options_of_kind(2);
  const std::vector<std::string> want = expected(o);
  Loader loader(o);
  std::vector<std::string> got;
  loader.begin_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    got.push_back(line_of(batch->view()));
    const std::vector<int> pids = loader.worker_pids();
    if (got.size() == 3 && !pids.empty()) {
      ASSERT_EQ(::kill(pids.front(), SIGKILL), 0);
    }
  }
  EXPECT_EQ(got, want);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, KindsThroughWorkers,
    ::testing::Values(Kind{"Typed", {.fanouts = {4, 3}, .edge_ids = true}},
                      Kind{"EdgeFanouts",
                           {.fanouts = {4, 3}, .edge_fanouts = {{"r0", {0, 2}}, {"r1", {-1, 1}}}}},
                      Kind{"Weighted", {.fanouts = {4, 3}, .weight = "weight", .edge_attrs = {"weight"}}},
                      Kind{"WeightedReplacement", {.fanouts = {4, 3}, .replace = true, .weight = "weight"}},
                      Kind{"Temporal", {.fanouts = {4, 3}, .time = "time", .time_window = 9}},
                      Kind{"TemporalLast",
                           {.fanouts = {2, 2}, .time = "time", .temporal_strategy = TemporalStrategy::kLast}},
                      Kind{"Labor", {.fanouts = {4, 3}, .labor = true, .labor_seeds = 32}},
                      Kind{"Induced", {.fanouts = {4, 3}, .subgraph = Subgraph::kInduced, .edge_ids = true}},
                      Kind{"Disjoint", {.fanouts = {4, 3}, .disjoint = true}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
