// Every kind of sampling has to give the bytes of the oracle through worker mode, whatever cuts, workers and
// deaths.
#pragma once
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {

/// Gives the options of a kind over its dataset in so many partitions.
using OptionsOfParts = std::function<LoaderOptions(int parts)>;

inline void expect_same_bytes_of_workers_and_partitions(const OptionsOfParts& options) {
  const std::vector<std::string> want = expected(options(1));
  EXPECT_GT(want.size(), 2U);
  for (int number : {1, 2, 3, 0}) {  // 0: in the calling thread
    LoaderOptions o = options(std::max(number, 1));
    o.execution.num_workers = number == 3 ? 4 : number;
    Loader loader(o);
    EXPECT_EQ(loaded(loader), want) << std::max(number, 1) << " partitions, " << o.execution.num_workers
                                    << " workers";
  }
}

/// Kills all workers at once, with batches in every state, in epoch after epoch until one of them had a batch
/// in hand: it is made again.
inline void expect_same_bytes_after_a_kill(const OptionsOfParts& options) {
  const LoaderOptions o = options(2);
  Loader loader(o);
  std::int64_t killed = 0;
  // Which kill finds a batch in hand is the machine's affair; the test's watchdog bounds the wait.
  for (std::int64_t epoch = 0; loader.stats().batches_remade == 0; ++epoch) {
    std::vector<std::string> got;
    loader.begin_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      got.push_back(line_of(batch->view()));
      if (got.size() != 2) continue;
      for (const int pid : loader.worker_pids()) killed += ::kill(pid, SIGKILL) == 0;
    }
    ASSERT_EQ(got, expected(o, {.epoch = epoch})) << "epoch " << epoch;
    // The last ones may have died behind the last batch.
    while (loader.stats().worker_deaths < killed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(killed, o.execution.num_workers);
}

}  // namespace hopfeed
