// The device sampler on a card: the configurations that hosts pass. Where there is no card, each test says so
// and is skipped, not passed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "gpu/device/cuda_engine.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/row_rounds.h"

namespace hopfeed {
namespace {

using testing::DeviceCounts;
using testing::DeviceKinds;

/// Rounds of a test. Under compute-sanitizer, which makes kernels a hundred times slower, HOPFEED_CARD_ROUNDS
/// says how many there are at most.
int rounds(int all) {
  const char* const most = std::getenv("HOPFEED_CARD_ROUNDS");
  return most == nullptr ? all : std::min(all, std::atoi(most));
}

class OneCard : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = gpu::why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  }
};

class OnACard : public OneCard, public ::testing::WithParamInterface<DeviceKinds> {};

TEST_P(OnACard, GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds(
      {.graphs = rounds(50),
       .kinds = GetParam(),
       .seed = 11 + static_cast<std::uint64_t>(GetParam()),
       .engine = [](testing::Rounds&) { return gpu::EngineFactory(gpu::make_cuda_engine); }});
  EXPECT_EQ(counts.otherwise, 0u);
  EXPECT_GT(counts.there, counts.removed);
  if (rounds(50) < 50) return;
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnACard,
                         ::testing::Values(DeviceKinds::kUniform, DeviceKinds::kExcluded,
                                           DeviceKinds::kWeighted, DeviceKinds::kTemporal,
                                           DeviceKinds::kTemporalExcluded));

// Threads by the hundred thousand that come to the same nodes.
TEST_F(OneCard, ABatchOfManyThreads_IsTheCpus) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(
      folder.path() / "graph",
      testing::random_graph({.num_nodes = 20'000, .num_edges = 600'000, .num_train = 4'096, .seed = 7}));
  const Dataset dataset(folder.path() / "graph");
  std::vector<std::int64_t> ids(4'096);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 7 % 20'000);
  const TypedSeeds seeds{.node_type = 0, .ids = ids, .times = {}};
  for (const BatchOptions& options : {BatchOptions{.fanouts = {15, 10, 5}, .edge_ids = true},
                                      BatchOptions{.fanouts = {-1, -1}}, BatchOptions{.fanouts = {40, 40}},
                                      BatchOptions{.fanouts = {10, 10}, .replace = true, .disjoint = true}}) {
    for (const gpu::GraphPlace place : {gpu::GraphPlace::kHost, gpu::GraphPlace::kDevice}) {
      DeviceSampler device(dataset, options, {.place = place, .make_engine = gpu::make_cuda_engine});
      NeighborSampler cpu(dataset, options);
      for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
        const SampleRequest request{.key = {.seed = 1, .epoch = epoch, .count = 4'096}, .seeds = {&seeds, 1}};
        testing::expect_same_sample(device.sample(request), cpu.sample(request));
      }
      EXPECT_EQ(device.batches(gpu::Fallback::kNone), 3u);
    }
  }
}

TEST_F(OneCard, RowsOfAnyTable_AreTheTables) {
  const gpu::RowCounts counts =
      testing::run_row_rounds({.configurations = rounds(450), .seed = 21, .reader = [](testing::Rounds&) {
                                 return testing::RowReaderFactory(testing::make_cuda_row_reader);
                               }});
  if (rounds(450) < 450) return;
  EXPECT_GT(counts.on_device, 10'000u);
  EXPECT_GT(counts.over_uva, 10'000u);
}

TEST_F(OneCard, RowsOfEachHalf_AreTheFloatsThatTheCpuMakes) {
  testing::expect_every_half(ElementType::kFloat16, testing::make_cuda_row_reader);
  testing::expect_every_half(ElementType::kBfloat16, testing::make_cuda_row_reader);
}

}  // namespace
}  // namespace hopfeed
