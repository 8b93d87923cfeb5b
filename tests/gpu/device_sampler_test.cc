// The device sampler on hosts: its kernels run item by item in several orders, and on threads, and what it
// gives is the CPU sampler's.
#include <gtest/gtest.h>

#include "gpu/hop_engine_on.h"
#include "gpu/host_backend.h"
#include "tests/core/random_graphs.h"
#include "tests/gpu/device_rounds.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

using gpu::Fallback;
using gpu::ItemOrder;
using testing::DeviceCounts;
using testing::DeviceKinds;

gpu::EngineFactory serial(ItemOrder order, std::uint64_t seed = 1) {
  return [=](const gpu::EnginePlan& plan) {
    return std::make_unique<gpu::HopEngineOn<gpu::SerialBackend>>(
        plan, gpu::SerialBackend::Options{.order = order, .seed = seed});
  };
}

gpu::EngineFactory threaded(int threads) {
  return [=](const gpu::EnginePlan& plan) {
    return std::make_unique<gpu::HopEngineOn<gpu::ThreadedBackend>>(
        plan, gpu::ThreadedBackend::Options{.threads = threads});
  };
}

/// Forward, backward or shuffled, by the configuration.
gpu::EngineFactory any_order(testing::Rounds& rounds) {
  const ItemOrder orders[] = {ItemOrder::kForward, ItemOrder::kBackward, ItemOrder::kShuffled};
  return serial(orders[rounds.below(3)], rounds.word());
}

// With the two tests behind it a thousand configurations, three batches of each.
TEST(DeviceSampler, OfUniformDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = testing::num_random_graphs() / 5,
                                                          .kinds = DeviceKinds::kUniform,
                                                          .seed = 11,
                                                          .engine = any_order});
  EXPECT_EQ(counts.there, 3u * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

TEST(DeviceSampler, OfExcludedEdges_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = testing::num_random_graphs() / 5,
                                                          .kinds = DeviceKinds::kExcluded,
                                                          .seed = 12,
                                                          .engine = any_order});
  EXPECT_EQ(counts.there, 3u * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

// A third of all weights is zero, so that many rows give too few edges by rejection.
TEST(DeviceSampler, OfWeightedDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = testing::num_random_graphs() / 5,
                                                          .kinds = DeviceKinds::kWeighted,
                                                          .seed = 13,
                                                          .engine = any_order});
  EXPECT_EQ(counts.otherwise, 0u);
  EXPECT_GT(counts.there, counts.removed / 2);
  EXPECT_GT(counts.removed, 0u);
}

TEST(DeviceSampler, OnThreads_GivesWhatTheCpuGives) {
  for (const DeviceKinds kinds : {DeviceKinds::kUniform, DeviceKinds::kExcluded, DeviceKinds::kWeighted}) {
    const DeviceCounts counts = testing::run_device_rounds(
        {.graphs = 2, .kinds = kinds, .seed = 14, .engine = [](testing::Rounds&) { return threaded(4); }});
    EXPECT_GT(counts.there, 0u);
  }
}

}  // namespace
}  // namespace hopfeed
