// Hotness policies: numbers worked out by hand, equal numbers for any cut and any number of threads, and the
// oracle as the upper bound of them all.
#include "partition_tool/hotness/hotness_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "partition_tool/hotness/hotness.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::TempFolder;
using testing::TinyGraph;

constexpr HotnessPolicy kAllPolicies[] = {HotnessPolicy::kVip, HotnessPolicy::kDegree,
                                          HotnessPolicy::kPresample, HotnessPolicy::kOracle};

// Edges 0->1, 1->2, 0->3, 1->3, and the dataset in the order 3, 1, 0, 2.
TinyGraph diamond() {
  TinyGraph graph;
  graph.num_nodes = 4;
  graph.src = {0, 1, 0, 1};
  graph.dst = {1, 2, 3, 3};
  graph.splits["train"] = {2, 3};
  return graph;
}
const testing::TinyCut kDiamondCut{.order = {3, 1, 0, 2}};

TEST(HotnessPolicy, NamesAndBack) {
  for (const HotnessPolicy policy : kAllPolicies) EXPECT_EQ(hotness_policy_from(to_string(policy)), policy);
  try {
    hotness_policy_from("hottest");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    EXPECT_EQ(error.what(),
              std::string("there is no policy 'hottest'; choose one of vip, degree, presample, oracle"));
  }
}

TEST(HotnessPolicy, DegreeCountsEdgesThatLeave) {
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", diamond(), kDiamondCut);
  const Dataset dataset(folder.path() / "d");
  // Of 3, 1, 0, 2: nobody's neighbour are 3 and 2.
  EXPECT_EQ(node_hotness(dataset, HotnessPolicy::kDegree, {})[0], (std::vector<double>{0, 2, 2, 0}));
}

TEST(HotnessPolicy, VipByHand) {
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", diamond(), kDiamondCut);
  const Dataset dataset(folder.path() / "d");
  const std::vector<std::int64_t> train{2, 3};
  const auto hot = node_hotness(dataset, HotnessPolicy::kVip,
                                {.batch = {.fanouts = {1, 1}}, .batch_size = 1, .seeds = train})[0];
  // As HandComputedDiamond of hotness_test.cc, in the order 3, 1, 0, 2.
  const std::vector<double> expected{0.5, 0.625, 1 - 0.75 * 0.375, 0.5};
  for (int v = 0; v < 4; ++v) EXPECT_NEAR(hot[v], expected[v], 1e-15) << v;
}

TEST(HotnessPolicy, PresampleAndOracleCountBatches) {
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", diamond(), kDiamondCut);
  const Dataset dataset(folder.path() / "d");
  const std::vector<std::int64_t> train{2, 3};
  // All neighbours of one hop: batch {2} reads 2 and 1, batch {3} reads 3, 0 and 1; twice.
  for (const HotnessPolicy policy : {HotnessPolicy::kPresample, HotnessPolicy::kOracle})
    EXPECT_EQ(node_hotness(dataset, policy,
                           {.batch = {.fanouts = {-1}}, .batch_size = 1, .seeds = train, .epochs = 2})[0],
              (std::vector<double>{2, 4, 2, 2}));
}

TEST(Hotness, FanoutZeroOfATypeLeavesItOut) {
  // Node 0 draws from node 1 under the first type and from node 2 under the second.
  const std::vector<std::int64_t> indptr{0, 1, 1, 1}, train{0};
  const std::vector<std::int32_t> one{1}, two{2};
  const HotnessGraph graph{.num_nodes = 3,
                           .edges = {{.indptr = indptr, .indices = std::span(one)},
                                     {.indptr = indptr, .indices = std::span(two), .fanouts = {0}}},
                           .train = train};
  EXPECT_EQ(inclusion_probability(graph, {.fanouts = {1}, .batch_size = 1}), (std::vector<double>{1, 1, 0}));
}

class RandomDataset : public ::testing::Test {
 protected:
  static HotnessRequest request(const std::vector<std::int64_t>& seeds) {
    return {.batch = {.fanouts = {4, 3}}, .batch_size = 16, .seeds = seeds, .epochs = 2, .seed = 5};
  }
  const TinyGraph graph_ = testing::random_graph(
      {.num_nodes = 600, .num_edges = 5'000, .x_width = 0, .num_train = 150, .seed = 4});
  const TempFolder folder_;
};

TEST_F(RandomDataset, AnyNumberOfThreadsGivesTheSameBits) {
  write_tiny_dataset(folder_.path() / "d", graph_);
  const Dataset dataset(folder_.path() / "d");
  HotnessRequest one = request(graph_.splits.at("train")), three = one;
  three.threads = 3;
  for (const HotnessPolicy policy : kAllPolicies)
    EXPECT_EQ(node_hotness(dataset, policy, one), node_hotness(dataset, policy, three)) << to_string(policy);
}

TEST_F(RandomDataset, ANodeIsAsHotInAnyCut) {
  write_tiny_dataset(folder_.path() / "whole", graph_);
  write_tiny_dataset(folder_.path() / "cut", graph_, testing::random_cut(graph_, 3, 8));
  const Dataset whole(folder_.path() / "whole"), cut(folder_.path() / "cut");
  for (const HotnessPolicy policy : kAllPolicies) {
    const auto a = node_hotness(whole, policy, request(graph_.splits.at("train")))[0],
               b = node_hotness(cut, policy, request(graph_.splits.at("train")))[0];
    for (std::int64_t v = 0; v < graph_.num_nodes; ++v)
      EXPECT_EQ(a[whole.dataset_id(0, v)], b[cut.dataset_id(0, v)]) << to_string(policy) << " node " << v;
  }
}

/// Reads of the epochs that count that the first `held` nodes of an order serve.
double reads_of_first(const std::vector<double>& hotness, const std::vector<double>& reads,
                      std::size_t held) {
  std::vector<std::size_t> order(hotness.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return hotness[a] > hotness[b]; });
  double sum = 0;
  for (std::size_t i = 0; i < held; ++i) sum += reads[order[i]];
  return sum;
}

TEST_F(RandomDataset, OracleIsAtLeastAsGoodAsEveryOther_VipBeatsNoOrder) {
  write_tiny_dataset(folder_.path() / "d", graph_);
  const Dataset dataset(folder_.path() / "d");
  const HotnessRequest asked = request(graph_.splits.at("train"));
  const auto reads = node_hotness(dataset, HotnessPolicy::kOracle, asked)[0];
  for (const HotnessPolicy policy : kAllPolicies) {
    const auto hotness = node_hotness(dataset, policy, asked)[0];
    for (std::size_t held = 0; held <= hotness.size(); held += 30)
      EXPECT_LE(reads_of_first(hotness, reads, held), reads_of_first(reads, reads, held))
          << to_string(policy);
  }
  const auto vip = node_hotness(dataset, HotnessPolicy::kVip, asked)[0];
  const std::vector<double> same(reads.size());  // the order in which the graph was made
  EXPECT_GT(reads_of_first(vip, reads, 120), 1.5 * reads_of_first(same, reads, 120));
  EXPECT_GT(reads_of_first(vip, reads, 120), 0.9 * reads_of_first(reads, reads, 120));
  EXPECT_NE(node_hotness(dataset, HotnessPolicy::kPresample, asked)[0], reads);  // other epochs
}

TEST_F(RandomDataset, VipIsRefusedWithoutAClosedForm_PresampleServes) {
  write_tiny_dataset(folder_.path() / "d", graph_);
  const Dataset dataset(folder_.path() / "d");
  HotnessRequest asked = request(graph_.splits.at("train"));
  EXPECT_TRUE(has_closed_form(dataset, asked.batch));
  asked.batch.labor = true;
  EXPECT_FALSE(has_closed_form(dataset, asked.batch));
  try {
    node_hotness(dataset, HotnessPolicy::kVip, asked);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
  const auto hot = node_hotness(dataset, HotnessPolicy::kPresample, asked)[0];
  for (const std::int64_t v : asked.seeds) EXPECT_GE(hot[dataset.dataset_id(0, v)], 2) << v;
  BatchOptions walk;
  walk.sampler = BatchOptions::kWalkSampler;
  EXPECT_FALSE(has_closed_form(dataset, walk));
  BatchOptions disjoint;
  disjoint.disjoint = true;
  EXPECT_FALSE(has_closed_form(dataset, disjoint));
}

TEST_F(RandomDataset, SeedThatIsNoNodeIsRefused) {
  write_tiny_dataset(folder_.path() / "d", graph_);
  const Dataset dataset(folder_.path() / "d");
  const std::vector<std::int64_t> seeds{3, 600};
  EXPECT_THROW(node_hotness(dataset, HotnessPolicy::kVip, request(seeds)), Error);
}

}  // namespace
}  // namespace hopfeed
