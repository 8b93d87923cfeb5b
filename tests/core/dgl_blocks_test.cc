// DGL's blocks of a batch, against answers by hand.
#include "core/batch/dgl_blocks.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using testing::ints;
using Ints = std::vector<std::int64_t>;

// Seeds 2 and 3 on the ring of 6, all neighbours: hop 1 brings 1 and 4, hop 2 brings 0 and 5.
TEST(DglBlocks, OfTheRing) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph", testing::ring_graph(6));
  const Dataset dataset(folder.path() / "graph");
  const testing::Block block =
      testing::make_batch(dataset, {.seeds = {2, 3}}, {.fanouts = {-1, -1}, .edge_ids = true});
  const std::vector<DglBlock> blocks = dgl_blocks(block.view());
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].nodes[0].num_src, 6);
  EXPECT_EQ(blocks[0].nodes[0].num_dst, 4);
  EXPECT_EQ(ints(blocks[0].nodes[0].src_ids), (Ints{2, 3, 1, 4, 0, 5}));
  EXPECT_EQ(ints(blocks[0].edges[0].src), (Ints{2, 1, 0, 3, 4, 0, 1, 5}));
  EXPECT_EQ(ints(blocks[0].edges[0].dst), (Ints{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(ints(blocks[0].edges[0].e_id), (Ints{4, 5, 6, 7, 2, 3, 8, 9}));
  EXPECT_EQ(blocks[1].nodes[0].num_src, 4);
  EXPECT_EQ(blocks[1].nodes[0].num_dst, 2);
  EXPECT_EQ(ints(blocks[1].nodes[0].src_ids), (Ints{2, 3, 1, 4}));
  EXPECT_EQ(ints(blocks[1].edges[0].src), (Ints{2, 1, 0, 3}));
  EXPECT_EQ(ints(blocks[1].edges[0].dst), (Ints{0, 0, 1, 1}));
  EXPECT_EQ(ints(blocks[1].edges[0].e_id), (Ints{4, 5, 6, 7}));
}

// Papers 0 and 1 are by authors 0 and 1, author 0 wrote paper 2: two hops from paper 0.
TEST(DglBlocks, OfTwoNodeTypes) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(
      folder.path() / "graph",
      {.nodes = {{.name = "author", .count = 2}, {.name = "paper", .count = 3}},
       .edges = {{.src = "author", .rel = "wrote", .dst = "paper", .sources = {0, 1}, .destinations = {0, 1}},
                 {.src = "paper", .rel = "by", .dst = "author", .sources = {0, 2}, .destinations = {0, 0}}}});
  const Dataset dataset(folder.path() / "graph");
  const Ints seeds{0};
  const NodeList list(seeds, {.node_type = 1, .shuffle = false});
  BatchMaker maker(dataset, list, {.fanouts = {-1, -1}});
  const testing::Block block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 1});
  const std::vector<DglBlock> blocks = dgl_blocks(block.view());
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[1].nodes[0].num_src, 1) << "author 0 feeds paper 0";
  EXPECT_EQ(blocks[1].nodes[0].num_dst, 0);
  EXPECT_EQ(blocks[1].nodes[1].num_src, 1);
  EXPECT_EQ(blocks[1].nodes[1].num_dst, 1);
  EXPECT_EQ(ints(blocks[1].edges[0].src), (Ints{0}));
  EXPECT_EQ(ints(blocks[1].edges[0].dst), (Ints{0}));
  EXPECT_TRUE(blocks[1].edges[1].src.empty());
  EXPECT_EQ(blocks[0].nodes[0].num_dst, 1);
  EXPECT_EQ(ints(blocks[0].nodes[1].src_ids), (Ints{0, 2}));
  EXPECT_EQ(blocks[0].nodes[1].num_dst, 1);
  EXPECT_EQ(ints(blocks[0].edges[1].src), (Ints{0, 1})) << "papers 0 and 2 feed author 0";
  EXPECT_EQ(ints(blocks[0].edges[1].dst), (Ints{0, 0}));
  EXPECT_TRUE(blocks[0].edges[1].e_id.empty()) << "not asked for";
}

// What makes a block DGL's: on any graph sources begin with the destinations, and every end lies within its
// own.
TEST(DglBlocks, OfRandomGraphs_HaveTheirEndsInBounds) {
  const testing::TempFolder folder;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const testing::TinyGraph graph = testing::random_graph({.seed = seed});
    testing::write_tiny_dataset(folder.path() / "graph", graph);
    const Dataset dataset(folder.path() / "graph");
    const testing::Block made =
        testing::make_batch(dataset, {.seeds = {3, 1, 4, 1, 5}}, {.fanouts = {4, 3, 2}}, seed);
    const std::vector<DglBlock> blocks = dgl_blocks(made.view());
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(blocks[2].nodes[0].num_dst, made.view().batch_size());
    EXPECT_EQ(blocks[0].nodes[0].num_src, made.view().num_nodes());
    for (std::size_t i = 0; i < 3; ++i) {
      if (i > 0) {
        EXPECT_EQ(blocks[i].nodes[0].num_src, blocks[i - 1].nodes[0].num_dst);
      }
      for (const std::int64_t node : blocks[i].edges[0].src) EXPECT_LT(node, blocks[i].nodes[0].num_src);
      for (const std::int64_t node : blocks[i].edges[0].dst) EXPECT_LT(node, blocks[i].nodes[0].num_dst);
    }
  }
}

TEST(DglBlocks, OfABidirectionalBatch_AreThoseOfItsDrawnEdges) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph", testing::random_graph({.seed = 3}));
  const Dataset dataset(folder.path() / "graph");
  const testing::Block plain = testing::make_batch(dataset, {.seeds = {3, 1, 4}}, {.fanouts = {4, 3}}),
                       both = testing::make_batch(dataset, {.seeds = {3, 1, 4}},
                                                  {.fanouts = {4, 3},
                                                   .subgraph = Subgraph::kBidirectional,
                                                   .keep_orig_edges = true,
                                                   .edge_ids = true});
  const std::vector<DglBlock> want = dgl_blocks(plain.view()), got = dgl_blocks(both.view());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(ints(got[i].nodes[0].src_ids), ints(want[i].nodes[0].src_ids));
    EXPECT_EQ(ints(got[i].edges[0].src), ints(want[i].edges[0].src));
    EXPECT_EQ(ints(got[i].edges[0].dst), ints(want[i].edges[0].dst));
    EXPECT_TRUE(got[i].edges[0].e_id.empty()) << "e_id is of the edges in both directions";
  }
}

TEST(DglBlocks, OfABatchWithoutHops_AreRefused) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph", testing::ring_graph(6));
  const Dataset dataset(folder.path() / "graph");
  const testing::Block block = testing::make_batch(dataset, {.seeds = {2, 3}}, {.fanouts = {}});
  EXPECT_THROW(dgl_blocks(block.view()), Error);
}

}  // namespace
}  // namespace hopfeed
