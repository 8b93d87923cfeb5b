// Cuts: everything that was imported survives, and batches do not see the cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "partition_tool/generate.h"
#include "partition_tool/hotness/hotness.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/undirected_graph.h"
#include "tests/partition_tool/made_dataset.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::no_progress;
using testing::TempFolder;

struct Cut {
  const char* method;
  int partitions;
};
constexpr Cut kCuts[] = {{"metis", 1},  {"metis", 2},  {"metis", 3}, {"random", 1},
                         {"random", 2}, {"random", 3}, {"metis", 7}};

/// Cuts the dataset in `from` as the program does.
DatasetMeta recut(const fs::path& from, const fs::path& to, const Cut& cut) {
  const Dataset input(from);
  const RawGraph graph = read_dataset(input, 2, no_progress);
  const PartitionOptions options{.partitions = cut.partitions, .seed = 1, .threads = 2};
  const auto partition_of = std::string(cut.method) == "metis"
                                ? partition_by_metis(graph, options, no_progress)
                                : partition_randomly(graph, options);
  return testing::write_dataset(to, graph, {.partitions = cut.partitions, .partition_of = partition_of});
}

class PartitionTest : public ::testing::Test {
 protected:
  PartitionTest() {
    const RawGraph graph = generate_graph({.num_nodes = 2'000,
                                           .num_edges = 24'000,
                                           .num_features = 16,
                                           .num_classes = 4,
                                           .seed = 3,
                                           .train_fraction = 0.3},
                                          no_progress);
    whole_ = testing::write_dataset(folder_.path() / "whole", graph);
  }
  fs::path cut_folder(const Cut& cut) const {
    return folder_.path() / (cut.method + std::to_string(cut.partitions));
  }
  const TempFolder folder_;
  DatasetMeta whole_;
};

TEST_F(PartitionTest, NothingIsLostAndTheFingerprintStays) {
  const Dataset whole(folder_.path() / "whole");
  const auto rows = testing::rows_by_original_id(whole);
  for (const Cut& cut : kCuts) {
    SCOPED_TRACE(cut_folder(cut).filename());
    const DatasetMeta meta = recut(folder_.path() / "whole", cut_folder(cut), cut);
    EXPECT_EQ(meta.fingerprint, whole_.fingerprint);
    const Dataset dataset(cut_folder(cut));
    dataset.verify([](std::uint64_t, std::uint64_t) {});
    EXPECT_EQ(dataset.meta().partitions, cut.partitions);
    EXPECT_EQ(testing::rows_by_original_id(dataset), rows);  // sources, edge ids and their order
    std::vector<int> seen(2'000);
    for (std::int64_t v = 0; v < 2'000; ++v) {
      ++seen[dataset.dataset_id(0, v)];
      EXPECT_EQ(dataset.original_id(0, dataset.dataset_id(0, v)), v);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 2'000);
    for (const char* split : {"train", "valid", "test"}) {
      EXPECT_TRUE(std::ranges::equal(dataset.split(0, split), whole.split(0, split))) << split;
    }
  }
}

TEST_F(PartitionTest, BatchesAreTheSameBytesWhateverTheCut) {
  const Dataset whole(folder_.path() / "whole");
  const NodeList seeds(whole.split(0, "train"), {});
  BatchOptions options;
  options.fanouts = {5, 3};
  options.edge_ids = true;
  BatchMaker maker(whole, seeds, options);
  for (const Cut& cut : kCuts) {
    recut(folder_.path() / "whole", cut_folder(cut), cut);
    const Dataset dataset(cut_folder(cut));
    const NodeList own_seeds(dataset.split(0, "train"), {});
    BatchMaker own_maker(dataset, own_seeds, options);
    for (std::int64_t first : {0, 64, 500}) {
      const BatchKey key{.seed = 9, .epoch = 2, .first = first, .count = 64};
      EXPECT_EQ(testing::make_block(own_maker, key).view().digest(),
                testing::make_block(maker, key).view().digest())
          << cut_folder(cut);
    }
  }
}

TEST_F(PartitionTest, TheOrderDoesNotDependOnTheInputsCut) {
  recut(folder_.path() / "whole", folder_.path() / "a", {"metis", 3});
  const DatasetMeta direct = recut(folder_.path() / "whole", folder_.path() / "b", {"metis", 2});
  const DatasetMeta again = recut(folder_.path() / "a", folder_.path() / "c", {"metis", 2});
  ASSERT_EQ(direct.files.size(), again.files.size());
  for (const auto& [path, file] : direct.files) EXPECT_EQ(again.files.at(path).xxh3, file.xxh3) << path;
  const DatasetMeta back = recut(folder_.path() / "a", folder_.path() / "d", {"random", 1});
  for (const auto& [path, file] : whole_.files) EXPECT_EQ(back.files.at(path).xxh3, file.xxh3) << path;
}

TEST_F(PartitionTest, EachPartitionIsOrderedByWhatItsOwnTrainingNodesSee) {
  recut(folder_.path() / "whole", folder_.path() / "cut", {"metis", 3});
  const Dataset dataset(folder_.path() / "cut");
  const RawGraph graph = read_dataset(dataset, 1, no_progress);
  const NodeTypeMeta& node = dataset.meta().node_types[0];
  for (int p = 0; p < 3; ++p) {
    std::vector<std::int64_t> own;
    for (std::int64_t v : dataset.split(0, "train")) {
      if (partition_of(node.partition_offsets, dataset.dataset_id(0, v)) == p) own.push_back(v);
    }
    ASSERT_FALSE(own.empty());
    const auto hot = inclusion_probability(
        {.num_nodes = graph.num_nodes(),
         .edges = {{.indptr = graph.edges[0].csc.indptr, .indices = graph.edges[0].csc.rows()}},
         .train = own},
        {.fanouts = {3, 2}, .batch_size = 8});
    for (std::int64_t i = node.partition_offsets[p]; i < node.partition_offsets[p + 1]; ++i) {
      const std::int64_t v = dataset.original_id(0, i);
      EXPECT_EQ(dataset.hotness(0, p)[i - node.partition_offsets[p]], hot[v]);
      if (i == node.partition_offsets[p]) continue;
      const std::int64_t before = dataset.original_id(0, i - 1);
      EXPECT_TRUE(hot[before] > hot[v] || (hot[before] == hot[v] && before < v)) << i;
    }
  }
}

TEST_F(PartitionTest, RandomSizesDifferByOneAtMostAndFollowTheSeed) {
  const Dataset dataset(folder_.path() / "whole");
  const RawGraph graph = read_dataset(dataset, 1, no_progress);
  const auto cut = partition_randomly(graph, {.partitions = 7, .seed = 5});
  for (int p = 0; p < 7; ++p)
    EXPECT_NEAR(static_cast<double>(std::count(cut.begin(), cut.end(), p)), 2'000 / 7.0, 1) << p;
  EXPECT_EQ(partition_randomly(graph, {.partitions = 7, .seed = 5}), cut);
  EXPECT_NE(partition_randomly(graph, {.partitions = 7, .seed = 6}), cut);
}

TEST_F(PartitionTest, MetisBalancesNodesAndTrainingNodes) {
  const Dataset dataset(folder_.path() / "whole");
  const RawGraph graph = read_dataset(dataset, 1, no_progress);
  const auto cut = partition_by_metis(graph, {.partitions = 4, .seed = 5}, no_progress);
  std::vector<double> nodes(4), train(4);
  for (std::int32_t p : cut) ++nodes[p];
  for (std::int64_t v : graph.nodes[0].splits.at("train")) ++train[cut[v]];
  for (int p = 0; p < 4; ++p) {
    EXPECT_LT(nodes[p], 500 * 1.1) << p;
    EXPECT_LT(train[p], 150 * 1.1) << p;
  }
  EXPECT_EQ(partition_by_metis(graph, {.partitions = 4, .seed = 5}, no_progress), cut);
}

// METIS would take 0 and 1 for the same, and see the lower 31 bits alone.
TEST_F(PartitionTest, EachSeed_MakesAMetisCutOfItsOwn) {
  const RawGraph graph = read_dataset(Dataset(folder_.path() / "whole"), 1, no_progress);
  std::set<std::vector<std::int32_t>> cuts;
  const std::uint64_t seeds[] = {0, 1, 2, 3, std::uint64_t{5} << 31, std::uint64_t{5} << 32};
  for (const std::uint64_t seed : seeds)
    cuts.insert(partition_by_metis(graph, {.partitions = 4, .seed = seed}, no_progress));
  EXPECT_EQ(cuts.size(), std::size(seeds));
}

// Two cliques with loops and parallel edges, joined by one directed edge: METIS must find them.
TEST(PartitionByMetis, FindsTwoCliques) {
  testing::TinyGraph tiny;
  tiny.num_nodes = 40;
  std::mt19937_64 random(1);
  std::vector<std::int64_t> shuffled(40);
  for (int i = 0; i < 40; ++i) shuffled[i] = i;
  std::shuffle(shuffled.begin(), shuffled.end(), random);
  const auto add = [&](int a, int b) {
    tiny.src.push_back(shuffled[a]);
    tiny.dst.push_back(shuffled[b]);
  };
  for (int c : {0, 20}) {
    for (int a = 0; a < 20; ++a) {
      for (int b = a; b < 20; ++b) {
        add(c + a, c + b);
        add(c + a, c + b);
      }
    }
  }
  add(3, 30);
  const auto cut = partition_by_metis(testing::raw_graph_of(tiny), {.partitions = 2}, no_progress);
  for (int i = 1; i < 20; ++i) {
    EXPECT_EQ(cut[shuffled[i]], cut[shuffled[0]]);
    EXPECT_EQ(cut[shuffled[20 + i]], cut[shuffled[20]]);
  }
  EXPECT_NE(cut[shuffled[0]], cut[shuffled[20]]);
}

// pyg-lib's case: the cycle of six in two parts.
TEST(PartitionByMetis, TheCycleOfSixFallsIntoTwoHalves) {
  const auto cut =
      partition_by_metis(testing::raw_graph_of(testing::ring_graph(6)), {.partitions = 2}, no_progress);
  ASSERT_EQ(cut.size(), 6U);
  EXPECT_EQ(*std::min_element(cut.begin(), cut.end()), 0);
  EXPECT_EQ(*std::max_element(cut.begin(), cut.end()), 1);
}

TEST(PartitionByMetis, PartitionsWithoutANodeAreRefused) {
  require_no_empty_partition({0, 2, 1, 0}, 3, "metis");
  expect_refused(
      [] {
        require_no_empty_partition({0, 2, 0, 0}, 4, "metis");
      },
      "METIS left 2 of 4 partitions without a node; use fewer --parts or --method random");
  expect_refused(
      [] {
        require_no_empty_partition({0, 2, 0, 0}, 4, "random");
      },
      "2 of 4 partitions would have no node, since the nodes of each type are dealt by "
      "themselves and there are few; use fewer --parts");
}

TEST(PartitionByMetis, WhatDoesNotFitIn32BitsIsRefused) {
  // The ring of 10 has 10 nodes and 20 directed edges once it is symmetric.
  const RawGraph ring = testing::raw_graph_of(testing::ring_graph(10));
  EXPECT_EQ(partition_by_metis(ring, {.partitions = 2, .metis_limit = 20}, no_progress).size(), 10U);
  for (std::int64_t limit : {9, 19}) {
    try {
      partition_by_metis(ring, {.partitions = 2, .metis_limit = limit}, no_progress);
      ADD_FAILURE() << limit;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("--method random"), std::string::npos);
    }
  }
}

/// 20 classes of 100 nodes, a degree of about 100 in the undirected graph.
RawGraph dense_graph() {
  return generate_graph(
      {.num_nodes = 2'000, .num_edges = 100'000, .num_classes = 4, .seed = 3, .homophily = 0.9}, no_progress);
}

TEST(UndirectedGraph, WithoutThinning_AnEdgeWeighsWhatItStandsFor) {
  testing::TinyGraph tiny;
  tiny.num_nodes = 4;
  tiny.src = {0, 1, 0, 2, 3};
  tiny.dst = {1, 0, 1, 1, 3};  // 0 and 1 thrice, 1 and 2 once, a loop
  const UndirectedGraph graph = symmetrise(testing::raw_graph_of(tiny), {});
  EXPECT_EQ(graph.offsets, (std::vector<std::int32_t>{0, 1, 3, 4, 4}));
  EXPECT_EQ(graph.neighbours, (std::vector<std::int32_t>{1, 0, 2, 1}));
  EXPECT_EQ(graph.weights, (std::vector<std::int32_t>{3, 3, 1, 1}));
}

TEST(UndirectedGraph, Thinned_KeepsAboutAsManyNeighboursAndAllOfTheWeight) {
  const RawGraph graph = dense_graph();
  const UndirectedGraph whole = symmetrise(graph, {}), thin = symmetrise(graph, {.metis_degree = 10});
  const auto weight = [](const UndirectedGraph& g) {
    return std::accumulate(g.weights.begin(), g.weights.end(), 0.0);
  };
  EXPECT_NEAR(weight(thin) / weight(whole), 1, 0.05);
  EXPECT_LT(thin.neighbours.size(), whole.neighbours.size() / 4);
  EXPECT_LE(thin.neighbours.size(), 2'000U * 2 * 11);
  for (std::int32_t v = 0; v < 2'000; ++v) {  // each edge both ways, with one weight
    for (std::int32_t e = thin.offsets[v]; e < thin.offsets[v + 1]; ++e) {
      const std::int32_t u = thin.neighbours[e];
      const auto row = thin.neighbours.begin() + thin.offsets[u],
                 end = thin.neighbours.begin() + thin.offsets[u + 1];
      const auto back = std::lower_bound(row, end, v);
      ASSERT_TRUE(back != end && *back == v);
      ASSERT_EQ(thin.weights[back - thin.neighbours.begin()], thin.weights[e]);
    }
  }
}

TEST(UndirectedGraph, Thinned_IsAFunctionOfSeedAndDegree) {
  const RawGraph graph = dense_graph();
  const auto neighbours = [&](std::uint64_t seed, std::int64_t degree, int threads) {
    return symmetrise(graph, {.seed = seed, .threads = threads, .metis_degree = degree}).neighbours;
  };
  EXPECT_EQ(neighbours(1, 10, 1), neighbours(1, 10, 3));
  EXPECT_NE(neighbours(1, 10, 1), neighbours(2, 10, 1));
  EXPECT_NE(neighbours(1, 10, 1), neighbours(1, 11, 1));
  EXPECT_EQ(neighbours(1, 1'000'000, 1), symmetrise(graph, {}).neighbours);
}

TEST(PartitionByMetis, OnAThinnedGraph_CutsFarLessThanRandom) {
  const RawGraph graph = dense_graph();
  std::vector<std::int64_t> cut;
  for (const auto& partition_of :
       {partition_randomly(graph, {.partitions = 4, .seed = 1}),
        partition_by_metis(graph, {.partitions = 4, .seed = 1, .metis_degree = 8}, no_progress)}) {
    cut.push_back(0);
    for_row_blocks(
        graph.edges[0].csc.indptr, graph.edges[0].csc.rows(), 1, [](std::int64_t) { return true; },
        [&](std::int64_t first, std::int64_t last, auto ids) {
          for (std::int64_t v = first; v < last; ++v) {
            for (std::int64_t e = graph.edges[0].csc.indptr[v]; e < graph.edges[0].csc.indptr[v + 1]; ++e)
              cut.back() += partition_of[v] != partition_of[ids[e - graph.edges[0].csc.indptr[first]]];
          }
        });
  }
  EXPECT_NEAR(static_cast<double>(cut[0]) / 100'000, 0.75, 0.02);
  EXPECT_LT(cut[1], cut[0] / 2);
}

TEST(FitMetis, TheDegreeFollowsTheMemory) {
  const RawGraph graph = dense_graph();
  const MetisFit whole = fit_metis(graph, {}, std::uint64_t{1} << 40);
  EXPECT_EQ(whole.degree, 0);
  EXPECT_GT(whole.whole_bytes, 200'000u * 16);
  EXPECT_EQ(fit_metis(graph, {}, whole.whole_bytes).degree, 0);
  const std::int64_t most = fit_metis(graph, {}, whole.whole_bytes - 1).degree,
                     half = fit_metis(graph, {}, whole.whole_bytes / 2).degree;
  EXPECT_GT(half, 1);
  EXPECT_GT(most, half);
  EXPECT_EQ(fit_metis(graph, {}, whole.whole_bytes / 2).degree, half);
  try {
    fit_metis(graph, {}, 1'000);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_NE(std::string(error.what()).find("--method random"), std::string::npos) << error.what();
  }
}

TEST(FitMetis, WhatDoesNotFitIn32BitsIsThinned) {
  const RawGraph graph = dense_graph();
  const MetisFit fit = fit_metis(graph, {.metis_limit = 50'000}, std::uint64_t{1} << 40);
  EXPECT_GT(fit.degree, 0);
  EXPECT_LE(symmetrise(graph, {.metis_degree = fit.degree}).neighbours.size(), 50'000U);
}

TEST(ReadDataset, EdgeIdsAreLeftOutWhereTheInputHasNone) {
  const TempFolder folder;
  const RawGraph graph = testing::raw_graph_of(testing::random_graph({}), false);
  const DatasetMeta whole = testing::write_dataset(folder.path() / "whole", graph);
  const DatasetMeta cut = recut(folder.path() / "whole", folder.path() / "cut", {"random", 2});
  EXPECT_FALSE(cut.edge_types[0].has_edge_ids);
  EXPECT_EQ(cut.fingerprint, whole.fingerprint);
}

}  // namespace
}  // namespace hopfeed
