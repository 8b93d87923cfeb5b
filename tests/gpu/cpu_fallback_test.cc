// A GPU that does not come up, that gives an error for a batch, or that is lost, where the CPU may sample in
// its place: batches are the same, they are counted, and one warning says why.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/notes.h"
#include "core/draws/excluded_edges.h"
#include "core/sampler/neighbor_sampler.h"
#include "gpu/batches/device_sampler.h"
#include "tests/core/all_kinds.h"
#include "tests/gpu/device_rounds.h"
#include "tests/gpu/host_engines.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

using gpu::Fallback;

/// A FailingEngine throws what `fail` throws of the samples that it is asked about, by their numbers.
class FailingEngine : public gpu::HopEngine {
 public:
  using Fail = std::function<void(std::uint64_t number)>;
  FailingEngine(std::unique_ptr<gpu::HopEngine> engine, Fail fail)
      : engine_(std::move(engine)), fail_(std::move(fail)) {}
  Fallback sample(const gpu::EngineRequest& request) override {
    fail_(number_++);
    return engine_->sample(request);
  }
  const gpu::EngineResult& result() const override { return engine_->result(); }
  std::size_t pinned_bytes() const override { return engine_->pinned_bytes(); }
  std::size_t device_bytes() const override { return engine_->device_bytes(); }
  std::size_t graph_bytes() const override { return engine_->graph_bytes(); }
  HeldShare graph_share() const override { return engine_->graph_share(); }
  std::uint64_t waits() const override { return engine_->waits(); }
  std::uint64_t replays() const override { return engine_->replays(); }

 private:
  const std::unique_ptr<gpu::HopEngine> engine_;
  const Fail fail_;
  std::uint64_t number_ = 0;
};

class CpuFallback : public ::testing::Test {
 protected:
  CpuFallback() {
    testing::write_all_kinds_graph(folder_.path() / "graph", 3);
    dataset_.emplace(folder_.path() / "graph");
    for (std::int64_t i = 0; i < 64; ++i) seeds_.push_back(7 * i % 500);
    entry_ = {.node_type = 0, .ids = seeds_, .times = {}};
    take_warnings([this](const std::string& line) { warnings_.push_back(unmarked(line)); });
  }
  ~CpuFallback() override { take_warnings({}); }
  SampleRequest request(std::int64_t epoch) const {
    return {.key = {.seed = 5, .epoch = epoch, .first = 64, .count = 64}, .seeds = {&entry_, 1}};
  }
  DeviceSamplerOptions failing(FailingEngine::Fail fail, bool cpu_fallback = true) const {
    return {.make_engine =
                [fail](const gpu::EnginePlan& plan) {
                  return std::make_unique<FailingEngine>(testing::serial_engine()(plan), fail);
                },
            .cpu_fallback = cpu_fallback};
  }
  void expect_samples(DeviceSampler& device, std::int64_t epochs) {
    NeighborSampler cpu(*dataset_, options_);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
      testing::expect_same_sample(device.sample(request(epoch)), cpu.sample(request(epoch)));
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
  const BatchOptions options_{.fanouts = {5, 5}};
  std::vector<std::int64_t> seeds_;
  TypedSeeds entry_;
  std::vector<std::string> warnings_;
};

TEST_F(CpuFallback, GpuThatIsLost_IsAskedNoMore) {
  DeviceSampler device(*dataset_, options_, failing([](std::uint64_t number) {
    EXPECT_LE(number, 3U) << "asked behind its loss";
    if (number == 3) throw BrokenProcess(ErrorCode::kIo, "lost in cudaStreamSynchronize");
  }));
  expect_samples(device, 8);
  EXPECT_EQ(device.batches(Fallback::kNone), 3U);
  EXPECT_EQ(device.batches(Fallback::kFailed), 5U);
  EXPECT_EQ(device.gpu_use().cpu_batches, 5);
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "the GPU cannot be used, and the CPU samples: lost in cudaStreamSynchronize"});
}

TEST_F(CpuFallback, BatchWithAnError_IsTheCpus_AndTheNextTheGpus) {
  DeviceSampler device(*dataset_, options_, failing([](std::uint64_t number) {
    if (number % 2 == 1) throw Error(ErrorCode::kNoSpace, "no memory for " + std::to_string(number));
  }));
  expect_samples(device, 6);
  EXPECT_EQ(device.batches(Fallback::kNone), 3U);
  EXPECT_EQ(device.batches(Fallback::kFailed), 3U);
  EXPECT_EQ(warnings_, std::vector<std::string>{
                           "the GPU has no memory for a batch, and the CPU samples it: no memory for 1"});
}

TEST_F(CpuFallback, AnyErrorButOfMemory_IsTheLastThatTheGpuIsAsked) {
  DeviceSampler device(*dataset_, options_, failing([](std::uint64_t number) {
    EXPECT_EQ(number, 0U) << "asked again";
    throw Error(ErrorCode::kNotFound, "no kernel image for it");
  }));
  expect_samples(device, 4);
  EXPECT_EQ(device.batches(Fallback::kFailed), 4U);
  EXPECT_EQ(warnings_.size(), 1U);
}

// The GPU comes up again in another process, or leaves the rest to the CPU there.
TEST_F(CpuFallback, InAWorker_ABrokenProcessEnds) {
  DeviceSamplerOptions options = failing([](std::uint64_t) { throw BrokenProcess(ErrorCode::kIo, "lost"); });
  options.ends_when_broken = true;
  DeviceSampler device(*dataset_, options_, options);
  EXPECT_THROW(device.sample(request(0)), BrokenProcess);
  options.make_engine = [](const gpu::EnginePlan&) -> std::unique_ptr<gpu::HopEngine> {
    throw BrokenProcess(ErrorCode::kIo, "fallen off the bus");
  };
  DeviceSampler next(*dataset_, options_, options);
  expect_samples(next, 2);
  EXPECT_EQ(warnings_,
            std::vector<std::string>{"the GPU cannot be used, and the CPU samples: fallen off the bus"});
}

TEST_F(CpuFallback, WhoAsksForBounds_MakesNoEngine) {
  const DeviceSampler device(*dataset_, options_, {.make_engine = testing::serial_engine()}),
      bounds(*dataset_, options_, {});
  const SeedCount seeds{.node_type = 0, .count = 64};
  EXPECT_EQ(bounds.max_scratch_bytes({&seeds, 1}), device.max_scratch_bytes({&seeds, 1}));
  EXPECT_GT(bounds.max_scratch_bytes({&seeds, 1}),
            NeighborSampler(*dataset_, options_).max_scratch_bytes({&seeds, 1}));
}

TEST_F(CpuFallback, WhatIsDoneMeanwhile_IsDoneOncePerBatch_HoweverItIsAsked) {
  ExcludedEdges excluded;
  excluded.begin(1);
  excluded.add(0, 7, 14);
  excluded.finish();
  for (const std::uint64_t uncounted : {std::uint64_t{0}, std::uint64_t{1} << 20}) {
    DeviceSampler device(*dataset_, options_,
                         {.make_engine = testing::serial_engine(), .most_uncounted_edges = uncounted});
    NeighborSampler cpu(*dataset_, options_);
    int done = 0;
    const auto meanwhile = [&] { ++done; };
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {  // asked for, recorded, replayed
      SampleRequest asked = request(epoch);
      if (epoch == 4) asked.excluded = &excluded;
      EXPECT_EQ(device.sample_there(asked, meanwhile), Fallback::kNone);
      testing::expect_same_sample(device.device_sample(), cpu.sample(asked));
      EXPECT_EQ(done, epoch + 1);
    }
    EXPECT_EQ(device.replays() > 0, uncounted > 0);
  }
}

TEST_F(CpuFallback, GpuThatDoesNotComeUp_LeavesAllToTheCpu) {
  for (const bool warm : {false, true}) {
    const std::string why = warm ? "no driver, warm" : "no driver, cold";
    take_warnings([this](const std::string& line) { warnings_.push_back(unmarked(line)); });  // anew
    DeviceSampler device(*dataset_, options_,
                         {.make_engine = [&](const gpu::EnginePlan&) -> std::unique_ptr<gpu::HopEngine> {
                            throw Error(ErrorCode::kNotFound, why);
                          },
                          .warm = warm,
                          .cpu_fallback = true});
    device.wait_until_up();
    expect_samples(device, 3);
    EXPECT_EQ(device.batches(Fallback::kFailed), 3U);
    EXPECT_EQ(warnings_.back(), "the GPU cannot be used, and the CPU samples: " + why);
  }
  EXPECT_EQ(warnings_.size(), 2U);
}

TEST_F(CpuFallback, WhereItIsNotAllowed_TheErrorIsThrown) {
  DeviceSampler device(*dataset_, options_,
                       failing([](std::uint64_t) { throw BrokenProcess(ErrorCode::kIo, "lost"); }, false));
  EXPECT_THROW(device.sample(request(0)), BrokenProcess);
  EXPECT_THROW(device.sample(request(1)), BrokenProcess);
  const auto none = [](const gpu::EnginePlan&) -> std::unique_ptr<gpu::HopEngine> {
    throw Error(ErrorCode::kNotFound, "no driver");
  };
  expect_refused([&] { DeviceSampler(*dataset_, options_, {.make_engine = none}); }, "no driver",
                 ErrorCode::kNotFound);
  DeviceSampler warm(*dataset_, options_, {.make_engine = none, .warm = true});
  expect_refused([&] { warm.wait_until_up(); }, "no driver", ErrorCode::kNotFound);
  EXPECT_TRUE(warnings_.empty());
}

}  // namespace
}  // namespace hopfeed
