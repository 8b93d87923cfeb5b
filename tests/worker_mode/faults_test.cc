// The loader when its workers, or the process that it lives in, come to harm: docs/faults.md, F1 to F12. The
// oracle is always the serial one, so "the same bytes" is meant literally.
#include <signal.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "channel/channel_view.h"
#include "channel/failpoint.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

#define NEEDS_FAILPOINTS() \
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)"

/// Arms failpoints for the workers that are started in its scope.
class Armed {
 public:
  explicit Armed(const std::string& what) { setenv("HOPFEED_FAIL", what.c_str(), 1); }
  ~Armed() { unsetenv("HOPFEED_FAIL"); }
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
};

class Faults : public LoaderTestWithin<240> {};

// ---- workers that die

TEST_F(Faults, WorkersKilledAtRandomMomentsIn200Epochs_TrainerGetsTheSameBytes) {
  LoaderOptions o = options();
  o.batch.fanouts = {8, 8};
  o.batch_size = 32;
  o.max_worker_restarts = 1'000'000;
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
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const std::vector<std::string> lines = loaded(loader, {.epoch = epoch});
    if (lines == expected(o, {.epoch = epoch})) continue;
    ADD_FAILURE() << "epoch " << epoch << " differs";
    break;
  }
  done = true;
  killer.join();
  EXPECT_GT(loader.stats().worker_deaths, 50);
  EXPECT_GT(loader.stats().batches_remade, 5) << "some died with a batch in hand";
  std::printf("%d kills, %ld deaths, %ld batches made again\n", kills.load(), loader.stats().worker_deaths,
              loader.stats().batches_remade);
}

TEST_F(Faults, WorkerKilledAtEveryFailpoint_TrainerGetsTheSameBytes) {
  NEEDS_FAILPOINTS();
  for (const std::string_view name : kFailpoints) {
    if (name == "worker.start" || name == "worker.batch" || name == "memory.reserve")
      continue;  // tests of their own
    for (int hit = 1; hit <= 3; ++hit) {
      const LoaderOptions o = options();
      std::optional<Loader> loader;
      {
        const Armed armed(std::string(name) + "=kill@" + std::to_string(hit));
        loader.emplace(o);
      }  // replacements live on
      EXPECT_EQ(loaded(*loader), expected(o)) << name << " at hit " << hit;
      EXPECT_GE(loader->stats().worker_deaths, 1) << name << " was never hit " << hit << " times";
    }
  }
}

TEST_F(Faults, WorkerHangs_IsKilledAfterTheDeadlineAndItsBatchMadeAgain) {
  NEEDS_FAILPOINTS();
  for (const char* name : {"channel.after_claim", "worker.mid_write", "channel.before_publish"}) {
    LoaderOptions o = options();
    o.batch_deadline = 200ms;
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

TEST_F(Faults, AllWorkersStoppedWhileIdle_AreReplacedWhenThereIsWork) {
  LoaderOptions o = options();
  o.batch_deadline = 200ms;
  Loader loader(o);
  for (int pid : loader.worker_pids()) ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_EQ(loader.stats().worker_deaths, 2);
}

TEST_F(Faults, WorkerWakesUpJustAsItIsKilled_NothingIsTorn) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.batch_deadline = 100ms;
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

TEST_F(Faults, WorkerThatLeavesAtStart_EndsInPeerDiedWithTheCause) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.num_workers = 1;
  o.max_worker_restarts = 2;
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
  o.start_deadline = 300ms;
  const Armed armed("worker.start=stop@1");
  const std::string error = error_of([&] { Loader loader(o); });
  EXPECT_NE(error.find("timeout: sampling worker 0 was not ready within 300 ms"), std::string::npos) << error;
}

TEST_F(Faults, BatchThatKillsEveryWorker_EndsInPeerDiedWithTheCause) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.max_worker_restarts = 3;
  const Armed armed("worker.after_sample=kill@1");
  Loader loader(o);
  loader.begin_epoch(0);
  const std::string error = error_of([&] { loader.next(); });
  EXPECT_NE(error.find("peer died"), std::string::npos) << error;
  EXPECT_NE(error.find("was killed by signal 9 (Killed); 4 deaths in a row"), std::string::npos) << error;
  EXPECT_EQ(error_of([&] { loader.next(); }), error);
}

TEST_F(Faults, ProgramThatIsNoWorker_EndsInPeerDied) {
  LoaderOptions o = options();
  o.worker_program = "/bin/true";
  o.max_worker_restarts = 1;
  EXPECT_NE(error_of([&] { Loader loader(o); }).find("left with exit code 0; 2 deaths in a row"),
            std::string::npos);
}

TEST_F(Faults, ErrorInOneBatch_ComesInItsTurnAndTheNextEpochIsWhole) {
  NEEDS_FAILPOINTS();
  LoaderOptions o = options();
  o.num_workers = 1;
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

// ---- the loader's process dies

class TrainerDies : public Faults {
 protected:
  static std::vector<std::string> trainer(const std::string& epochs) {
    return {testing::program("hopfeed-sample"),
            path(1).string(),
            "--fanouts",
            "4,3",
            "--batch-size",
            "16",
            "--num-workers",
            "2",
            "--channel-size",
            "8M",
            "--epochs",
            epochs};
  }
  /// Waits for the workers of a trainer.
  static std::vector<int> workers_of(int pid) {
    std::vector<int> workers;
    while ((workers = testing::children_of(pid)).size() < 2) std::this_thread::sleep_for(2ms);
    return workers;
  }
};

TEST_F(TrainerDies, KilledWhileItHoldsASlot_ItsWorkersAreGoneWithinASecond) {
  testing::BackgroundProgram program(trainer("1000000"));
  program
      .read_line();  // it runs; now nobody reads, the pipe fills up, and it blocks with a batch in its hands
  const std::vector<int> workers = workers_of(program.pid());
  std::this_thread::sleep_for(300ms);
  program.kill();
  EXPECT_TRUE(testing::all_gone(workers, 1s));
}

TEST_F(TrainerDies, KilledAtRandomMoments_NothingIsLeft) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20; ++i) {
    testing::BackgroundProgram program(trainer("1000000"));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    const std::vector<int> workers = testing::children_of(program.pid());
    program.kill();
    EXPECT_TRUE(testing::all_gone(workers, 1s));
  }
}

TEST_F(TrainerDies, KilledWhileAWorkerStartsOrHangs_NothingIsLeft) {
  NEEDS_FAILPOINTS();
  for (const char* where :
       {"worker.start=sleep:500@1", "worker.mid_write=stop@1", "channel.after_ask=sleep:60000@1"}) {
    testing::BackgroundProgram program(trainer("1000000"), {std::string("HOPFEED_FAIL=") + where});
    const std::vector<int> workers = workers_of(program.pid());
    std::this_thread::sleep_for(100ms);
    program.kill();
    EXPECT_TRUE(testing::all_gone(workers, 1s)) << where;
  }
}

TEST_F(TrainerDies, LauncherKilled_WorkersLeaveWithTheTrainer) {
  // The launcher's death closes the trainer's output, which ends the trainer, which ends its workers.
  std::string command;
  for (const std::string& word : trainer("1000000")) command += word + " ";
  testing::BackgroundProgram launcher({"/bin/sh", "-c", command + "; true"});
  launcher.read_line();
  const std::vector<int> trainers = testing::children_of(launcher.pid());
  ASSERT_EQ(trainers.size(), 1U);
  std::vector<int> all = workers_of(trainers[0]);
  all.push_back(trainers[0]);
  launcher.kill();
  launcher.close_stdout();
  EXPECT_TRUE(testing::all_gone(all, 1s));
}

TEST_F(TrainerDies, LoaderMadeByAThreadThatEnds_KeepsItsWorkers) {
  const LoaderOptions o = options();
  std::unique_ptr<Loader> loader;
  std::thread([&] { loader = std::make_unique<Loader>(o); }).join();
  EXPECT_EQ(loaded(*loader), expected(o));
  EXPECT_EQ(loader->stats().worker_deaths, 0)
      << "the kernel's death signal goes by the thread that started them";
}

}  // namespace
}  // namespace hopfeed
