// What every kind of sampling has to do through worker mode: the bytes of the oracle, whatever cuts, workers and deaths.
#pragma once
#include <signal.h>

#include <chrono>
#include <functional>
#include <thread>

#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {

/// The options of a kind over its dataset in so many partitions.
using OptionsOfParts = std::function<LoaderOptions(int parts)>;

inline void expect_same_bytes_of_workers_and_partitions(const OptionsOfParts& options) {
  const std::vector<std::string> want = expected(options(1));
  EXPECT_GT(want.size(), 2U);
  for (int number : {1, 2, 3}) {
    LoaderOptions o = options(number);
    o.num_workers = number == 3 ? 4 : number;
    Loader loader(o);
    EXPECT_EQ(loaded(loader), want) << number << " partitions, " << o.num_workers << " workers";
  }
}

/// All workers at once, with batches in every state.
inline void expect_same_bytes_after_a_kill(const OptionsOfParts& options) {
  const LoaderOptions o = options(2);
  const std::vector<std::string> want = expected(o);
  Loader loader(o);
  std::vector<std::string> got;
  std::vector<int> killed;
  loader.begin_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    got.push_back(line_of(batch->view()));
    if (got.size() != 2) continue;
    killed = loader.worker_pids();
    for (const int pid : killed) EXPECT_EQ(::kill(pid, SIGKILL), 0);
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(killed.size(), static_cast<std::size_t>(o.num_workers));
  // The last ones may have died behind the last batch; the test's watchdog bounds the wait.
  while (loader.stats().worker_deaths < std::ssize(killed))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace hopfeed
