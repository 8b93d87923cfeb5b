// Graphs of several node and edge types through the shared stage, cuts and back: against the obvious serial
// writer, and with the same batches whatever the cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "partition_tool/edge_array_checks.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/undirected_graph.h"
#include "tests/partition_tool/typed_raw_graph.h"
#include "tests/support/dataset_files.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::no_progress;
using testing::raw_graph_of;
using testing::TempFolder;
using testing::TypedGraph;
using testing::verify;
using Ints = std::vector<std::int64_t>;

std::vector<std::int32_t> cut_by(const std::string& method, const RawGraph& graph, int partitions) {
  const PartitionOptions options{.partitions = partitions, .seed = 1, .threads = 2};
  return method == "metis" ? partition_by_metis(graph, options, no_progress)
                           : partition_randomly(graph, options);
}

/// What the obvious writer is told to make of a graph with this cut and these orders.
testing::TypedCut slow_cut(const TypedGraph& typed, const RawGraph& graph,
                           const std::vector<NodeOrder>& orders,
                           const std::vector<std::int32_t>& partition_of, bool edge_ids) {
  testing::TypedCut cut{.partitions = static_cast<int>(orders[0].partition_offsets.size()) - 1,
                        .partition_of = {},
                        .order = {},
                        .edge_ids = edge_ids,
                        .bounds_apart = 1};
  for (std::size_t t = 0; t < typed.nodes.size(); ++t) {
    cut.order.push_back(orders[t].original);
    if (partition_of.empty()) continue;
    const auto first = partition_of.begin() + graph.first_node(static_cast<int>(t));
    cut.partition_of.emplace_back(first, first + typed.nodes[t].count);
  }
  return cut;
}

// Two types of 400 and 200 nodes, one of 10, which is too small to be worth cut edges; half of the second
// type is trained on.
TEST(TypedGraph, MetisBalancesEachTypeByItself) {
  TypedGraph typed{
      .nodes = {{.name = "a", .count = 400}, {.name = "b", .count = 200}, {.name = "c", .count = 10}},
      .edges = {{.src = "a", .rel = "r", .dst = "a"},
                {.src = "a", .rel = "r", .dst = "b"},
                {.src = "c", .rel = "r", .dst = "a"}}};
  for (std::int64_t v = 0; v < 100; ++v) typed.nodes[1].splits["train"].push_back(v);
  const auto add = [&](int edges, std::int64_t source, std::int64_t destination) {
    typed.edges[edges].sources.push_back(source);
    typed.edges[edges].destinations.push_back(destination);
  };
  for (std::int64_t v = 0; v < 400; ++v) {
    for (const std::int64_t step : {1, 2, 7}) add(0, (v + step) % 400, v);
    if (v < 300) add(1, v, v * v % 200);  // some of them know nobody of the other type
    add(2, v / 40, v);
  }
  const RawGraph graph = raw_graph_of(typed);
  const std::vector<std::int32_t> cut = cut_by("metis", graph, 4);
  EXPECT_EQ(cut, cut_by("metis", graph, 4));
  const auto largest = [&](std::int64_t first, std::int64_t last) {
    Ints sizes(4);
    for (std::int64_t v = first; v < last; ++v) ++sizes[cut[v]];
    return *std::ranges::max_element(sizes);
  };
  EXPECT_LE(largest(0, 400), 110);
  EXPECT_LE(largest(400, 600), 55);
  EXPECT_LE(largest(400, 500), 28);  // the training nodes
}

TEST(TypedGraph, SameFilesAsTheObviousWriter) {
  const TempFolder folder;
  int compared = 0;
  for (const std::uint64_t seed : {1, 2, 3}) {
    TypedGraph typed = testing::random_typed_graph({.node_types = 3, .edge_types = 6, .seed = seed});
    for (std::size_t i = 0; i < typed.edges[0].sources.size() && i < 9; ++i)
      for (const auto* ends : {&typed.edges[0].sources, &typed.edges[0].destinations})
        typed.edges[0].splits["train"].pairs.push_back((*ends)[i]);
    for (const auto& [partitions, sharded] : {std::pair{1, false}, {3, false}, {3, true}, {4, true}}) {
      const bool edge_ids = seed % 2 == 0;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(partitions) + " partitions" +
                   (sharded ? ", sharded" : ""));
      const RawGraph graph = raw_graph_of(typed, edge_ids);
      testing::BuildCut cut{.partitions = partitions, .partition_of = {}, .sharded_ids = sharded};
      cut.hotness.threads = static_cast<int>(seed % 3 + 1);
      if (partitions > 1) cut.partition_of = cut_by("random", graph, partitions);
      const auto orders = order_nodes(graph, cut.partition_of, partitions, cut.hotness, no_progress);
      fs::remove_all(folder.path() / "fast");
      const DatasetMeta meta = testing::write_dataset(folder.path() / "fast", graph, cut);
      verify(folder.path() / "fast");
      testing::TypedCut slow = slow_cut(typed, graph, orders, cut.partition_of, edge_ids);
      slow.sharded_ids = sharded;
      testing::write_typed_dataset(folder.path() / "slow", typed, slow);
      const DatasetMeta oracle = Dataset(folder.path() / "slow").meta();
      EXPECT_EQ(meta.fingerprint, oracle.fingerprint);
      EXPECT_EQ(meta.cut.edges_cut, oracle.cut.edges_cut);
      ASSERT_EQ(testing::files_but_remote_rows(meta), oracle.files.size());
      for (const auto& [path, file] : oracle.files) {
        if (path.ends_with("/hotness.npy") || path.ends_with("/x.npy"))
          continue;  // other numbers, other strides
        EXPECT_EQ(testing::file_bytes(folder.path() / "fast" / path),
                  testing::file_bytes(folder.path() / "slow" / path))
            << path;
        compared += path.ends_with("/original_ids.npy");
      }
    }
  }
  EXPECT_GT(compared, 0);  // node types that no edges end at were among them
}

TEST(TypedGraph, BatchesAreTheSameBytesWhateverTheCut) {
  const TempFolder folder;
  const TypedGraph typed =
      testing::random_typed_graph({.node_types = 3, .edge_types = 8, .max_nodes = 400, .seed = 12});
  const DatasetMeta meta = testing::write_dataset(folder.path() / "whole", raw_graph_of(typed));
  const Dataset whole(folder.path() / "whole");
  const std::vector<BatchOptions> kinds{
      {.fanouts = {5, 3}, .edge_ids = true},
      {.fanouts = {5, 3}, .weight = "weight", .edge_ids = true, .edge_attrs = {"weight"}},
      {.fanouts = {5, 3}, .time = "time", .edge_ids = true}};
  fs::path from = folder.path() / "whole";  // each cut is made of the one before
  for (const auto& [method, partitions] :
       {std::pair{"random", 3}, {"metis", 2}, {"metis", 3}, {"random", 2}, {"random", 1}}) {
    SCOPED_TRACE(method + std::to_string(partitions));
    const Dataset input(from);
    const RawGraph graph = read_dataset(input, 2, no_progress);
    const fs::path to = folder.path() / (method + std::to_string(partitions));
    const DatasetMeta cut = testing::write_dataset(
        to, graph, {.partitions = partitions, .partition_of = cut_by(method, graph, partitions)});
    verify(to);
    EXPECT_EQ(cut.fingerprint, meta.fingerprint);
    const Dataset dataset(to);
    for (int type = 0; type < 3; ++type) {
      const NodeList seeds(whole.split(type, "train"), {.node_type = type}),
          own_seeds(dataset.split(type, "train"), {.node_type = type});
      for (const BatchOptions& options : kinds) {
        BatchMaker maker(whole, seeds, options), own_maker(dataset, own_seeds, options);
        const BatchKey key{
            .seed = 9, .epoch = 2, .first = 0, .count = std::min<std::int64_t>(32, seeds.size())};
        EXPECT_EQ(testing::make_block(own_maker, key).view().digest(),
                  testing::make_block(maker, key).view().digest())
            << "seeds of type " << type << ", " << options.to_json();
      }
    }
    from = to;
  }
  for (const auto& [path, file] : meta.files)
    EXPECT_EQ(Dataset(from).meta().files.at(path).xxh3, file.xxh3) << path;
}

/// Types a (2 nodes) and b (3): edges b -> a, a -> b, a -> a.
TypedGraph small_graph() {
  TypedGraph typed;
  for (const auto& [name, count] : {std::pair{"a", 2}, {"b", 3}})
    typed.nodes.push_back({.name = name, .count = count, .x = {}, .y = {}, .time = {}, .splits = {}});
  typed.edges.push_back({.src = "b",
                         .rel = "in",
                         .dst = "a",
                         .sources = {2, 0, 2},
                         .destinations = {0, 0, 0},
                         .weight = {},
                         .time = {}});
  typed.edges.push_back({.src = "a",
                         .rel = "out",
                         .dst = "b",
                         .sources = {0, 1},
                         .destinations = {2, 0},
                         .weight = {},
                         .time = {}});
  typed.edges.push_back({.src = "a",
                         .rel = "own",
                         .dst = "a",
                         .sources = {1, 1},
                         .destinations = {0, 1},
                         .weight = {},
                         .time = {}});
  return typed;
}

// Edge splits and reverses go through every cut; the fingerprint, which covers them, says that they are the
// same.
TEST(TypedGraph, EdgeSplitsAndReversesAreKeptByEveryCut) {
  TypedGraph typed = small_graph();
  typed.edges[1].rev_of = "b__in__a";
  typed.edges[0].splits["train"] = {.pairs = {2, 0, 0, 0, 2, 0}, .times = {3, 1, 2}};
  typed.edges[0].splits["test"] = {.pairs = {1, 1}, .labels = {0}};
  testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "oracle", typed);
  testing::write_dataset(folder.path() / "one", raw_graph_of(typed));
  const Dataset one(folder.path() / "one");
  const RawGraph graph = read_dataset(one, 2, no_progress);
  testing::write_dataset(folder.path() / "two", graph, {.partitions = 2, .partition_of = {0, 1, 1, 0, 1}});
  for (const char* name : {"one", "two"}) {
    const Dataset dataset(folder.path() / name);
    dataset.verify([](std::uint64_t, std::uint64_t) {});
    EXPECT_EQ(dataset.meta().fingerprint, Dataset(folder.path() / "oracle").meta().fingerprint);
    EXPECT_EQ(dataset.meta().edge_types[1].rev_of, "b__in__a");
    const LinkSplit train = dataset.edge_split(0, "train"), test = dataset.edge_split(0, "test");
    EXPECT_EQ(Ints(train.pairs.begin(), train.pairs.end()), (Ints{2, 0, 0, 0, 2, 0}));
    EXPECT_EQ(Ints(train.times.begin(), train.times.end()), (Ints{3, 1, 2}));
    EXPECT_EQ(Ints(test.labels.begin(), test.labels.end()), (Ints{0}));
    EXPECT_TRUE(train.labels.empty() && test.times.empty());
  }
}

TEST(TypedGraph, MetisSeesTheEdgesOfAllTypesBetweenNodesNumberedThrough) {
  const UndirectedGraph graph = symmetrise(raw_graph_of(small_graph()), {});
  // 0 = a0, 1 = a1, 2 = b0, 3 = b1, 4 = b2: {0, 4} thrice, {0, 2}, {1, 2} and {0, 1} once; the loop is no
  // edge.
  EXPECT_EQ(graph.offsets, (std::vector<std::int32_t>{0, 3, 5, 7, 7, 8}));
  EXPECT_EQ(graph.neighbours, (std::vector<std::int32_t>{1, 2, 4, 0, 2, 0, 1, 0}));
  EXPECT_EQ(graph.weights, (std::vector<std::int32_t>{1, 1, 3, 1, 1, 1, 1, 3}));
}

TEST(TypedGraph, HotnessStartsFromTheTypesWithTrainingNodesAndReachesTheOthers) {
  TypedGraph typed = small_graph();
  typed.nodes[1].splits["train"] = {2};
  const auto orders =
      order_nodes(raw_graph_of(typed), {}, 1, {.fanouts = {1, 1}, .batch_size = 1}, no_progress);
  // b2 reads a0, which reads b2 with 2/3, b0 with 1/3 and a1.
  EXPECT_EQ(orders[0].original, (Ints{0, 1}));
  EXPECT_EQ(orders[0].hotness, (std::vector<double>{1, 1}));
  EXPECT_EQ(orders[1].original, (Ints{2, 0, 1}));
  EXPECT_EQ(orders[1].hotness[0], 1);
  EXPECT_NEAR(orders[1].hotness[1], 1.0 / 3, 1e-15);
  EXPECT_EQ(orders[1].hotness[2], 0);
}

TEST(TypedGraph, RandomCutsDealEachTypeEvenly) {
  const TypedGraph typed = testing::random_typed_graph({.node_types = 4, .max_nodes = 300, .seed = 2});
  const RawGraph graph = raw_graph_of(typed);
  const auto cut = partition_randomly(graph, {.partitions = 5, .seed = 3});
  for (int t = 0; t < 4; ++t) {
    const auto first = cut.begin() + graph.first_node(t);
    for (int p = 0; p < 5; ++p)
      EXPECT_NEAR(static_cast<double>(std::count(first, first + graph.nodes[t].count, p)),
                  static_cast<double>(graph.nodes[t].count) / 5, 1)
          << "type " << t << ", partition " << p;
  }
}

TEST(TypedGraph, MetisBalancesTheTrainingNodesOfAllTypes) {
  TypedGraph typed =
      testing::random_typed_graph({.node_types = 2, .edge_types = 6, .max_nodes = 2'000, .seed = 5});
  const RawGraph graph = raw_graph_of(typed);
  const auto cut = cut_by("metis", graph, 4);
  std::vector<double> train(4);
  for (const std::int64_t v : graph.training_nodes()) ++train[cut[v]];
  const double each = static_cast<double>(graph.training_nodes().size()) / 4;
  for (int p = 0; p < 4; ++p) EXPECT_LT(train[p], 1.1 * each) << p;
}

TEST(TypedGraph, WeightsAndTimesThatDoNotFitNameTheirEdgeType) {
  const auto refused = [](const std::function<void(RawGraph&)>& spoil, const std::string& message) {
    RawGraph graph = raw_graph_of(small_graph());
    spoil(graph);
    try {
      check_edge_arrays(graph);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_STREQ(error.what(), message.c_str());
    }
  };
  refused([](RawGraph& g) { g.edges[1].weights = {"w"}; },
          "edge type a__out__b: weight 'w' is no attribute of the edges; they have: none");
  refused(
      [](RawGraph& g) { g.edges[0].times = {"t"}; },
      "edge type b__in__a: time 't' is no attribute of the edges, which have: none, nor of the source nodes, "
      "which have: none");
}

}  // namespace
}  // namespace hopfeed
