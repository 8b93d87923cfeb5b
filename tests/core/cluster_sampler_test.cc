// Batches of whole clusters.
#include "core/sampler/cluster_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

// Nodes 0..5 of clusters 2, 0, 2, 4, 0, 0: numbers 1 and 3 have no node.
testing::TypedGraph graph(Ints clusters = {2, 0, 2, 4, 0, 0}) {
  return {.nodes = {{.name = "node", .count = 6, .time = std::move(clusters)}},
          .edges = {{.sources = {0, 1, 2}, .destinations = {1, 2, 0}}}};
}

class Clusters : public ::testing::Test {
 protected:
  Dataset open(const testing::TypedGraph& made, const testing::TypedCut& cut = {}) {
    testing::write_typed_dataset(folder_.path() / "graph", made, cut);
    return Dataset(folder_.path() / "graph");
  }
  std::filesystem::path path() const { return folder_.path() / "graph"; }
  static BatchOptions options() {
    BatchOptions o{.sampler = BatchOptions::kClusterSampler};
    o.cluster = "time";
    o.subgraph = Subgraph::kInduced;
    return o;
  }

 private:
  testing::TempFolder folder_;
};

TEST_F(Clusters, OneNodeOfEach_IsASeed) {
  const Dataset dataset = open(graph());
  EXPECT_EQ(cluster_seeds(dataset, 0, "time"), (Ints{1, 0, 3}));
}

TEST_F(Clusters, ABatchHasTheirNodes_SeedsFirst) {
  for (int parts : {1, 2, 3}) {
    const testing::TypedGraph made = graph();
    const Dataset dataset = open(made, testing::random_typed_cut(made, parts, 3));
    const testing::Block one = testing::make_batch(dataset, {.seeds = {4}}, options());
    EXPECT_EQ(testing::ints(one.view().n_id()), (Ints{4, 1, 5}));
    const testing::Block two = testing::make_batch(dataset, {.seeds = {0, 4, 2}}, options());
    EXPECT_EQ(testing::ints(two.view().n_id()), (Ints{0, 4, 2, 1, 5}));
    EXPECT_EQ(two.view().batch_size(), 3);
  }
}

TEST_F(Clusters, TheWorstCaseIsTheLargestClusters) {
  const Dataset dataset = open(graph());
  const ClusterIndex index(dataset, 0, "time");
  EXPECT_EQ(index.largest(1), 3);
  EXPECT_EQ(index.largest(2), 5);
  EXPECT_EQ(index.largest(100), 6);
  const Ints seeds = cluster_seeds(dataset, 0, "time");
  const NodeList list(seeds, {});
  BatchMaker maker(dataset, list, options());
  for (std::int64_t first = 0; first < 3; ++first) {
    EXPECT_LE(maker.sample({.seed = 1, .epoch = 0, .first = first, .count = 1}), maker.max_block_bytes(1));
  }
}

// Each numbers its own; what a value of the other type's is, does not matter.
TEST_F(Clusters, OfTwoNodeTypes_AreThoseOfTheSeedsType) {
  const Dataset dataset = open(
      {.nodes = {{.name = "a", .count = 4, .time = {0, 0, 1, 99}},
                 {.name = "b", .count = 5, .time = {1, 0, 1, 0, 1}},
                 {.name = "c", .count = 2}},
       .edges = {{.src = "a", .rel = "to", .dst = "b", .sources = {0, 1, 2}, .destinations = {0, 2, 4}},
                 {.src = "b", .rel = "in", .dst = "b", .sources = {0, 1, 2}, .destinations = {2, 3, 1}}}});
  const Ints seeds = cluster_seeds(dataset, 1, "time");
  EXPECT_EQ(seeds, (Ints{1, 0}));
  const NodeList list(seeds, {.node_type = 1, .shuffle = false});
  BatchMaker maker(dataset, list, options());
  EXPECT_GE(maker.scratch(1).tables, 5 * sizeof(std::int64_t)) << "which counts in each worker";
  const testing::Block one = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 1});
  EXPECT_EQ(testing::ints(one.view().get("n_id", Store::kNode, 1)), (Ints{1, 3}));
  EXPECT_EQ(one.view().get("n_id", Store::kNode, 0).shape[0], 0);
  const testing::Block two = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 2});
  EXPECT_EQ(testing::ints(two.view().get("n_id", Store::kNode, 1)), (Ints{1, 0, 3, 2, 4}));
  EXPECT_EQ(testing::ints(two.view().get("edge_index", Store::kEdge, 1)), (Ints{3, 0, 1, 0, 2, 3}));
}

TEST_F(Clusters, OfAnotherTypeThanTheSeeds_AreRefusedByTheirTypes) {
  const Dataset dataset = open({.nodes = {{.name = "a", .count = 2, .time = {0, 0}},
                                          {.name = "b", .count = 2, .time = {1, 0}},
                                          {.name = "c", .count = 2}}});
  const Ints seeds{0};
  const NodeList list(seeds, {.node_type = 2});
  try {
    const BatchMaker maker(dataset, list, options());
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "there are seeds of node type 'c', which has no attribute 'time' that numbers clusters; choose "
        "seeds of types that have it (of links both ends): a, b");
  }
}

TEST_F(Clusters, NumbersThatCannotBe_AreRefused) {
  const auto said = [&](const Ints& clusters, const std::string& name) -> std::string {
    const Dataset dataset = open(graph(clusters));
    try {
      cluster_seeds(dataset, 0, name);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(said({2, 0, -1, 4, 0, 0}, "time").find("cluster -1 of node 2"), std::string::npos);
  EXPECT_NE(said({2, 0, 6, 4, 0, 0}, "time").find("cluster 6 of node 2"), std::string::npos);
  EXPECT_NE(said({2, 0, 2, 4, 0, 0}, "nope").find("nope"), std::string::npos);
}

// Each id is one of a node, so nothing tells before they are put in order.
TEST_F(Clusters, ADamagedListOfIds_IsNamed) {
  open(graph());
  const std::filesystem::path ids = path() / "nodes/node/new_ids.npy";
  std::string bytes;
  {
    std::ifstream in(ids, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  constexpr std::size_t kIds = 6 * sizeof(std::int32_t);
  ASSERT_GT(bytes.size(), kIds);
  for (std::size_t i = 0; i < 6; ++i)
    bytes.replace(bytes.size() - kIds + 4 * i, 4, bytes.substr(bytes.size() - 4));
  std::filesystem::remove(ids);
  std::ofstream(ids, std::ios::binary) << bytes;
  const Dataset dataset(path());
  try {
    cluster_seeds(dataset, 0, "time");
    FAIL() << "one node was there six times";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("new_ids.npy' gives a node twice"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace hopfeed
