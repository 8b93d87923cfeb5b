// A device that takes its time to come up: the CPU samples until it is there, with the same bytes; and a
// pinned copy of a dataset.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <future>
#include <map>

#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "gpu/memory/pinned_dataset.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/host_engines.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

class Warming : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::write_tiny_dataset(
        folder_.path() / "data",
        testing::random_graph({.num_nodes = 300, .num_edges = 3'000, .num_train = 100}),
        testing::random_cut(testing::random_graph({.num_nodes = 300, .num_edges = 3'000, .num_train = 100}),
                            2, 5));
    dataset_.emplace(folder_.path() / "data");
  }
  SampleRequest request(std::int64_t epoch) {
    seeds_[0] = {.node_type = 0, .ids = ids_, .times = {}};
    return {.key = {.seed = 1, .epoch = epoch, .first = 0, .count = 3}, .seeds = seeds_, .excluded = nullptr};
  }

  TempFolder folder_;
  std::optional<Dataset> dataset_;
  const BatchOptions options_{.fanouts = {5, 4}};
  const std::vector<std::int64_t> ids_{7, 3, 250};
  TypedSeeds seeds_[1];
};

TEST_F(Warming, CpuSamplesUntilTheDeviceIsUp_ThenTheDevice_AndNobodySees) {
  std::promise<void> up;
  DeviceSampler device(*dataset_, options_,
                       {.make_engine =
                            [&](const gpu::EnginePlan& plan) {
                              up.get_future().wait();
                              return testing::serial_engine()(plan);
                            },
                        .warm = true});
  NeighborSampler cpu(*dataset_, options_);
  testing::expect_same_sample(device.sample(request(0)), cpu.sample(request(0)));
  testing::expect_same_sample(device.sample(request(1)), cpu.sample(request(1)));
  EXPECT_EQ(device.batches(gpu::Fallback::kWarming), 2U);
  up.set_value();
  device.wait_until_up();
  testing::expect_same_sample(device.sample(request(2)), cpu.sample(request(2)));
  EXPECT_EQ(device.batches(gpu::Fallback::kNone), 1U);
  EXPECT_EQ(device.batches(gpu::Fallback::kWarming), 2U);
}

// Here streams have their batches on the host: this is what workers and the calling thread fill their slots
// with.
TEST_F(Warming, BatchMakerCountsWhoSampled_AndWhatTheGraphTakes) {
  std::promise<void> up;
  DeviceSampler* device = nullptr;
  const auto make_neighbors = [&](const Dataset& dataset, const BatchOptions& options) {
    auto made =
        std::make_unique<DeviceSampler>(dataset, options,
                                        DeviceSamplerOptions{.make_engine =
                                                                 [&](const gpu::EnginePlan& plan) {
                                                                   up.get_future().wait();
                                                                   return testing::serial_engine()(plan);
                                                                 },
                                                             .warm = true,
                                                             .hot = CacheSize{.ratio = 0.5}});
    device = made.get();
    return made;
  };
  const NodeList seeds(ids_, {});
  BatchMaker maker(*dataset_, seeds, options_, make_neighbors);
  EXPECT_FALSE(maker.gpu_use().any());
  maker.sample({.seed = 1, .epoch = 0, .first = 0, .count = 3});
  EXPECT_EQ(maker.gpu_use(), (GpuUse{.gpu_batches = 0, .cpu_batches = 1, .graph_bytes = 0, .rows_bytes = 0}));
  up.set_value();
  device->wait_until_up();
  maker.sample({.seed = 1, .epoch = 1, .first = 0, .count = 3});
  const GpuUse use = maker.gpu_use();
  EXPECT_EQ(use.gpu_batches, 1);
  EXPECT_EQ(use.cpu_batches, 1);
  EXPECT_GT(use.graph_bytes, 0U);
  EXPECT_EQ(use.graph.millionths, HeldShare::kAll / 2);
  BatchMaker on_cpu(*dataset_, seeds, options_);
  on_cpu.sample({.seed = 1, .epoch = 0, .first = 0, .count = 3});
  EXPECT_FALSE(on_cpu.gpu_use().any()) << "nobody asked for a GPU";
}

TEST_F(Warming, DeviceThatDoesNotComeUp_IsTheErrorOfEveryBatchFromThenOn) {
  DeviceSampler device(*dataset_, options_,
                       {.make_engine = [](const gpu::EnginePlan&) -> std::unique_ptr<gpu::HopEngine> {
                          throw Error(ErrorCode::kNoSpace, "cudaMalloc of 5 bytes");
                        },
                        .warm = true});
  EXPECT_THROW(device.wait_until_up(), Error);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(device.sample(request(i)), Error);
}

/// What a driver would know.
struct Pins {
  std::map<void*, std::size_t> ranges;
  gpu::Pin pin() {
    return {.pin = [this](void* at, std::size_t bytes) { ranges[at] = bytes; },
            .unpin = [this](void* at) { ranges.erase(at); }};
  }
};

TEST_F(Warming, PinnedCopyHasAllArrays_WhereverTheyAreAskedFor) {
  const OwnedFd fd = gpu::PinnedDataset::copy(*dataset_, 0);  // a node that every machine has
  Pins pins;
  {
    const gpu::PinnedDataset pinned(*dataset_, fd.get(), pins.pin());
    ASSERT_EQ(pins.ranges.size(), 1U);
    EXPECT_EQ(pins.ranges.begin()->second, pinned.bytes());
    std::size_t bytes = 0;
    for (const std::span<const std::byte> array : dataset_->arrays()) {
      if (array.empty()) continue;
      const auto* const copy = static_cast<const std::byte*>(gpu::pinned_copy(array.data()));
      ASSERT_NE(copy, nullptr);
      EXPECT_NE(copy, array.data());
      EXPECT_TRUE(std::ranges::equal(std::span(copy, array.size()), array));
      EXPECT_EQ(gpu::pinned_copy(array.data() + array.size() - 1), copy + array.size() - 1);
      bytes += array.size();
    }
    EXPECT_GE(pinned.bytes(), bytes);
    int elsewhere = 0;
    EXPECT_EQ(gpu::pinned_copy(&elsewhere), nullptr);
  }
  EXPECT_TRUE(pins.ranges.empty());
  EXPECT_EQ(gpu::pinned_copy(dataset_->arrays().front().data()), nullptr);
}

TEST_F(Warming, MachineHasOneCopy_PinnedOnceInAProcess) {
  Pins pins;
  {
    const auto first = gpu::pinned_on_machine(*dataset_, pins.pin()),
               second = gpu::pinned_on_machine(*dataset_, pins.pin());
    EXPECT_EQ(first, second);
    EXPECT_EQ(pins.ranges.size(), 1U);
    EXPECT_NE(gpu::pinned_copy(dataset_->arrays().front().data()), nullptr);
  }
  EXPECT_TRUE(pins.ranges.empty());
  EXPECT_TRUE(gpu::pinned_on_machine(*dataset_, pins.pin())) << "and made anew";
}

TEST_F(Warming, OtherMemoryIsNoCopy) {
  const OwnedFd fd(memfd_create("other", MFD_CLOEXEC));
  Pins pins;
  EXPECT_THROW(gpu::PinnedDataset(*dataset_, fd.get(), pins.pin()), Error);
  EXPECT_TRUE(pins.ranges.empty());
}

}  // namespace
}  // namespace hopfeed
