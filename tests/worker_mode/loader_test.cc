// The loader when nothing goes wrong: the same bytes as the serial oracle, whatever the number of workers,
// ranks, partitions and the size of the channel; the life of batches; epochs left early and started again.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "stream/loader_watch.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

TEST_F(LoaderTest, OneTwoAndFourWorkers_GiveTheOraclesBytesInTheOraclesOrder) {
  for (std::int64_t workers : {1, 2, 4}) {
    LoaderOptions o = options();
    o.execution.num_workers = workers;
    Loader loader(o);
    EXPECT_EQ(static_cast<std::int64_t>(loader.worker_pids().size()), workers);
    for (std::int64_t epoch : {0, 1, 5})
      EXPECT_EQ(loaded(loader, {.epoch = epoch}), expected(o, {.epoch = epoch})) << workers << " workers";
  }
}

// ---- the life of a batch

long ticks_of_workers(const Loader& loader) {
  long ticks = 0;
  for (int pid : loader.worker_pids()) ticks += testing::cpu_ticks(pid);
  return ticks;
}

/// Until each worker of this process's one loader does that; the test's watchdog bounds it.
void wait_until_all_workers(WorkerActivity activity) {
  const std::vector<FoundChannel> channels = find_channels(getpid());
  ASSERT_EQ(channels.size(), 1U);
  const LoaderWatch watch(channels[0].fd.get());
  const auto does = [activity](const LoaderSnapshot::Worker& worker) { return worker.activity == activity; };
  while (!std::ranges::all_of(watch.look().workers, does))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(LoaderTest, EpochPlannedToItsEnd_WorkersRestAndThatIsNoWait) {
  LoaderOptions o = options();
  o.execution.num_slots = 64;  // more than the epoch has batches
  Loader loader(o);
  loader.begin_epoch(0);
  while (loader.next()) {
  }
  // Who waited before the epoch was planned whole has told so.
  ASSERT_NO_FATAL_FAILURE(wait_until_all_workers(WorkerActivity::kResting));
  const double waited = loader.stats().waits.for_slot;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(loader.stats().waits.for_slot, waited);
}

TEST_F(LoaderTest, LoaderMadeAndDroppedAtOnce_LeavesNothing) {
  for (int i = 0; i < 5; ++i) {
    Loader loader(options());
    const std::vector<int> pids = loader.worker_pids();
    EXPECT_EQ(pids.size(), 2U);
  }
}

// ---- memory

std::size_t resident_in_all(const Loader& loader) {
  std::size_t bytes = testing::resident_bytes(getpid());
  for (int pid : loader.worker_pids()) bytes += testing::resident_bytes(pid);
  return bytes;
}

// F10
TEST_F(LoaderTest, SlowConsumer_MakesWorkersSleepAndMemoryStay) {
  Loader loader(options());
  loaded(loader);  // whatever is made once is made
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  ASSERT_NO_FATAL_FAILURE(wait_until_all_workers(WorkerActivity::kWaitingForSlot));
  const std::size_t bytes = loader.stats().channel_bytes;
  const double full = loader.stats().waits.for_slot;
  const std::size_t resident = resident_in_all(loader);
  const long before = ticks_of_workers(loader);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_LE(ticks_of_workers(loader) - before, 4) << "clock ticks of two workers in two seconds";
  EXPECT_EQ(loader.stats().channel_bytes, bytes);
  EXPECT_LE(resident_in_all(loader), resident + (256 << 10)) << "memory of the loader and its workers";
  EXPECT_GT(loader.stats().waits.for_slot, full) << "the wait is counted";
}

}  // namespace
}  // namespace hopfeed
