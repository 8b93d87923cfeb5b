// Small graphs with known answers (docs/batch.md): pyg-lib's cycle of six, and faults of other loaders.
#include "core/sampler/neighbor_sampler.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::ints;
using testing::make_batch;
using testing::source_row;
using testing::target_row;
using Ints = std::vector<std::int64_t>;

class Cycle6 : public ::testing::Test {
 protected:
  Cycle6() {
    testing::write_tiny_dataset(folder_.path() / "ring", testing::ring_graph(6));
    dataset_ = std::make_unique<Dataset>(folder_.path() / "ring");
  }
  testing::TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(Cycle6, AllNeighboursOfTwoHops) {
  const auto block = make_batch(*dataset_, {.seeds = {2, 3}}, {.fanouts = {-1, -1}, .edge_ids = true});
  const BatchView batch = block.view();
  EXPECT_EQ(target_row(batch), (Ints{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(source_row(batch), (Ints{2, 1, 0, 3, 4, 0, 1, 5}));
  EXPECT_EQ(ints(batch.n_id()), (Ints{2, 3, 1, 4, 0, 5}));
  EXPECT_EQ(ints(batch.get("e_id", Store::kEdge)), (Ints{4, 5, 6, 7, 2, 3, 8, 9}));
  EXPECT_EQ(ints(batch.num_sampled_nodes()), (Ints{2, 2, 2}));
  EXPECT_EQ(ints(batch.num_sampled_edges()), (Ints{4, 4}));
  EXPECT_EQ(ints(batch.input_id()), (Ints{0, 1}));
  EXPECT_EQ(batch.batch_size(), 2);
  EXPECT_FALSE(batch.has("seed_index", Store::kNode));
}

TEST_F(Cycle6, OneNeighbourWithoutAndWithReplacement) {
  for (bool replace : {false, true}) {
    const auto block =
        make_batch(*dataset_, {.seeds = {2, 3}}, {.fanouts = {1, 1}, .replace = replace, .edge_ids = true});
    const BatchView batch = block.view();
    ASSERT_EQ(batch.num_sampled_edges()[0], 2);
    const auto n_id = ints(batch.n_id()), sources = source_row(batch), targets = target_row(batch),
               e_id = ints(batch.get("e_id", Store::kEdge));
    for (std::size_t e = 0; e < sources.size(); ++e) {
      const std::int64_t from = n_id[sources[e]], to = n_id[targets[e]];
      EXPECT_TRUE((from - to + 6) % 6 == 1 || (to - from + 6) % 6 == 1);
      EXPECT_EQ(e_id[e] / 2, to) << "edges 2 i and 2 i + 1 end at node i";
      EXPECT_EQ((to + (e_id[e] % 2 ? 1 : 5)) % 6, from);
    }
  }
}

TEST_F(Cycle6, DuplicateSeedsKeepOneLocalIdAndMakeNoFalseEdges) {
  // pyg-lib 0.8 gives edges (2, 2) and (3, 1) here.
  const auto block = make_batch(*dataset_, {.seeds = {2, 2, 3}}, {.fanouts = {-1}});
  const BatchView batch = block.view();
  EXPECT_EQ(ints(batch.n_id()), (Ints{2, 3, 1, 4}));
  EXPECT_EQ(batch.batch_size(), 2);
  EXPECT_EQ(ints(batch.input_id()), (Ints{0, 1, 2}));
  EXPECT_EQ(ints(batch.get("seed_index", Store::kNode)), (Ints{0, 0, 1}));
  EXPECT_EQ(source_row(batch), (Ints{2, 1, 0, 3}));
  EXPECT_EQ(target_row(batch), (Ints{0, 0, 1, 1}));
  EXPECT_EQ(ints(batch.num_sampled_nodes()), (Ints{2, 2}));
}

TEST_F(Cycle6, NoSeedsGiveAnEmptySample) {
  NeighborSampler sampler(*dataset_, {.fanouts = {-1, -1}});
  const TypedSeeds none{.node_type = 0, .ids = {}, .times = {}};
  const Sample& sample = sampler.sample({.key = {}, .seeds = {&none, 1}});
  EXPECT_EQ(ints(sample.nodes[0].per_hop), (Ints{0, 0, 0}));
  EXPECT_EQ(ints(sample.edges[0].per_hop), (Ints{0, 0}));
}

TEST_F(Cycle6, NoHopsGiveTheSeedsAlone) {
  const auto block = make_batch(*dataset_, {.seeds = {5, 1}}, {.fanouts = {}});
  EXPECT_EQ(ints(block.view().n_id()), (Ints{5, 1}));
  EXPECT_EQ(block.view().num_edges(), 0);
  EXPECT_EQ(block.view().num_sampled_edges().size(), 0u);
}

// F30
TEST_F(Cycle6, SeedsOutOfRangeAreNamed) {
  for (std::int64_t bad : {std::int64_t{-1}, std::int64_t{6}, std::int64_t{1} << 40}) {
    try {
      make_batch(*dataset_, {.seeds = {0, bad}}, {.fanouts = {1}});
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos);
    }
  }
}

// F30
TEST(NeighborSampler, NodesWithoutNeighboursGiveNoEdges) {
  testing::TempFolder folder;
  testing::TinyGraph graph;
  graph.num_nodes = 5;
  graph.splits["train"] = {0, 1, 2, 3, 4};
  testing::write_tiny_dataset(folder.path() / "empty", graph);
  const Dataset dataset(folder.path() / "empty");
  for (bool replace : {false, true}) {
    const auto block =
        make_batch(dataset, {.seeds = {0, 1, 2, 3, 4}}, {.fanouts = {3, -1}, .replace = replace});
    EXPECT_EQ(block.view().num_edges(), 0);
    EXPECT_EQ(ints(block.view().num_sampled_nodes()), (Ints{5, 0, 0}));
    EXPECT_EQ(ints(block.view().num_sampled_edges()), (Ints{0, 0}));
  }
}

// A star: node 0 has `degree` in-neighbours 1 .. degree.
Dataset star(const testing::TempFolder& folder, std::int64_t degree) {
  testing::TinyGraph graph;
  graph.num_nodes = degree + 1;
  for (std::int64_t i = 1; i <= degree; ++i) {
    graph.src.push_back(i);
    graph.dst.push_back(0);
  }
  graph.splits["train"] = {0};
  testing::write_tiny_dataset(folder.path() / "star", graph);
  return Dataset(folder.path() / "star");
}

TEST(NeighborSampler, AHubLargerThanAnyBufferIsTakenWhole) {
  testing::TempFolder folder;
  const Dataset dataset = star(folder, 70'000);
  const auto block = make_batch(dataset, {.seeds = {0}}, {.fanouts = {-1}});
  EXPECT_EQ(block.view().num_edges(), 70'000);
  EXPECT_EQ(block.view().n_id()[70'000], 70'000);
}

TEST(NeighborSampler, LargeFanoutsDrawDistinctNeighbours) {
  testing::TempFolder folder;
  const Dataset dataset = star(folder, 3'000);
  for (std::int64_t fanout : {32, 33, 500, 2'999, 3'000, 65'535}) {
    const auto block = make_batch(dataset, {.seeds = {0}}, {.fanouts = {fanout}});
    const auto sources = source_row(block.view());
    EXPECT_EQ(sources.size(), static_cast<std::size_t>(std::min<std::int64_t>(fanout, 3'000)));
    EXPECT_EQ(std::set<std::int64_t>(sources.begin(), sources.end()).size(), sources.size());
  }
}

TEST(NeighborSampler, EdgeIdsThatAreNotStoredAreRefused) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "ring", testing::ring_graph(6), {.edge_ids = false});
  const Dataset dataset(folder.path() / "ring");
  EXPECT_THROW(make_batch(dataset, {.seeds = {0}}, {.fanouts = {1}, .edge_ids = true}), Error);
  EXPECT_NO_THROW(make_batch(dataset, {.seeds = {0}}, {.fanouts = {1}}));
}

}  // namespace
}  // namespace hopfeed
