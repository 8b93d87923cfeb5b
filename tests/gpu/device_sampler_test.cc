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

DeviceCounts rounds_of(DeviceKinds kinds, std::uint64_t seed) {
  return testing::run_device_rounds({.graphs = testing::num_random_graphs() / 5,
                                     .kinds = kinds,
                                     .seed = seed,
                                     .engine = testing::engine_of_any_order});
}

/// No batch went to the CPU, and they had edges.
void expect_all_there(const DeviceCounts& counts) {
  EXPECT_EQ(counts.there, 1u * testing::kBatches * counts.configurations);
  EXPECT_GT(counts.edges, 100u * counts.configurations);
}

// With those behind it 1,750 configurations, six batches of each.
TEST(DeviceSampler, OfUniformDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = rounds_of(DeviceKinds::kUniform, 11);
  expect_all_there(counts);
  EXPECT_GT(counts.replays, 1u * counts.configurations / 2) << "of batches that are not counted hop by hop";
}

TEST(DeviceSampler, OfExcludedEdges_GivesWhatTheCpuGives) {
  const DeviceCounts counts = rounds_of(DeviceKinds::kExcluded, 12);
  expect_all_there(counts);
}

// A third of all weights is zero, so that many rows give too few edges by rejection. Where there is little
// memory for what is left of them, the batch is the CPU's.
TEST(DeviceSampler, OfWeightedDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = rounds_of(DeviceKinds::kWeighted, 13);
  EXPECT_EQ(counts.otherwise, 0u);
  EXPECT_GT(counts.there, 4 * counts.removed);
  EXPECT_GT(counts.removed, 0u);
}

// Some edge types have no times; their draws are uniform.
TEST(DeviceSampler, OfTemporalDraws_GivesWhatTheCpuGives) {
  const DeviceCounts counts = rounds_of(DeviceKinds::kTemporal, 15);
  expect_all_there(counts);
}

TEST(DeviceSampler, OfTemporalDrawsWithExcludedEdges_GivesWhatTheCpuGives) {
  const DeviceCounts counts = rounds_of(DeviceKinds::kTemporalExcluded, 16);
  expect_all_there(counts);
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
