// Batches that workers make in a card's memory, by the loader that users open. Where there is no card, each
// test says so and is skipped, not passed.
#include <signal.h>

#include "gpu/device/cuda_engine.h"
#include "tests/worker_mode/faults_fixture.h"

namespace hopfeed {
namespace {

class SlotsOfACard : public Faults {
 protected:
  void SetUp() override {
    Faults::SetUp();
    if (const std::string why = gpu::why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
    {
      Loader loader(options(GraphMode::kUva));
      loader.begin_epoch(0);
      loader.next();
    }
    take_stock();  // CUDA keeps descriptors until the process ends
  }
  static LoaderOptions options(GraphMode mode) {
    LoaderOptions options = Faults::options(2);
    options.execution.gpu.graph_mode = mode;
    options.execution.gpu.device_batches = true;
    options.execution.max_worker_restarts = 1'000;
    return options;
  }
};

TEST_F(SlotsOfACard, WorkersGiveTheSameBytes_InBothModes) {
  for (const GraphMode mode : {GraphMode::kUva, GraphMode::kCuda}) {
    const LoaderOptions o = options(mode);
    Loader loader(o);
    for (int epoch = 0; epoch < 3; ++epoch)
      EXPECT_EQ(loaded(loader, {.epoch = epoch}), expected(o, {.epoch = epoch})) << to_string(mode);
  }
}

TEST_F(SlotsOfACard, WorkersKilledInEachEpoch_TheBytesStay) {
  const LoaderOptions o = options(GraphMode::kUva);
  Loader loader(o);
  for (int epoch = 0; epoch < 10; ++epoch) {
    std::vector<std::string> got;
    loader.begin_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      got.push_back(line_of(batch->view()));
      if (got.size() % 7 != 1) continue;
      for (const int pid : loader.worker_pids()) ::kill(pid, SIGKILL);
    }
    EXPECT_EQ(got, expected(o, {.epoch = epoch}));
  }
}

}  // namespace
}  // namespace hopfeed
