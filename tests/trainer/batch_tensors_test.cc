// Tensors over a block: the slot's own memory, given back when the last of them is gone.
#include "trainer/batch_tensors.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "core/batch/block_writer.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/test_batches.h"
#include "trainer/mean_aggregation.h"

namespace hopfeed {
namespace {

using testing::make_slot;
using testing::TempFolder;

class BatchTensorsTest : public ::testing::Test {
 protected:
  BatchTensorsTest() {
    testing::write_tiny_dataset(folder_.path() / "data",
                                testing::random_graph({.num_nodes = 300, .num_edges = 2'000}));
    dataset_ = std::make_unique<Dataset>(folder_.path() / "data");
  }
  TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
};

TEST_F(BatchTensorsTest, TensorsShareTheSlotsMemory) {
  const auto slot =
      make_slot(*dataset_, dataset_->split(0, "train"), {.fanouts = {4, 3}, .edge_ids = true}, {.count = 20});
  const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
  for (const torch::Tensor& tensor :
       {batch.x, batch.y, batch.edge_index, batch.e_id, batch.n_id, batch.input_id}) {
    const auto* at = static_cast<const std::byte*>(tensor.const_data_ptr());
    EXPECT_GE(at, slot->bytes().data());
    EXPECT_LE(at + tensor.nbytes(), slot->bytes().data() + slot->bytes().size());
  }
  EXPECT_EQ(batch.rows().col.const_data_ptr(), batch.edge_index.const_data_ptr());
}

// Nodes have fields of these names, edges have not: theirs are attributes as any other.
TEST_F(BatchTensorsTest, EdgeAttributesCalledXAndY_AreAmongTheOtherArrays) {
  BlockWriter writer;
  writer.add({.name = "n_id", .store = Store::kNode, .shape = {2}});
  const int batch_size = writer.add({.name = "batch_size", .store = Store::kNode, .shape = {}});
  writer.add({.name = "edge_index", .store = Store::kEdge, .shape = {2, 3}});
  const int x = writer.add({.name = "x", .store = Store::kEdge, .shape = {3}});
  writer.add({.name = "y", .store = Store::kEdge, .shape = {3}});
  const auto slot = std::make_shared<AlignedBlock>(writer.bytes());
  std::ranges::fill(slot->bytes(), std::byte{0});
  writer.begin({.num_node_types = 1, .num_edge_types = 1}, slot->bytes());
  *writer.data<std::int64_t>(batch_size) = 1;
  std::iota(writer.data<std::int64_t>(x), writer.data<std::int64_t>(x) + 3, 7);

  const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
  EXPECT_FALSE(batch.x.defined());
  EXPECT_FALSE(batch.y.defined());
  EXPECT_TRUE(torch::equal(batch.edge_arrays.at("x"), torch::arange(7, 10)));
  EXPECT_TRUE(batch.edge_arrays.contains("y"));
  EXPECT_EQ(batch.edge_arrays.size(), 2U);
}

// Copied, so that they hold no slot; attributes of edges and of more dimensions too.
TEST_F(BatchTensorsTest, RowsWithAScale_AreTheirValuesInFloat32) {
  constexpr std::int64_t kNodes = 3'000;  // as many as several threads share
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    BlockWriter writer;
    writer.add({.name = "n_id", .store = Store::kNode, .shape = {kNodes}});
    const int batch_size = writer.add({.name = "batch_size", .store = Store::kNode, .shape = {}});
    const int x =
        writer.add({.name = "x", .store = Store::kNode, .element = type, .shape = {kNodes, 11, 13}});
    writer.add({.name = "none", .store = Store::kNode, .element = type, .shape = {0, 4}});
    writer.add({.name = "edge_index", .store = Store::kEdge, .shape = {2, 3}});
    const int f = writer.add({.name = "f", .store = Store::kEdge, .element = type, .shape = {3}});
    auto slot = std::make_shared<AlignedBlock>(writer.bytes());
    std::ranges::fill(slot->bytes(), std::byte{0});
    writer.begin({.num_node_types = 1, .num_edge_types = 1}, slot->bytes());
    *writer.data<std::int64_t>(batch_size) = 1;
    const torch::Tensor features = torch::randn({kNodes, 11, 13}), numbers = torch::randn({3});
    const auto fill = [&](const torch::Tensor& values, std::int64_t elements, std::byte* to) {
      const std::int64_t row_bytes = quantised_row_bytes(type, elements);
      for (std::int64_t i = 0; i < values.size(0); ++i)
        quantise_row(type,
                     {values.const_data_ptr<float>() + i * elements, static_cast<std::size_t>(elements)},
                     to + i * row_bytes);
    };
    fill(features, 143, writer.data<std::byte>(x));
    fill(numbers, 1, writer.data<std::byte>(f));

    std::optional<BatchTensors> batch = to_tensors(BatchView(slot->bytes()), slot);
    const torch::Tensor read = batch->x, of_edges = batch->edge_arrays.at("f");
    EXPECT_EQ(batch->node_arrays.at("none").sizes(), (std::vector<std::int64_t>{0, 4}));
    batch.reset();
    EXPECT_EQ(slot.use_count(), 1);
    EXPECT_EQ(read.dtype(), torch::kFloat32);
    ASSERT_EQ(read.sizes(), features.sizes());
    EXPECT_EQ(of_edges.sizes(), numbers.sizes());
    // The rule in Torch's own operations.
    const float most = static_cast<float>(largest_element(type));
    const torch::Tensor rows = features.view({kNodes, 143}), scales = rows.abs().amax(1, true) / most;
    EXPECT_TRUE(torch::equal(read.view({kNodes, 143}), (rows / scales).round() * scales));
    EXPECT_TRUE(torch::equal(of_edges, numbers.sign() * most * (numbers.abs() / most)));
  }
}

TEST_F(BatchTensorsTest, FeaturesOfHalfFloats_AreTheSameNumbersInFloat32) {
  for (const auto& [type, dtype] : {std::pair{ElementType::kFloat16, torch::kFloat16},
                                    std::pair{ElementType::kBfloat16, torch::kBFloat16}}) {
    BlockWriter writer;
    writer.add({.name = "n_id", .store = Store::kNode, .shape = {1'000}});
    const int batch_size = writer.add({.name = "batch_size", .store = Store::kNode, .shape = {}});
    const int x = writer.add({.name = "x", .store = Store::kNode, .element = type, .shape = {1'000, 300}});
    writer.add({.name = "edge_index", .store = Store::kEdge, .shape = {2, 3}});
    const auto slot = std::make_shared<AlignedBlock>(writer.bytes());
    writer.begin({.num_node_types = 1, .num_edge_types = 1}, slot->bytes());
    *writer.data<std::int64_t>(batch_size) = 1;
    const torch::Tensor halves = torch::randn({1'000, 300}).to(dtype);
    std::memcpy(writer.data<std::byte>(x), halves.const_data_ptr(), halves.nbytes());
    const torch::Tensor read = to_tensors(BatchView(slot->bytes()), slot).x;
    EXPECT_TRUE(torch::equal(read, halves.to(torch::kFloat32)));
  }
}

TEST_F(BatchTensorsTest, ABidirectionalBatch_HasTensorsAndNoRows) {
  for (const bool keep : {false, true}) {
    const auto slot = make_slot(
        *dataset_, dataset_->split(0, "train"),
        {.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional, .keep_orig_edges = keep}, {.count = 20});
    const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
    EXPECT_GT(batch.edge_index.size(1), 0);
    EXPECT_EQ(batch.edge_arrays.contains("_orig_edge_index"), keep);
    try {
      batch.rows();
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid) << error.what();
    }
  }
}

TEST_F(BatchTensorsTest, AnInducedBatch_HasARowForEveryNode) {
  BatchOptions clusters{.sampler = BatchOptions::kClusterSampler, .cluster = "y"};
  clusters.subgraph = Subgraph::kInduced;
  const BatchOptions neighbors{.fanouts = {4, 3}, .subgraph = Subgraph::kInduced};
  for (const BatchOptions& options : {neighbors, clusters}) {
    const auto slot = make_slot(*dataset_, dataset_->split(0, "train"), options, {.count = 2});
    const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
    const CompressedRows rows = batch.rows();
    EXPECT_TRUE(batch.is_whole());
    EXPECT_EQ(rows.num_rows(), batch.num_nodes());
    EXPECT_EQ(batch.num_expanded(3), batch.num_nodes());
    const torch::Tensor degrees = rows.rowptr.diff();
    EXPECT_TRUE(torch::equal(degrees, torch::bincount(batch.edge_index[1], {}, batch.num_nodes())));
  }
}

TEST_F(BatchTensorsTest, TheSlotIsReleasedWhenTheLastTensorIsGone) {
  auto slot = make_slot(*dataset_, dataset_->split(0, "train"), {.fanouts = {4, 3}}, {.count = 20});
  const std::weak_ptr<AlignedBlock> watch = slot;
  torch::Tensor kept;
  {
    const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
    slot.reset();
    kept = batch.x.narrow(0, 0, 1);  // a view of a view
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_FALSE(watch.expired());
  kept = torch::Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST_F(BatchTensorsTest, TheGraphOfALossHoldsTheSlotUntilBackwardIsDone) {
  auto slot = make_slot(*dataset_, dataset_->split(0, "train"), {.fanouts = {4}}, {.count = 20});
  const std::weak_ptr<AlignedBlock> watch = slot;
  torch::Tensor loss;
  torch::Tensor weight = torch::ones({5, 1}).requires_grad_();
  {
    const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
    slot.reset();
    loss = mean_aggregate(torch::matmul(batch.x, weight), batch.rows()).sum();
  }
  EXPECT_FALSE(watch.expired());
  loss.backward();
  EXPECT_TRUE(watch.expired());
}

TEST_F(BatchTensorsTest, FieldsAreWhatTheBlockSays) {
  const auto slot =
      make_slot(*dataset_, dataset_->split(0, "train"), {.fanouts = {4, 3}}, {.first = 5, .count = 20});
  const BatchView view(slot->bytes());
  const BatchTensors batch = to_tensors(view, slot);
  EXPECT_EQ(batch.batch_size, 20);
  EXPECT_EQ(batch.num_hops(), 2);
  EXPECT_EQ(batch.num_nodes(), view.num_nodes());
  EXPECT_EQ(batch.edge_index.size(1), view.num_edges());
  EXPECT_EQ(batch.num_expanded(2), batch.num_sampled_nodes[0] + batch.num_sampled_nodes[1]);
  EXPECT_EQ(batch.rows().num_rows(), batch.num_expanded(2));
  EXPECT_FALSE(batch.e_id.defined());
  const AttrView x = dataset_->attr(0, "x");
  for (std::int64_t i = 0; i < batch.num_nodes(); ++i) {
    const auto* row =
        reinterpret_cast<const float*>(x.parts[0] + dataset_->dataset_id(0, view.n_id()[i]) * x.stride_bytes);
    for (std::int64_t f = 0; f < 5; ++f) ASSERT_EQ(batch.x[i][f].item<float>(), row[f]);
  }
}

TEST_F(BatchTensorsTest, RepeatedSeedsHaveARowEach) {
  const std::vector<std::int64_t> seeds{7, 3, 7, 7};
  const auto slot = make_slot(*dataset_, seeds, {.fanouts = {2}}, {.count = 4});
  const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
  EXPECT_EQ(batch.batch_size, 2);
  const torch::Tensor ids = batch.at_seeds(batch.n_id);
  EXPECT_TRUE(torch::equal(ids, torch::tensor(seeds, torch::kInt64)));
}

/// A block of links as the loader makes it, written by hand: nodes of two types, links of edge type 1.
class LinkBlock {
 public:
  LinkBlock(int node_types, int edge_types) : node_types_(node_types), edge_types_(edge_types) {
    for (int t = 0; t < node_types; ++t) {
      add("n_id", Store::kNode, t, {4}, {3, 5, 8, 9});
      add("num_sampled_nodes", Store::kNode, t, {2}, {3, 1});
    }
    for (int e = 0; e < edge_types; ++e) {
      add("edge_index", Store::kEdge, e, {2, 1}, {3, 0});
      add("num_sampled_edges", Store::kEdge, e, {1}, {1});
    }
  }
  void add(const char* name, Store store, int type, BlockShape shape, std::vector<std::int64_t> values) {
    numbers_.push_back(writer_.add({.name = name, .store = store, .type = type, .shape = shape}));
    values_.push_back(std::move(values));
  }
  std::shared_ptr<AlignedBlock> slot() {
    const auto slot = std::make_shared<AlignedBlock>(writer_.bytes());
    std::ranges::fill(slot->bytes(), std::byte{0});
    writer_.begin({.num_node_types = static_cast<std::uint16_t>(node_types_),
                   .num_edge_types = static_cast<std::uint16_t>(edge_types_)},
                  slot->bytes());
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      std::ranges::copy(values_[i], writer_.data<std::int64_t>(numbers_[i]));
    return slot;
  }

 private:
  int node_types_, edge_types_;
  BlockWriter writer_;
  std::vector<int> numbers_;
  std::vector<std::vector<std::int64_t>> values_;
};

TEST_F(BatchTensorsTest, LinksAreThereUnderPyGsNames_AndAreNoEdgeAttributes) {
  LinkBlock block(1, 1);
  block.add("edge_label_index", Store::kEdge, 0, {2, 4}, {0, 1, 2, 0, 1, 2, 0, 0});
  block.add("edge_label", Store::kEdge, 0, {4}, {2, 1, 0, 0});
  block.add("edge_label_time", Store::kEdge, 0, {4}, {7, 8, 7, 8});
  block.add("input_id", Store::kEdge, 0, {2}, {11, 4});
  block.add("num_negative_retries", Store::kEdge, 0, {}, {17});
  const auto slot = block.slot();
  const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
  ASSERT_TRUE(batch.links.any());
  EXPECT_EQ(batch.links.edge_type, 0);
  EXPECT_TRUE(
      torch::equal(batch.links.edge_label_index, torch::tensor({{0, 1, 2, 0}, {1, 2, 0, 0}}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.links.edge_label, torch::tensor({2, 1, 0, 0}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.links.edge_label_time, torch::tensor({7, 8, 7, 8}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.input_id, torch::tensor({11, 4}, torch::kInt64)));
  EXPECT_EQ(batch.links.num_negative_retries, 17);
  EXPECT_FALSE(batch.links.src_index.defined());
  EXPECT_TRUE(batch.edge_arrays.empty());
  EXPECT_EQ(batch.batch_size, 0);
  EXPECT_EQ(batch.rows().num_rows(), 3) << "the seeds are expanded";
}

TEST_F(BatchTensorsTest, TripletsOfATypedDataset_AndTheirTimes) {
  DatasetMeta meta;
  meta.node_types = {{.name = "user"}, {.name = "item"}};
  meta.edge_types = {{.src = "item", .rel = "near", .dst = "item"},
                     {.src = "user", .rel = "buys", .dst = "item"}};
  LinkBlock block(2, 2);
  block.add("src_index", Store::kEdge, 1, {2}, {1, 0});
  block.add("dst_pos_index", Store::kEdge, 1, {2}, {0, 1});
  block.add("dst_neg_index", Store::kEdge, 1, {2, 3}, {0, 1, 2, 2, 1, 0});
  block.add("seed_time", Store::kEdge, 1, {2}, {70, 80});
  block.add("input_id", Store::kEdge, 1, {2}, {5, 6});
  const auto slot = block.slot();
  const TypedBatchTensors batch = to_typed_tensors(BatchView(slot->bytes()), meta, slot);
  EXPECT_EQ(batch.links.edge_type, 1);
  EXPECT_EQ(batch.seed_type, 0);
  EXPECT_TRUE(torch::equal(batch.links.src_index, torch::tensor({1, 0}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.links.dst_pos_index, torch::tensor({0, 1}, torch::kInt64)));
  EXPECT_EQ(batch.links.dst_neg_index.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(torch::equal(batch.links.seed_time, torch::tensor({70, 80}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(batch.input_id, torch::tensor({5, 6}, torch::kInt64)));
  EXPECT_FALSE(batch.links.edge_label_index.defined());
  EXPECT_EQ(batch.links.num_negative_retries, 0) << "negatives that are not strict";
  EXPECT_TRUE(batch.edges[1].edge_arrays.empty());
  EXPECT_EQ(batch.num_hops(), 1);
  try {
    to_tensors(BatchView(slot->bytes()), slot);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid) << error.what();
  }
}

TEST_F(BatchTensorsTest, ABatchOfNodesHasNoLinks) {
  const auto slot = make_slot(*dataset_, dataset_->split(0, "train"), {.fanouts = {4}}, {.count = 20});
  const BatchTensors batch = to_tensors(BatchView(slot->bytes()), slot);
  EXPECT_FALSE(batch.links.any());
  EXPECT_FALSE(batch.links.edge_label_index.defined());
}

}  // namespace
}  // namespace hopfeed
