// One trainer of training_test: `training_rank DATASET OUT EPOCHS CHECKPOINT_EVERY [KILL_STEP]` trains a
// small model, and rank 0 writes OUT/result.json: every loss and accuracy, and a digest of the parameters.
// With KILL_STEP rank 1 kills itself after that many steps of its first life.
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.h"
#include "tests/trainer/training_options.h"
#include "trainer/trainer.h"
#include "trainer/world.h"

int main(int argc, char** argv) {
  try {
    at::set_num_threads(1);
    hopfeed::World world({.timeout = std::chrono::seconds(60)});
    hopfeed::TrainingOptions options = hopfeed::testing::small_training(argv[1]);
    options.out = argv[2];
    options.epochs = std::stoll(argv[3]);
    options.checkpoint_every = std::stoll(argv[4]);
    const std::int64_t kill_step = argc > 5 ? std::stoll(argv[5]) : 0;
    std::int64_t steps = 0, first_step_epoch = -1;
    const hopfeed::TrainingResult result =
        hopfeed::train(world, options,
                       {.step =
                            [&](const hopfeed::StepReport& step) {
                              if (steps++ == 0) first_step_epoch = step.epoch;
                              if (world.restart_count() == 0 && world.rank() == 1 && steps == kill_step)
                                raise(SIGKILL);
                            },
                        .epoch = {}});
    if (world.rank() != 0) return 0;
    nlohmann::json json = {{"restarts", world.restart_count()},
                           {"steps", steps},
                           {"first_step_epoch", first_step_epoch},
                           {"digest", hopfeed::testing::parameter_digest(result.model)}};
    for (const hopfeed::EpochRow& row : result.rows) json["rows"].push_back({row.loss, row.valid_accuracy});
    std::ofstream(options.out / "result.json") << json;
    return 0;
  } catch (const hopfeed::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 10 + static_cast<int>(error.code());
  }
}
