// The options graph_mode and gpu_device on their way: to workers, and refused where a loader is opened; what
// `auto` comes to; and each reason why a GPU cannot be used.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "core/base/error.h"
#include "gpu/device/auto_graph_mode.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/memory/found_gpus.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "worker_mode/loader.h"
#include "worker_mode/worker_config.h"

namespace hopfeed {
namespace {

TEST(GraphMode, IsToldToWorkers) {
  for (const GraphMode mode : {GraphMode::kCpu, GraphMode::kUva, GraphMode::kCuda}) {
    WorkerConfig config;
    config.execution.gpu.graph_mode = mode;
    config.execution.gpu.gpu_device = mode == GraphMode::kCpu ? 0 : 3;
    config.asks_for_jobs = true;
    const LocalExecution told = WorkerConfig::from_json(config.to_json()).execution;
    EXPECT_EQ(told.gpu.graph_mode, mode);
    EXPECT_EQ(told.gpu.gpu_device, config.execution.gpu.gpu_device);
  }
}

TEST(GraphMode, WhatTheGraphMayTakeIsToldToWorkers) {
  for (const std::optional<CacheSize>& given :
       {std::optional<CacheSize>(), std::optional(CacheSize{}), std::optional(CacheSize{.automatic = true}),
        std::optional(CacheSize{.ratio = 0.25}), std::optional(CacheSize{.ratio = 1, .bytes = 12'345})}) {
    WorkerConfig config;
    config.execution.gpu.graph_mode = GraphMode::kUva;
    config.execution.gpu.gpu_graph_cache = given;
    config.asks_for_jobs = true;
    const LocalExecution told = WorkerConfig::from_json(config.to_json()).execution;
    ASSERT_EQ(told.gpu.gpu_graph_cache.has_value(), given.has_value());
    EXPECT_EQ(told.gpu.graph_cache().automatic, given ? given->automatic : true) << "auto where nobody said";
    EXPECT_EQ(told.gpu.graph_cache().ratio, given ? given->ratio : 0);
    EXPECT_EQ(told.gpu.graph_cache().bytes, given ? given->bytes : 0);
  }
}

TEST(GraphMode, WhatTheGraphMayTake_IsOfUva) {
  GpuOptions options{.graph_mode = GraphMode::kUva, .gpu_graph_cache = CacheSize{.ratio = 0.5}};
  EXPECT_NO_THROW(options.validate(1));
  for (const GraphMode mode : {GraphMode::kCpu, GraphMode::kCuda}) {
    options.graph_mode = mode;
    expect_refused([&] { options.validate(1); },
                   std::string("gpu_graph_cache is of a GPU that reads the graph in the host's memory, and "
                               "graph_mode is ") +
                       to_string(mode));
  }
  options = {.graph_mode = GraphMode::kUva, .gpu_graph_cache = CacheSize{.ratio = 1.5}};
  expect_refused([&] { options.validate(1); }, "gpu_graph_cache has the ratio 1.5; give a share from 0 to 1");
}

TEST(GraphMode, WhetherTheCpuHelpsOut_IsToldToWorkers_AndNotOfBatchesOnTheGpu) {
  for (const bool helps : {false, true}) {
    WorkerConfig config;
    config.execution.gpu = {.graph_mode = GraphMode::kCuda, .cpu_fallback = helps};
    config.asks_for_jobs = true;
    EXPECT_EQ(WorkerConfig::from_json(config.to_json()).execution.gpu.cpu_fallback, helps);
  }
  GpuOptions options{.graph_mode = GraphMode::kCuda, .cpu_fallback = true};
  EXPECT_NO_THROW(options.validate(1));
  options.device_batches = true;
  expect_refused(
      [&] { options.validate(1); },
      "cpu_fallback is of batches in the host's memory, and these stay in a GPU's (device_batches); "
      "leave one of them out");
}

TEST(GraphMode, WithoutAGpu_IsRefusedWhereALoaderIsOpened) {
  if (gpu::why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU here";
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "ring", testing::ring_graph(6));
  for (const std::int64_t workers : {0, 1})
    expect_refused(
        [&] {
          Loader({.dataset = folder.path() / "ring",
                  .batch = {.fanouts = {2}},
                  .deal = {.batch_size = 2},
                  .execution = {.num_workers = workers, .gpu = {.graph_mode = GraphMode::kUva}}});
        },
        "graph mode uva: " + gpu::why_no_gpu(), ErrorCode::kNotFound);
}

TEST(GraphMode, GpuDevice_IsANumberAndOfModesThatUseOne) {
  GpuOptions options{.graph_mode = GraphMode::kUva, .gpu_device = 1};
  EXPECT_NO_THROW(options.validate(1));
  options.graph_mode = GraphMode::kCpu;
  expect_refused([&] { options.validate(1); }, "gpu_device is 1 and graph_mode is cpu, which uses no GPU");
  options = {.graph_mode = GraphMode::kCuda, .gpu_device = -1};
  expect_refused([&] { options.validate(1); }, "gpu_device is -1; GPUs are numbered from 0");
  options = {.graph_mode = GraphMode::kCuda, .gpu_device = 1, .device_batches = true};
  EXPECT_NO_THROW(options.validate(0));
}

TEST(UnusableGpu, IsOneLineForEachReason) {
  struct Case {
    gpu::FoundGpus found;
    int device;
    const char* said;
  };
  const Case cases[] = {
      {{.runtime = 13000, .driver = 13010, .devices = 2, .refusal = ""}, 1, ""},
      {{.runtime = 13010, .driver = 13000, .devices = 1, .refusal = ""}, 0, ""},
      {{.runtime = 13000, .driver = 0, .devices = 0, .refusal = "CUDA driver version is insufficient"},
       0,
       "no GPU can be used (there is no CUDA driver); install one for CUDA 13 or later where a card is, or "
       "take "
       "graph mode cpu"},
      {{.runtime = 13000, .driver = 12040, .devices = 0, .refusal = "CUDA driver version is insufficient"},
       0,
       "no GPU can be used (the driver knows CUDA 12.4, and this hopfeed was built with 13.0); install a "
       "driver "
       "for CUDA 13 or later, or take graph mode cpu"},
      {{.runtime = 13000, .driver = 13000, .devices = 0, .refusal = "system not yet initialized"},
       0,
       "no GPU can be used (CUDA says: system not yet initialized); look at the card and its driver "
       "(nvidia-smi), or take graph mode cpu"},
      {{.runtime = 13000, .driver = 13000, .devices = 0, .refusal = ""},
       0,
       "no GPU can be used (there is no CUDA device); see CUDA_VISIBLE_DEVICES where a card is, or take "
       "graph "
       "mode cpu"},
      {{.runtime = 13000, .driver = 13000, .devices = 1, .refusal = ""},
       1,
       "GPU 1 cannot be used (there is one, number 0); choose gpu_device 0, or take graph mode cpu"},
      {{.runtime = 13000, .driver = 13000, .devices = 4, .refusal = ""},
       4,
       "GPU 4 cannot be used (there are 4, from 0 on); choose gpu_device 0 to 3, or take graph mode cpu"},
  };
  for (const Case& of : cases) EXPECT_EQ(unmarked(gpu::why_unusable(of.found, of.device)), of.said);
}

TEST(UnusableGpu, TooOldOrShut_IsOneLine) {
  const gpu::AskedGpu fits{.name = "Some GPU", .capability = 90, .oldest = 80, .shut = false};
  EXPECT_EQ(gpu::why_unusable(fits, 0), "");
  EXPECT_EQ(gpu::why_unusable({.name = "Some GPU", .capability = 80, .oldest = 80, .shut = false}, 0), "");
  EXPECT_EQ(
      gpu::why_unusable({.name = "Tesla V100", .capability = 70, .oldest = 80, .shut = false}, 2),
      "GPU 2 cannot be used (Tesla V100 has compute capability 7.0, and this hopfeed has kernels for 8.0 "
      "and later); build it with -DCMAKE_CUDA_ARCHITECTURES=70, or take graph mode cpu");
  EXPECT_EQ(gpu::why_unusable({.name = "Some GPU", .capability = 90, .oldest = 80, .shut = true}, 0),
            "GPU 0 cannot be used (Some GPU has the compute mode Prohibited); set another (nvidia-smi "
            "--compute-mode=DEFAULT), or take graph mode cpu");
}

TEST(AutoGraphMode, OnAGpu_CopiesTheGraphWhereThereIsRoom) {
  const gpu::UsableGpu gpu{.device = 1, .name = "Card", .memory = 80'000'000'000};
  const AutoGraphMode fits = graph_mode_on(gpu, 40'000'000'000), large = graph_mode_on(gpu, 40'000'000'001);
  EXPECT_EQ(fits.mode, GraphMode::kCuda);
  EXPECT_EQ(large.mode, GraphMode::kUva);
  for (const AutoGraphMode& mode : {fits, large}) {
    EXPECT_EQ(mode.why.find("GPU 1, Card, of "), 0u) << mode.why;
    EXPECT_EQ(mode.why.find('\n'), std::string::npos);
  }
}

TEST(AutoGraphMode, WithoutAGpu_IsTheCpuAndSaysWhy) {
  if (gpu::why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU here";
  const AutoGraphMode mode = auto_graph_mode({.device = 0, .datasets = {"no such folder"}, .copies = 2});
  EXPECT_EQ(mode.mode, GraphMode::kCpu);
  EXPECT_EQ(mode.why, gpu::why_no_gpu());
}

}  // namespace
}  // namespace hopfeed
