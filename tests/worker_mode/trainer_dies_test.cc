// The process that a loader lives in comes to harm: docs/faults.md, F4 to F6 and F32. Whatever it had started
// is gone, and so is the memory.
#include <sys/wait.h>

#include <random>
#include <thread>

#include "tests/worker_mode/faults_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class TrainerDies : public Faults {
 protected:
  static std::vector<std::string> trainer() {
    return sample_command({"--num-workers", "2", "--channel-size", "8M", "--epochs", "1000000"});
  }
  /// A trainer that runs, and the mark that it and all that it starts carry.
  struct Running {
    std::string mark = testing::new_mark();
    testing::BackgroundProgram program;
    explicit Running(std::vector<std::string> environment = {},
                     const std::vector<std::string>& what = trainer())
        : program(what, with(std::move(environment), mark)) {}
    static std::vector<std::string> with(std::vector<std::string> environment, const std::string& mark) {
      environment.push_back(mark);
      return environment;
    }
    void wait_for_processes(std::size_t count) const {
      while (testing::marked(mark).size() < count) std::this_thread::sleep_for(2ms);
    }
    /// SIGKILL; true where all that it had started is gone soon after. The promise is a second; a loaded
    /// machine may need more, and what is told here is whether anything is left.
    bool nothing_is_left_after_kill() {
      program.kill();
      return testing::none_marked(mark, 20s);
    }
  };
};

// F4
TEST_F(TrainerDies, KilledWhileItHoldsASlot_ItsWorkersAreGone) {
  Running trainer;
  trainer.program
      .read_line();  // it runs; now nobody reads, the pipe fills up, and it blocks with a batch in its hands
  trainer.wait_for_processes(3);
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(trainer.nothing_is_left_after_kill());
}

// F4 with many slots in its hands at once; the workers have one left, filled, and wait.
TEST_F(TrainerDies, KilledWhileItHoldsSeveralViews_ItsWorkersAreGone) {
  for (const char* views : {"2", "9"}) {
    Running trainer({}, {testing::program("holding_trainer"), path(1).string(), views});
    EXPECT_EQ(trainer.program.read_line(), std::string(views) + " batches held");
    EXPECT_EQ(testing::marked(trainer.mark).size(), 3U);
    EXPECT_TRUE(trainer.nothing_is_left_after_kill()) << views;
  }
}

/// Files in a folder. ThreadSanitizer copies its own read-only data into a file there while a process starts,
/// and one that is killed in that instant leaves it behind; it is not ours.
std::vector<std::string> left_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("tsan.rodata.")) names.push_back(name);
  }
  return names;
}

// F6: by the mark in the environment, which a worker has that was spawned an instant before; no name, no
// file.
TEST_F(TrainerDies, KilledAtRandomMoments_NothingIsLeft) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const testing::TempFolder temporary;
  const int runs = testing::long_tests() ? 500 : 40;
  std::printf("%d runs (500 with HOPFEED_LONG_TESTS=1)\n", runs);
  for (int i = 0; i < runs; ++i) {
    Running trainer({"TMPDIR=" + temporary.path().string()});
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 60'000));
    ASSERT_TRUE(trainer.nothing_is_left_after_kill()) << "run " << i;
    ASSERT_EQ(left_in(temporary.path()), std::vector<std::string>{}) << "run " << i;
  }
}

// F6
TEST_F(TrainerDies, KilledWhileAWorkerStartsOrHangs_NothingIsLeft) {
  NEEDS_FAILPOINTS();
  for (const char* where :
       {"worker.start=sleep:500@1", "worker.mid_write=stop@1", "channel.after_ask=sleep:60000@1"}) {
    Running trainer({std::string("HOPFEED_FAIL=") + where});
    trainer.wait_for_processes(3);
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(trainer.nothing_is_left_after_kill()) << where;
  }
}

// F5, for a launcher that holds the trainer's output; torchrun is in tests/trainer.
TEST_F(TrainerDies, LauncherKilledAndItsPipeClosed_NothingIsLeft) {
  std::string command;
  for (const std::string& word : trainer()) command += word + " ";
  Running launcher({}, {"/bin/sh", "-c", command + "; true"});
  launcher.program.read_line();
  launcher.wait_for_processes(4);
  launcher.program.kill();
  launcher.program.close_stdout();
  EXPECT_TRUE(testing::none_marked(launcher.mark, 20s));
}

/// Runs `body` in a fork of this process; its exit code is the number of expectations that failed.
int failures_in_fork(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// F32: a fork has neither the loader's threads nor any right to its slots; it is told so, and the loader goes
// on.
TEST_F(TrainerDies, LoaderUsedInAFork_IsRefusedThereAndGoesOnHere) {
  const LoaderOptions o = options();
  std::optional<Loader> loader(o);
  loader->begin_epoch(0);
  std::vector<std::string> lines;
  std::optional<Batch> batch = loader->next();
  EXPECT_EQ(failures_in_fork([&] {
              const std::string error = error_of([&] { loader->next(); });
              const bool refused = error.find("make a loader in each process") != std::string::npos;
              const bool same = error_of([&] { loader->begin_epoch(1); }) == error;
              batch.reset();   // its slot stays held
              loader.reset();  // neither waits for the supervisor nor kills the workers
              return (refused ? 0 : 1) + (same ? 0 : 1);
            }),
            0);
  for (; batch; batch = loader->next()) lines.push_back(line_of(batch->view()));
  EXPECT_EQ(lines, expected(o));
  EXPECT_EQ(loader->stats().worker_deaths, 0);
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
