// The option graph_mode on its way: to workers, and refused where a loader is opened.
#include <gtest/gtest.h>

#include "gpu/cuda_engine.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "worker_mode/loader.h"
#include "worker_mode/worker_config.h"

namespace hopfeed {
namespace {

TEST(GraphMode, IsToldToWorkers) {
  for (const GraphMode mode : {GraphMode::kCpu, GraphMode::kUva, GraphMode::kCuda}) {
    WorkerConfig config;
    config.execution.graph_mode = mode;
    config.asks_for_jobs = true;
    EXPECT_EQ(WorkerConfig::from_json(config.to_json()).execution.graph_mode, mode);
  }
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
                  .execution = {.num_workers = workers, .graph_mode = GraphMode::kUva}});
        },
        "graph mode uva: " + gpu::why_no_gpu(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hopfeed
