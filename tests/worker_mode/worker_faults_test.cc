// The loader when its workers come to harm: docs/faults.md, F1 to F3, F7, F11, F12 and F31. The oracle is
// always the serial one, so "the same bytes" is meant literally.
#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "channel/channel_view.h"
#include "tests/worker_mode/faults_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

/// Failpoints that a worker passes with every batch; the others have tests of their own.
bool hit_by_each_batch(std::string_view name) {
  return name.starts_with("channel.") || name == "worker.after_sample" || name == "worker.before_write" ||
         name == "worker.mid_write";
}

// F1. The long way is the soak: hopfeed-soak --kills 10000.
TEST_F(Faults, WorkersKilledAtRandomMomentsIn200Epochs_TrainerGetsTheSameBytes) {
  LoaderOptions o = options();
  o.batch.fanouts = {8, 8};
  o.deal.batch_size = 32;
  o.execution.max_worker_restarts = 1'000'000;
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  Loader loader(o);
  std::atomic<bool> done{false};
  std::atomic<int> kills{0};
  std::thread killer([&] {
    std::mt19937 random(seed);
    while (!done) {
      const std::vector<int> pids = loader.worker_pids();
      if (!pids.empty() && ::kill(pids[random() % pids.size()], SIGKILL) == 0) ++kills;
      // Sometimes at once again, mostly a few batches later: on a slow machine a new worker may need longer
      // to start than any fixed time.
      const std::int64_t go_on = loader.stats().batches + static_cast<std::int64_t>(random() % 12);
      while (!done && loader.stats().batches < go_on) std::this_thread::sleep_for(100us);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 2'000));
    }
  });
  // How many kills find a batch in hand is the machine's affair; the test's watchdog bounds the wait for a
  // few.
  const auto enough = [&] { return loader.stats().worker_deaths > 50 && loader.stats().batches_remade > 5; };
  for (std::int64_t epoch = 0; epoch < 200 || !enough(); ++epoch) {
    const std::vector<std::string> lines = loaded(loader, {.epoch = epoch});
    if (lines == expected(o, {.epoch = epoch})) continue;
    ADD_FAILURE() << "epoch " << epoch << " differs";
    break;
  }
  done = true;
  killer.join();
  std::printf("%d kills, %ld deaths, %ld batches made again\n", kills.load(), loader.stats().worker_deaths,
              loader.stats().batches_remade);
}

// F2: the one worker of a loader, killed at its n-th hit of a failpoint; n rises until the epoch is over
// before.
TEST_F(Faults, WorkerKilledAtTheNthHitOfEachFailpoint_EpochHasTheSameBytes) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  const std::vector<std::string> want = expected(o);
  const testing::TempFolder scratch;
  for (const std::string_view name : kFailpoints) {
    if (!hit_by_each_batch(name)) continue;
    bool acted = true;
    for (std::size_t hit = 1; acted; ++hit) {
      const ArmedOnce armed(std::string(name) + "=kill@" + std::to_string(hit), scratch.path());
      Loader loader(o);
      ASSERT_EQ(loaded(loader), want) << name << " at hit " << hit;
      // Each batch comes there, the last one perhaps only after it was read: a worker that has published goes
      // on by itself. The test's watchdog bounds both waits.
      while (hit <= want.size() && !armed.has_acted()) std::this_thread::sleep_for(1ms);
      acted = armed.has_acted();
      while (acted && loader.stats().worker_deaths == 0) std::this_thread::sleep_for(1ms);
      EXPECT_EQ(loader.stats().worker_deaths, acted ? 1 : 0) << name << " at hit " << hit;
    }
  }
}

// F2: of two workers, the first that comes there.
TEST_F(Faults, OneOfTwoWorkersKilledAtEachFailpoint_EpochsHaveTheSameBytes) {
  NEEDS_FAILPOINTS();
  const LoaderOptions o = options();
  const testing::TempFolder scratch;
  for (const std::string_view name : kFailpoints) {
    if (!hit_by_each_batch(name)) continue;
    for (int hit = 1; hit <= 3; ++hit) {
      const ArmedOnce armed(std::string(name) + "=kill@" + std::to_string(hit), scratch.path());
      Loader loader(o);
      for (std::int64_t epoch = 0; epoch < 2; ++epoch)
        EXPECT_EQ(loaded(loader, {.epoch = epoch}), expected(o, {.epoch = epoch}))
            << name << " at hit " << hit;
      EXPECT_TRUE(armed.has_acted()) << name << " was never hit " << hit << " times";
    }
  }
}

// F2: a name that nothing hits would be tested by nobody.
TEST_F(Faults, EveryFailpointIsHit) {
  NEEDS_FAILPOINTS();
  const testing::TempFolder scratch;
  const std::filesystem::path log = scratch.path() / "hits";
  {
    const InEnvironment logged("HOPFEED_FAIL_LOG", log.string());
    testing::write_tiny_dataset(scratch.path() / "ring", testing::ring_graph(6));
    Loader loader(options());
    loaded(loader);
  }
  std::set<std::string> hit;
  std::ifstream file(log);
  for (std::string name; std::getline(file, name);) hit.insert(name);
  std::set<std::string> all(std::begin(kFailpoints), std::end(kFailpoints));
  std::erase_if(all, [](const std::string& name) {  // have their own
    return name.starts_with("cache.") || name.starts_with("device.") || name.starts_with("server.") ||
           name.starts_with("results.");
  });
  EXPECT_EQ(hit, all);
}

// F3
TEST_F(Faults, WorkerHangs_IsKilledAfterTheDeadlineAndItsBatchMadeAgain) {
  NEEDS_FAILPOINTS();
  for (const char* name : {"channel.after_claim", "worker.mid_write", "channel.before_publish"}) {
    LoaderOptions o = options();
    o.execution.batch_deadline = 200ms;
    std::optional<Loader> loader;
    {
      const Armed armed(std::string(name) + "=stop@2");
      loader.emplace(o);
    }
    EXPECT_EQ(loaded(*loader), expected(o)) << name;
    EXPECT_GE(loader->stats().worker_deaths, 1) << name;
    EXPECT_GE(loader->stats().batches_remade, 1) << name;
  }
}

/// Whether any of these processes is still a worker of the loader.
bool has_any(const Loader& loader, const std::vector<int>& pids) {
  const std::vector<int> workers = loader.worker_pids();
  return std::any_of(pids.begin(), pids.end(), [&](int pid) {
    return std::find(workers.begin(), workers.end(), pid) != workers.end();
  });
}

// F3
TEST_F(Faults, AllWorkersStoppedWhileIdle_AreReplacedWhenThereIsWork) {
  LoaderOptions o = options();
  o.execution.batch_deadline = 5s;  // so long that no worker that runs is taken for one that does not
  Loader loader(o);
  const std::vector<int> stopped = loader.worker_pids();
  for (int pid : stopped) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  // The first to be replaced may make the whole epoch before the other's time is up.
  for (std::int64_t epoch = 0; has_any(loader, stopped); ++epoch)
    ASSERT_EQ(loaded(loader, {.epoch = epoch % 3}), expected(o, {.epoch = epoch % 3}));
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_EQ(loader.stats().worker_deaths, 2);
}

// F3: a stopped worker that has nothing in hand holds nobody up, but it is one worker less; it is replaced,
// too.
TEST_F(Faults, OneOfTwoWorkersStoppedWhileIdle_IsReplacedBesideTheOther) {
  LoaderOptions o = options();
  o.execution.batch_deadline = 5s;
  Loader loader(o);
  const int stopped = loader.worker_pids()[0];
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  for (std::int64_t epoch = 0; has_any(loader, {stopped}); ++epoch)
    ASSERT_EQ(loaded(loader, {.epoch = epoch % 3}), expected(o, {.epoch = epoch % 3}));
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_EQ(loader.stats().worker_deaths, 1);
}

// F3: stopped where it waits for memory, and the epoch is left meanwhile: nobody will grant it anything any
// more.
TEST_F(Faults, WorkerStoppedWhileItWaitsForMemory_DoesNotHoldUpTheNextEpoch) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  o.execution.batch_deadline = 5s;
  const testing::TempFolder scratch;
  const ArmedOnce armed("channel.after_ask=stop@1", scratch.path());
  Loader loader(o);
  loader.begin_epoch(0);
  while (!armed.has_acted()) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(o, {.epoch = 1}));
  EXPECT_EQ(loader.stats().worker_deaths, 1);
}

/// One worker that samples four batches ahead.
LoaderOptions sampling_ahead(LoaderOptions options) {
  options.execution.num_workers = 1;
  options.execution.features = {.from = FeaturesFrom::kFile, .row_cache_bytes = 1 << 20, .window = 4};
  return options;
}

// F10: batches that are sampled ahead wait with the one whose turn it is.
TEST_F(Faults, TrainerThatPauses_WorkerThatHasSampledAheadIsNotTakenForHung) {
  LoaderOptions o = sampling_ahead(options());
  o.execution.channel_size = 4'096;  // so that the worker waits for memory
  o.execution.batch_deadline = 1s;
  Loader loader(o);
  loader.begin_epoch(0);
  {
    const std::optional<Batch> held = loader.next();
    ASSERT_TRUE(held);
    std::this_thread::sleep_for(3s);
  }
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

// The deadline is one batch's, also where several are sampled before the first is whole.
TEST_F(Faults, WindowOfBatches_HasADeadlineForEach) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = sampling_ahead(options());
  o.execution.batch_deadline = 1s;
  const Armed armed("worker.after_sample=sleep:300@*");
  Loader loader(o);
  loader.begin_epoch(0);
  EXPECT_TRUE(loader.next());
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

// F3: a process that wakes up goes on writing; only once it is dead may its slot be used again.
TEST_F(Faults, WorkerWakesUpJustAsItIsKilled_NothingIsTorn) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.batch_deadline = 100ms;
  std::optional<Loader> loader;
  {
    const Armed armed("worker.mid_write=stop@1");
    loader.emplace(o);
  }
  std::atomic<bool> done{false};
  std::thread waker([&] {
    for (int i = 0; !done; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(90 + i % 3));
      for (int pid : loader->worker_pids()) ::kill(pid, SIGCONT);
    }
  });
  for (std::int64_t epoch = 0; epoch < 5; ++epoch)
    EXPECT_EQ(loaded(*loader, {.epoch = epoch}), expected(o, {.epoch = epoch}));
  done = true;
  waker.join();
}

// F12
TEST_F(Faults, WorkerThatLeavesAtStart_EndsInPeerDiedWithTheCause) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  o.execution.max_worker_restarts = 2;
  const Armed armed("worker.start=exit@1");
  const std::string error = error_of([&] { Loader loader(o); });
  EXPECT_NE(error.find("peer died: sampling worker 0: worker process "), std::string::npos) << error;
  EXPECT_NE(error.find("left with exit code 3; 3 deaths in a row without a finished batch"),
            std::string::npos)
      << error;
}

TEST_F(Faults, WorkerThatNeverGetsReady_IsATimeoutThatNamesIt) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.start_deadline = 300ms;
  const Armed armed("worker.start=stop@1");
  const std::string error = error_of([&] { Loader loader(o); });
  EXPECT_NE(error.find("timeout: sampling worker 0 was not ready within 300 ms"), std::string::npos) << error;
}

// F12
TEST_F(Faults, BatchThatKillsEveryWorker_EndsInPeerDiedWithTheCause) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.max_worker_restarts = 3;
  const Armed armed("worker.after_sample=kill@1");
  Loader loader(o);
  loader.begin_epoch(0);
  const std::string error = error_of([&] { loader.next(); });
  EXPECT_NE(error.find("peer died"), std::string::npos) << error;
  EXPECT_NE(error.find("was killed by signal 9 (Killed); 4 deaths in a row"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { loader.next(); }), error);
}

// Nobody counts those that go at one blow, of which a machine of many cores has more than may be started
// again in a row.
TEST_F(Faults, WorkersKilledTogether_AreStartedAgainHoweverMany) {
  LoaderOptions o = options();
  o.execution.num_workers = 4;
  o.execution.max_worker_restarts = 1;
  Loader loader(o);
  for (int pid : loader.worker_pids()) ASSERT_EQ(::kill(pid, SIGKILL), 0);
  while (loader.stats().worker_deaths < 4) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(loaded(loader), expected(o));
}

TEST_F(Faults, ProgramThatIsNoWorker_EndsInPeerDied) {
  LoaderOptions o = options();
  o.execution.worker_program = "/bin/true";
  o.execution.max_worker_restarts = 1;
  const std::string error = error_of([&] { Loader loader(o); });
  EXPECT_NE(error.find("left with exit code 0; 2 deaths in a row"), std::string::npos);
}

// F12: 10 ms behind the second death, twice as much behind each that follows.
TEST_F(Faults, WorkerThatLeavesAgainAndAgain_IsStartedLessAndLessOften) {
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  o.execution.worker_program = "/bin/true";
  o.execution.max_worker_restarts = 8;
  o.execution.start_deadline = 60s;
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { Loader loader(o); });
  EXPECT_NE(error.find("9 deaths in a row"), std::string::npos) << error;
  EXPECT_GE(std::chrono::steady_clock::now() - begin, (10 + 20 + 40 + 80 + 160 + 320 + 640) * 1ms);
}

TEST_F(Faults, ErrorInOneBatch_ComesInItsTurnAndTheNextEpochIsWhole) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  std::optional<Loader> loader;
  {
    const Armed armed("worker.batch=error@4");
    loader.emplace(o);
    loader->begin_epoch(0);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader->next());
    EXPECT_EQ(error_of([&] { loader->next(); }), "io: failpoint worker.batch");
  }
  EXPECT_EQ(loaded(*loader, {.epoch = 1}), expected(o, {.epoch = 1}));
}

// F31
TEST_F(Faults, NoMemoryForOneBatch_IsNoSpaceForThatBatchAlone) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  const testing::TempFolder scratch;
  const ArmedOnce armed("worker.allocate=error@4", scratch.path());
  Loader loader(o);
  loader.begin_epoch(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next());
  EXPECT_EQ(error_of([&] { loader.next(); }),
            "no space: there is no memory for the batch of 16 seeds from position 48: lower batch_size, "
            "fanouts or num_workers");
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(o, {.epoch = 1}));
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

// As after an illegal access on a GPU: the worker's next batches would fail as well.
TEST_F(Faults, WorkerThatCanMakeNoMore_EndsAndAnotherMakesItsBatches) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 1;
  const testing::TempFolder scratch;
  const ArmedOnce armed("worker.broken=error@4", scratch.path());
  Loader loader(o);
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_EQ(loader.stats().worker_deaths, 1);
}

TEST_F(Faults, WorkersThatCanMakeNoBatch_AreGivenUpWithWhatTheySaid) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.max_worker_restarts = 2;
  const Armed armed("worker.broken=error@*");
  const std::string error = error_of([&] {
    Loader loader(o);
    loader.begin_epoch(0);
    loader.next();
  });
  EXPECT_EQ(error, "io: failpoint worker.broken");
}

TEST_F(Faults, OneWhoSamplesItself_IsToldWhatBrokeIt) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.execution.num_workers = 0;
  const Armed armed("worker.broken=error@4");
  Loader loader(o);
  loader.begin_epoch(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(loader.next());
  EXPECT_EQ(error_of([&] { loader.next(); }), "io: failpoint worker.broken");
}

// F7
TEST_F(Faults, MemoryRefusedByTheSystem_IsAnErrorThatNamesTheKnob) {
  NEEDS_FAILPOINTS();
  Loader loader(options());
  const Armed armed("memory.reserve=error@1");
  loader.begin_epoch(0);
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_NE(error.find("no space: cannot reserve"), std::string::npos) << error;
  EXPECT_NE(error.find("lower channel_size"), std::string::npos) << error;
}

/// The descriptor of the one channel that this process has.
int channel_descriptor() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().find("hopfeed-channel") != std::string::npos) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

// F11
TEST_F(Faults, SlotOwnedByALivingProcessThatIsNoWorker_IsTakenBack) {
  const LoaderOptions o = options();
  Loader loader(o);
  const auto memory = attach_shared_memory(channel_descriptor());
  const ChannelView view = ChannelView::open(*memory);
  for (int pid : loader.worker_pids()) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  loader.begin_epoch(0);
  for (std::uint32_t slot = 0; slot < view.shape().num_slots; ++slot) {  // as if a pid had been used again
    SlotWord word = SlotWord::unpack(view.slot(slot).word.load());
    if (word.state == SlotState::kPlanned)
      view.slot(slot).word.store(
          SlotWord{SlotState::kFilling, static_cast<std::uint32_t>(getpid()), word.generation}.pack());
  }
  for (int pid : loader.worker_pids()) ASSERT_EQ(::kill(pid, SIGCONT), 0);
  std::vector<std::string> lines;
  while (const auto batch = loader.next()) lines.push_back(line_of(batch->view()));
  EXPECT_EQ(lines, expected(o));
}

}  // namespace
}  // namespace hopfeed
