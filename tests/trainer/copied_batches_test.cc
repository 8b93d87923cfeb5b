// Batches on their way to a device, with the CPU as the device: the same tensors, slots that are kept until
// the copies have ended and no longer, and one batch ahead of the step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/batch/block_writer.h"
#include "gpu/batches/device_room_on.h"
#include "gpu/device/host_backend.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"
#include "tests/trainer/copied_batches.h"
#include "tests/trainer/test_batches.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/batch_prefetcher.h"
#include "worker_mode/device_stream.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

using testing::make_slot;
using testing::TempFolder;

class CopiedBatches : public ::testing::Test {
 protected:
  CopiedBatches() { write(testing::random_graph({.num_nodes = 300, .num_edges = 2'000})); }
  void write(const testing::TinyGraph& graph) {
    dataset_.reset();
    testing::write_tiny_dataset(folder_.path() / "data", graph);
    dataset_ = std::make_unique<Dataset>(folder_.path() / "data");
  }
  std::shared_ptr<AlignedBlock> slot(const BatchOptions& options) const {
    return make_slot(*dataset_, dataset_->split(0, "train"), options, {.count = 20});
  }
  LoaderOptions loader_options(std::int64_t slots) const {
    LoaderOptions options{.dataset = (folder_.path() / "data").string(),
                          .batch = {.fanouts = {4, 3}},
                          .deal = {.batch_size = 10}};
    options.execution.num_workers = 0;
    options.execution.num_slots = slots;
    return options;
  }
  static AnyBatchTensors make(const Batch& batch, CopyStream* copies) { return to_tensors(batch, copies); }

  TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
  CopyStream copies_{torch::kCPU};
};

AvailableMemory plenty() { return {std::uint64_t{1} << 40, "a test"}; }

// A batch that lies on a device, with a host's twin of one: the tensors are views of its memory, and the
// same.
TEST_F(CopiedBatches, OfABatchOnADevice_AreViewsOfItsMemory) {
  LoaderOptions options = loader_options(4);
  const auto on_host = std::make_unique<Loader>(options);
  options.execution.gpu.graph_mode = GraphMode::kUva;
  options.execution.gpu.device_batches = true;
  options.execution.gpu.gpu_cache = CacheSize{.ratio = 0.5};
  const auto on_device = DeviceStream::open(options, std::make_shared<gpu::DeviceRoomOn<gpu::SerialBackend>>(
                                                         gpu::SerialBackend::Options{}, plenty));
  on_host->begin_epoch(0);
  on_device->begin_epoch(0, 0);
  int batches = 0;
  while (const std::optional<Batch> wanted = on_host->next()) {
    const std::optional<Batch> batch = on_device->next();
    ASSERT_TRUE(batch);
    const std::byte* const begin = batch->device_form()->data;
    const std::size_t bytes = batch->device_form()->head.bytes().size();
    const BatchTensors got = copies_.run([&] { return to_tensors(*batch, &copies_); });
    copies_.hand_over();
    copies_.release();
    const BatchTensors views = to_tensors(*wanted);
    testing::expect_same_batch(got, views, torch::kCPU);
    testing::expect_same_rows(got.rows(), views.rows(), torch::kCPU);
    const auto* const at = static_cast<const std::byte*>(got.edge_index.const_data_ptr());
    EXPECT_TRUE(at > begin && at < begin + bytes);
    ++batches;
  }
  EXPECT_FALSE(on_device->next());
  EXPECT_GT(batches, 3);
}

TEST_F(CopiedBatches, HaveTheFieldsOfTheViews) {
  BatchOptions repeated{.fanouts = {4, 3}};
  repeated.edge_ids = true;
  BatchOptions induced{.fanouts = {4, 3}, .subgraph = Subgraph::kInduced};
  BatchOptions disjoint{.fanouts = {4, 3}, .disjoint = true};
  for (const BatchOptions& options : {repeated, induced, disjoint}) {
    const auto block = slot(options);
    const BatchView view(block->bytes());
    const BatchTensors copy = copies_.run([&] { return to_tensors(view, block, &copies_); });
    const BatchTensors views = to_tensors(view, block);
    testing::expect_same_batch(copy, views, torch::kCPU);
    testing::expect_same_rows(copy.rows(), views.rows(), torch::kCPU);
  }
}

TEST_F(CopiedBatches, OfRowsWithAScale_HaveTheSameNumbers) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TinyGraph graph = testing::random_graph({.num_nodes = 300, .num_edges = 2'000, .x_width = 7});
    graph.x_type = type;
    write(graph);
    const auto block = slot({.fanouts = {4, 3}});
    const BatchView view(block->bytes());
    const BatchTensors copy = copies_.run([&] { return to_tensors(view, block, &copies_); });
    testing::expect_copy(copy.x, to_tensors(view, block).x, torch::kCPU, to_string(type));
    EXPECT_EQ(copy.x.dtype(), torch::kFloat32);
  }
}

TEST_F(CopiedBatches, OfHalfFloats_HaveTheSameNumbersInFloat32) {
  BlockWriter writer;
  writer.add({.name = "n_id", .store = Store::kNode, .shape = {40}});
  const int batch_size = writer.add({.name = "batch_size", .store = Store::kNode, .shape = {}});
  const int x =
      writer.add({.name = "x", .store = Store::kNode, .element = ElementType::kBfloat16, .shape = {40, 5}});
  writer.add({.name = "edge_index", .store = Store::kEdge, .shape = {2, 0}});
  const auto block = std::make_shared<AlignedBlock>(writer.bytes());
  std::ranges::fill(block->bytes(), std::byte{0});
  writer.begin({.num_node_types = 1, .num_edge_types = 1}, block->bytes());
  *writer.data<std::int64_t>(batch_size) = 1;
  const torch::Tensor halves = torch::randn({40, 5}).to(torch::kBFloat16);
  std::memcpy(writer.data<std::byte>(x), halves.const_data_ptr(), halves.nbytes());
  const BatchTensors copy =
      copies_.run([&] { return to_tensors(BatchView(block->bytes()), block, &copies_); });
  EXPECT_TRUE(torch::equal(copy.x, halves.to(torch::kFloat32)));
}

TEST_F(CopiedBatches, OfSeveralTypes_HaveTheFieldsOfTheViews) {
  const testing::TypedGraph graph = testing::typed_training_graph();
  testing::write_typed_dataset(folder_.path() / "typed", graph, testing::random_typed_cut(graph, 2, 1));
  const Dataset typed(folder_.path() / "typed");
  const std::vector<std::int64_t> seeds{7, 3, 7, 20};  // one repeats
  const auto block = make_slot(typed, seeds, {.fanouts = {4, 3}}, {.count = 4});
  const BatchView view(block->bytes());
  const TypedBatchTensors copy =
      copies_.run([&] { return to_typed_tensors(view, typed.meta(), block, &copies_); });
  testing::expect_same_batch(copy, to_typed_tensors(view, typed.meta(), block), torch::kCPU);
}

TEST_F(CopiedBatches, ABidirectionalBatchHasCopiesAndNoRows) {
  const auto block = slot({.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional});
  const BatchTensors copy =
      copies_.run([&] { return to_tensors(BatchView(block->bytes()), block, &copies_); });
  EXPECT_GT(copy.edge_index.size(1), 0);
  EXPECT_THROW(copy.rows(), Error);
}

TEST_F(CopiedBatches, ASlotIsKeptUntilItsCopiesHaveEnded_AndTheTensorsDoWithoutIt) {
  auto block = slot({.fanouts = {4, 3}});
  const std::weak_ptr<AlignedBlock> watch = block;
  const torch::Tensor expected = to_tensors(BatchView(block->bytes()), block).x.clone();
  const BatchTensors copy =
      copies_.run([&] { return to_tensors(BatchView(block->bytes()), block, &copies_); });
  block.reset();
  EXPECT_FALSE(watch.expired()) << "the copies are under way";
  EXPECT_TRUE(copies_.holds());
  copies_.hand_over();
  EXPECT_FALSE(watch.expired()) << "the reader waits for them on its stream, the host does not";
  copies_.release();
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(copies_.holds());
  EXPECT_TRUE(torch::equal(copy.x, expected));
  EXPECT_GT(copy.rows().col.size(0), 0);
}

TEST_F(CopiedBatches, ABlockWhoseEdgesDoNotFit_IsFoundBeforeItIsComputedOn) {
  const auto block = slot({.fanouts = {4, 3}});
  const ArrayView edges = BatchView(block->bytes()).edge_index();
  const_cast<std::int64_t*>(edges.as<std::int64_t>().data())[0] = 1'000'000;
  try {
    copies_.run([&] { return to_tensors(BatchView(block->bytes()), block, &copies_); });
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
}

TEST_F(CopiedBatches, ThePrefetcherGivesAllBatchesInOrder_WithThePositionBehindEach) {
  Loader plain(loader_options(4)), loader(loader_options(4));
  plain.begin_epoch(0);
  loader.begin_epoch(0);
  BatchPrefetcher ahead(loader, &copies_, make);
  std::int64_t batches = 0;
  for (; const std::optional<Batch> batch = plain.next(); ++batches) {
    const std::optional<PlacedBatch> placed = ahead.next();
    ASSERT_TRUE(placed);
    testing::expect_same_batch(std::get<BatchTensors>(placed->tensors), to_tensors(*batch), torch::kCPU);
    EXPECT_EQ(placed->position, plain.next_position());
    EXPECT_TRUE(batches > 0 || loader.next_position() > placed->position) << "none was taken ahead";
  }
  EXPECT_GT(batches, 3);
  EXPECT_FALSE(ahead.next());
  EXPECT_FALSE(ahead.next());
}

TEST_F(CopiedBatches, ThePrefetcherHoldsNoBatchWhileItAsksForAnother) {
  Loader loader(loader_options(1));  // a second one at a time is refused
  loader.begin_epoch(0);
  BatchPrefetcher ahead(loader, &copies_, make);
  std::int64_t batches = 0;
  while (ahead.next()) ++batches;
  EXPECT_EQ(batches, loader.steps());
}

TEST_F(CopiedBatches, ThePrefetcherTakesNoMoreThanItMay) {
  Loader loader(loader_options(4));
  loader.begin_epoch(0);
  {
    BatchPrefetcher ahead(loader, &copies_, make, 2);
    EXPECT_TRUE(ahead.next());
    EXPECT_TRUE(ahead.next());
    EXPECT_FALSE(ahead.next());
  }
  EXPECT_EQ(loader.stats().batches, 2);
  loader.begin_epoch(1);
  {
    BatchPrefetcher ahead(loader, &copies_, make);
    EXPECT_TRUE(ahead.next());
  }
  EXPECT_FALSE(copies_.holds()) << "of the one that was ahead";
}

TEST_F(CopiedBatches, WithoutADeviceThePrefetcherGivesViewsAndTakesNothingAhead) {
  Loader loader(loader_options(4));
  loader.begin_epoch(0);
  BatchPrefetcher ahead(loader, nullptr, make);
  ASSERT_TRUE(ahead.next());
  EXPECT_EQ(loader.stats().batches, 1);
}

}  // namespace
}  // namespace hopfeed
