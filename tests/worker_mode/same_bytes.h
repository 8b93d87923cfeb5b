// What every kind of sampling has to do through worker mode: the bytes of the oracle, whatever cuts, workers and deaths.
#pragma once
#include <signal.h>

#include <functional>

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

inline void expect_same_bytes_after_a_kill(const OptionsOfParts& options) {
  const LoaderOptions o = options(2);
  const std::vector<std::string> want = expected(o);
  Loader loader(o);
  std::vector<std::string> got;
  loader.begin_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    got.push_back(line_of(batch->view()));
    const std::vector<int> pids = loader.worker_pids();
    if (got.size() == 2 && !pids.empty()) {
      ASSERT_EQ(::kill(pids.front(), SIGKILL), 0);
    }
  }
  EXPECT_EQ(got, want);
}

}  // namespace hopfeed
