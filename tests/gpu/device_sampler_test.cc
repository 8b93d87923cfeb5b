// The device sampler on hosts: its kernels run item by item in several orders, and on threads, and what it
// gives is the CPU sampler's.
#include <gtest/gtest.h>

#include "tests/core/random_graphs.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/host_engines.h"

namespace hopfeed {
namespace {

using testing::DeviceCounts;
using testing::DeviceKinds;

int graphs() { return testing::num_random_graphs() / 5; }

// With those behind it 1,750 configurations, six batches of each.
TEST(DeviceSampler, OfUniformDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = graphs(),
                                                          .kinds = DeviceKinds::kUniform,
                                                          .seed = 11,
                                                          .engine = testing::engine_of_any_order});
  EXPECT_EQ(counts.there, 1u * testing::kBatches * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
  EXPECT_GT(counts.replays, 1u * counts.configurations / 2) << "of batches that are not counted hop by hop";
}

TEST(DeviceSampler, OfExcludedEdges_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = graphs(),
                                                          .kinds = DeviceKinds::kExcluded,
                                                          .seed = 12,
                                                          .engine = testing::engine_of_any_order});
  EXPECT_EQ(counts.there, 1u * testing::kBatches * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

// A third of all weights is zero, so that many rows give too few edges by rejection.
TEST(DeviceSampler, OfWeightedDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = graphs(),
                                                          .kinds = DeviceKinds::kWeighted,
                                                          .seed = 13,
                                                          .engine = testing::engine_of_any_order});
  EXPECT_EQ(counts.otherwise, 0u);
  EXPECT_GT(counts.there, counts.removed / 2);
  EXPECT_GT(counts.removed, 0u);
}

// Some edge types have no times; their draws are uniform.
TEST(DeviceSampler, OfTemporalDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = graphs(),
                                                          .kinds = DeviceKinds::kTemporal,
                                                          .seed = 15,
                                                          .engine = testing::engine_of_any_order});
  EXPECT_EQ(counts.there, 1u * testing::kBatches * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

TEST(DeviceSampler, OfTemporalDrawsWithExcludedEdges_GivesWhatTheCpuGives) {
  const DeviceCounts counts = testing::run_device_rounds({.graphs = graphs(),
                                                          .kinds = DeviceKinds::kTemporalExcluded,
                                                          .seed = 16,
                                                          .engine = testing::engine_of_any_order});
  EXPECT_EQ(counts.there, 1u * testing::kBatches * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

TEST(DeviceSampler, OnThreads_GivesWhatTheCpuGives) {
  for (const DeviceKinds kinds : {DeviceKinds::kUniform, DeviceKinds::kExcluded, DeviceKinds::kWeighted,
                                  DeviceKinds::kTemporal, DeviceKinds::kTemporalExcluded}) {
    const DeviceCounts counts =
        testing::run_device_rounds({.graphs = 2, .kinds = kinds, .seed = 14, .engine = [](testing::Rounds&) {
                                      return testing::threaded_engine(4);
                                    }});
    EXPECT_GT(counts.there, 0u);
  }
}

}  // namespace
}  // namespace hopfeed
