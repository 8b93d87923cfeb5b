// A model learns from seeds beyond 2^33 of a graph of 12 billion nodes.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/processes.h"
#include "tests/support/sparse_dataset.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/training_options.h"
#include "trainer/trainer.h"

namespace hopfeed {
namespace {

TEST(ManyNodesTraining, StepsOverSeedsBeyond2To33_AreTheSameFromWorkersAndTheCallingThread) {
  at::set_num_threads(1);
  World world;
  const testing::TempFolder folder;
  testing::write_sparse_dataset(folder.path() / "sparse");
  std::vector<std::uint64_t> parameters;
  for (const std::int64_t workers : {2, 0}) {
    TrainingOptions options = testing::small_training((folder.path() / "sparse").string());
    options.loader.deal.batch_size = 10;
    options.loader.execution.num_workers = workers;
    options.epochs = 1;
    int steps = 0;
    const TrainingResult result = train(world, options, {.step = [&](const StepReport&) { ++steps; }});
    EXPECT_EQ(steps, 2);  // 20 seeds
    ASSERT_EQ(result.rows.size(), 1U);
    EXPECT_TRUE(std::isfinite(result.rows[0].loss));
    parameters.push_back(testing::parameter_digest(result.model));
  }
  EXPECT_EQ(parameters[0], parameters[1]);
}

}  // namespace
}  // namespace hopfeed
