// A device that has no more memory from the n-th call on, for every n: one error, nothing is leaked, and what
// comes when there is memory again is the CPU's.
#include <gtest/gtest.h>

#include <ostream>

#include "tests/core/all_kinds.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/host_engines.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

struct Case {
  const char* name;
  BatchOptions options;
  std::uint64_t uncounted = 1 << 20;
  friend std::ostream& operator<<(std::ostream& out, const Case& of) { return out << of.name; }
};

class ScarceMemory : public ::testing::TestWithParam<Case> {
 protected:
  ScarceMemory() {
    testing::write_all_kinds_types(folder_.path() / "graph", 3);
    dataset_ = std::make_unique<Dataset>(folder_.path() / "graph");
    for (std::int64_t i = 0; i < 300; ++i) seeds_.push_back(7 * i % 500), times_.push_back(i % 60);
  }
  /// Each batch has more seeds than those before it, so that arrays grow.
  SampleRequest request(int batch) {
    const std::size_t count = batch == 0 ? 3 : 300;
    entry_ = {.node_type = 0, .ids = std::span(seeds_).first(count), .times = std::span(times_).first(count)};
    return {.key = {.seed = 5, .first = batch, .count = 1}, .seeds = {&entry_, 1}};
  }

  static constexpr int kBatches = 3;
  testing::TempFolder folder_;
  std::unique_ptr<Dataset> dataset_;
  std::vector<std::int64_t> seeds_, times_;
  TypedSeeds entry_;
};

TEST_P(ScarceMemory, AtWhicheverCall_IsOneError_AndTheBatchesBehindItAreTheCpus) {
  for (const gpu::GraphPlace place : {gpu::GraphPlace::kHost, gpu::GraphPlace::kDevice}) {
    int errors_when_made = 0, errors_of_batches = 0;
    bool failed = true;
    for (std::int64_t n = 0; failed; ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      failed = false;
      testing::ScarceMemory memory{.calls_left = n};
      const auto expect_no_memory = [&](auto&& call) {
        failed = true;
        expect_refused(call, "bytes: out of memory", ErrorCode::kNoSpace);  // as often as it is tried
        memory.calls_left = testing::ScarceMemory::kPlenty;
      };
      const auto make = [&] {
        return std::make_unique<DeviceSampler>(
            *dataset_, GetParam().options,
            DeviceSamplerOptions{.place = place,
                                 .make_engine = testing::scarce_engine(memory),
                                 .most_uncounted_edges = GetParam().uncounted});
      };
      std::unique_ptr<DeviceSampler> device;
      try {
        device = make();
      } catch (const Error&) {
        ++errors_when_made;
        EXPECT_EQ(memory.in_use, 0);
        expect_no_memory([&] { make(); });
        device = make();
      }
      NeighborSampler cpu(*dataset_, GetParam().options);
      for (int batch = 0; batch < kBatches; ++batch) {
        const Sample* sample = nullptr;
        try {
          sample = &device->sample(request(batch));
        } catch (const Error&) {
          ++errors_of_batches;
          expect_no_memory([&] { device->sample(request(batch)); });
          sample = &device->sample(request(batch));
        }
        testing::expect_same_sample(*sample, cpu.sample(request(batch)));
        if (HasFailure()) return;
      }
      device.reset();
      EXPECT_EQ(memory.in_use, 0);
    }
    EXPECT_GT(errors_when_made, 5);
    EXPECT_GT(errors_of_batches, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ScarceMemory,
    ::testing::Values(Case{"Uniform", {.fanouts = {15, 10}, .edge_ids = true}},
                      Case{"CountedHops", {.fanouts = {5, 5}}, 0}, Case{"AllNeighbors", {.fanouts = {-1, 3}}},
                      Case{"LargeFanout", {.fanouts = {40, 2}}},
                      Case{"Weighted", {.fanouts = {5, 5}, .replace = true, .weight = "weight"}},
                      Case{"Disjoint", {.fanouts = {5, 5}, .disjoint = true}},
                      Case{"Temporal",
                           {.fanouts = {5, 5}, .time = "time", .time_window = 20, .edge_ids = true}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hopfeed
