// A LaunchedRun is what the launcher tells of the run that it has started: how often it has started it, and a
// name that all its starts have in common. By it a run that was started again knows its checkpoints from
// those that an earlier run has left in the same folder (earlier_run.h).
//
//   torchrun          its agent keeps a store over restarts: the first rank 0 leaves a number there
//   hopfeed-launch    HOPFEED_RESTART counts, HOPFEED_RUN names the run
#pragma once
#include <cstdint>
#include <string>

#include "trainer/world.h"

namespace hopfeed {

struct LaunchedRun {
  std::int64_t restarts = 0;
  std::string id;  // empty: the launcher tells none
};
/// Call it on rank 0; of another rank the id is empty. Throws kInvalid for a broken environment, kIo where
/// torchrun's store cannot be reached.
const LaunchedRun& launched_run(const World& world);

}  // namespace hopfeed
