// Layer-wise inference against batches that carry every neighbour, and the model's trimming against no
// trimming.
#include "trainer/layerwise_inference.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/base/error.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/test_batches.h"
#include "trainer/model.h"
#include "trainer/tensor_pool.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

constexpr std::int64_t kNodes = 400;

std::vector<std::int64_t> all_nodes() {
  std::vector<std::int64_t> ids(kNodes);
  for (std::int64_t i = 0; i < kNodes; ++i) ids[i] = i;
  return ids;
}

class LayerwiseInferenceTest : public ::testing::TestWithParam<int> {
 protected:
  LayerwiseInferenceTest() {
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = kNodes, .num_edges = 3'000, .x_width = 12});
    testing::write_tiny_dataset(folder_.path() / "data", graph, testing::random_cut(graph, GetParam(), 3));
    dataset_ = std::make_unique<Dataset>(folder_.path() / "data");
    torch::manual_seed(4);
  }
  GraphSage model(std::int64_t hops) const {
    return GraphSage(ModelOptions{.hops = hops, .features = 12, .hidden = 20, .classes = 4});
  }

  TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_P(LayerwiseInferenceTest, EqualsBatchesOfAllNeighbours) {
  for (const std::int64_t hops : {1, 2, 3}) {
    GraphSage sage = model(hops);
    const torch::Tensor exact = layerwise_inference(*sage, *dataset_);
    sage->eval();
    const torch::NoGradGuard no_gradients;
    const std::vector<std::int64_t> ids = all_nodes();
    const BatchTensors batch = testing::make_batch(
        *dataset_, ids, {.fanouts = std::vector<std::int64_t>(hops, -1)}, {.count = kNodes / 2});
    const torch::Tensor sampled = sage->forward(batch);
    for (std::int64_t i = 0; i < batch.batch_size; ++i) {
      const torch::Tensor row = exact[dataset_->dataset_id(0, batch.n_id[i].item<std::int64_t>())];
      ASSERT_LE((row - sampled[i]).abs().max().item<float>(), 1e-5) << hops << " hops, node " << i;
    }
  }
}

TEST_P(LayerwiseInferenceTest, OfRowsWithAScale_EqualsThatOfTheirValues) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TinyGraph graph =
        testing::random_graph({.num_nodes = kNodes, .num_edges = 3'000, .x_width = 12});
    graph.x_type = type;
    const testing::TinyCut cut = testing::random_cut(graph, GetParam(), 3);
    testing::write_tiny_dataset(folder_.path() / "scaled", graph, cut);
    testing::write_tiny_dataset(folder_.path() / "values", testing::in_float32(graph), cut);
    GraphSage sage = model(2);
    EXPECT_TRUE(torch::equal(layerwise_inference(*sage, Dataset(folder_.path() / "scaled")),
                             layerwise_inference(*sage, Dataset(folder_.path() / "values"))));
  }
}

// The induced subgraph of all nodes is the graph.
TEST_P(LayerwiseInferenceTest, EqualsTheInducedSubgraphOfAllNodes) {
  GraphSage sage = model(3);
  const torch::Tensor exact = layerwise_inference(*sage, *dataset_);
  sage->eval();
  const torch::NoGradGuard no_gradients;
  const BatchTensors batch = testing::make_batch(
      *dataset_, all_nodes(), {.fanouts = {1}, .subgraph = Subgraph::kInduced}, {.count = kNodes});
  const torch::Tensor sampled = sage->forward(batch);
  ASSERT_EQ(sampled.size(0), kNodes);
  for (std::int64_t i = 0; i < kNodes; ++i) {
    const torch::Tensor row = exact[dataset_->dataset_id(0, batch.n_id[i].item<std::int64_t>())];
    ASSERT_LE((row - sampled[i]).abs().max().item<float>(), 1e-5) << "node " << i;
  }
}

TEST_P(LayerwiseInferenceTest, WithoutHopsItIsThePerceptronOnAllFeatures) {
  GraphSage perceptron = model(0);
  const torch::Tensor exact = layerwise_inference(*perceptron, *dataset_);
  perceptron->eval();
  const torch::NoGradGuard no_gradients;
  const std::vector<std::int64_t> ids = all_nodes();
  const BatchTensors batch = testing::make_batch(*dataset_, ids, {.fanouts = {}}, {.count = kNodes});
  const torch::Tensor sampled = perceptron->forward(batch);
  for (std::int64_t i = 0; i < kNodes; ++i) {
    ASSERT_LE((exact[dataset_->dataset_id(0, i)] - sampled[i]).abs().max().item<float>(), 1e-5);
  }
}

TEST_P(LayerwiseInferenceTest, ProgressEndsAtItsTotal) {
  std::uint64_t last = 0, of = 0;
  layerwise_inference(*model(2), *dataset_, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    of = total;
  });
  EXPECT_EQ(last, of);
  EXPECT_GT(of, 0u);
}

TEST_P(LayerwiseInferenceTest, WhatTrainingKeptIsGivenBackBefore) {
  pooled_tensor({16 << 20}, torch::kUInt8);
  ASSERT_GE(tensor_pool_stats().free_bytes, std::size_t{16} << 20);
  std::size_t kept = ~std::size_t{0};
  layerwise_inference(*model(1), *dataset_, [&](std::uint64_t, std::uint64_t) {
    kept = std::min(kept, tensor_pool_stats().free_bytes);
  });
  EXPECT_LT(kept, std::size_t{16} << 20);
}

TEST_P(LayerwiseInferenceTest, AccuracyFollowsOriginalIds) {
  torch::Tensor logits = torch::zeros({kNodes, 4});
  const AttrView labels = dataset_->attr(0, "y");
  const auto train = dataset_->split(0, "train");
  std::int64_t labelled = 0;
  for (std::size_t i = 0; i < train.size(); ++i) {  // every third prediction is wrong
    const std::int64_t id = dataset_->dataset_id(0, train[i]);
    const int part = partition_of(labels.partition_offsets, id);
    const auto label = *reinterpret_cast<const std::int64_t*>(
        labels.parts[part] + (id - labels.partition_offsets[part]) * labels.stride_bytes);
    ASSERT_GE(label, 0);
    logits[id][(label + (labelled++ % 3 == 0 ? 1 : 0)) % 4] = 1;
  }
  const Accuracy result = split_accuracy(logits, *dataset_, "train");
  EXPECT_EQ(result.total, labelled);
  EXPECT_EQ(result.correct, labelled - (labelled + 2) / 3);
}

TEST(Accuracy, ScoresWithANaN_AreOfNoClass) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor logits = torch::tensor({{nan, nan}, {1.0F, nan}, {2.0F, 1.0F}, {nan, 1.0F}});
  const Accuracy result = accuracy(logits, torch::tensor({0, 0, 0, -1}));
  EXPECT_EQ(result.correct, 1);
  EXPECT_EQ(result.total, 3);
}

TEST_P(LayerwiseInferenceTest, AModelForOtherFeaturesIsRefused) {
  EXPECT_THROW(layerwise_inference(
                   *GraphSage(ModelOptions{.hops = 1, .features = 11, .hidden = 4, .classes = 4}), *dataset_),
               Error);
}

INSTANTIATE_TEST_SUITE_P(Partitions, LayerwiseInferenceTest, ::testing::Values(1, 2, 3));

TEST(GraphSageTest, ComputesWhatAnUntrimmedModelComputes) {
  const TempFolder folder;
  testing::write_tiny_dataset(
      folder.path() / "data",
      testing::random_graph({.num_nodes = kNodes, .num_edges = 3'000, .x_width = 12}));
  const Dataset dataset(folder.path() / "data");
  torch::manual_seed(4);
  GraphSage sage(ModelOptions{.hops = 3, .features = 12, .hidden = 20, .classes = 4});
  sage->eval();
  const torch::NoGradGuard no_gradients;
  const BatchTensors batch =
      testing::make_batch(dataset, dataset.split(0, "train"), {.fanouts = {4, 3, 2}}, {.count = 15});
  const CompressedRows all = compress_rows(batch.edge_index, batch.num_nodes(), batch.num_nodes());
  torch::Tensor h = batch.x;
  for (std::int64_t l = 0; l < 3; ++l) {
    h = sage->conv(l).forward(h, all, {.relu = l < 2});
  }
  EXPECT_LE((sage->forward(batch) - h.narrow(0, 0, 15)).abs().max().item<float>(), 1e-5);
}

TEST(GraphSageTest, RefusesABatchOfOtherHops) {
  const TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "data", testing::random_graph({.x_width = 12}));
  const Dataset dataset(folder.path() / "data");
  GraphSage sage(ModelOptions{.hops = 3, .features = 12, .hidden = 20, .classes = 4});
  EXPECT_THROW(sage->forward(testing::make_batch(dataset, dataset.split(0, "train"), {.fanouts = {4, 3}},
                                                 {.count = 15})),
               Error);
}

}  // namespace
}  // namespace hopfeed
