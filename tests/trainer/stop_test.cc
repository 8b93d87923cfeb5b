// Runs that are ended from outside: docs/faults.md, F5 (the launcher dies) and F35 (a signal asks for the
// end). Real node_classification processes with their workers, found by a mark in their environment.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/training_options.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::BackgroundProgram;
using testing::new_mark;
using testing::none_marked;

class Stop : public testing::WatchedTest<280> {
 protected:
  Stop() { testing::write_tiny_dataset(data_, testing::training_graph()); }
  void SetUp() override { before_ = testing::Leftovers::now(); }
  void TearDown() override { EXPECT_EQ(testing::Leftovers::now(), before_); }
  std::filesystem::path out(const std::string& name) const { return folder_.path() / name; }
  std::vector<std::string> training(const std::string& name, const std::string& epochs) const {
    return {testing::program("node_classification"),
            "--data",
            data_.string(),
            "--fanouts",
            "4,3",
            "--batch-size",
            "25",
            "--hidden",
            "16",
            "--no-baseline",
            "--seed",
            "3",
            "--epochs",
            epochs,
            "--out",
            out(name).string(),
            "--resume"};
  }
  /// Bars and complaints go into a file, and not among the lines of the tests.
  std::vector<std::string> quietly(const std::vector<std::string>& command) const {
    std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" 2>> " + (folder_.path() / "errors").string(),
                                   "sh"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// Losses and accuracies of all epochs, and the exact ones.
  nlohmann::json figures(const std::string& name) const {
    std::ifstream file(out(name) / "summary.json");
    const nlohmann::json summary = nlohmann::json::parse(file);
    nlohmann::json figures = {summary["train_accuracy"], summary["test_accuracy"]};
    for (const nlohmann::json& row : summary["epoch_rows"])
      figures.push_back({row["loss"], row["sampled_valid_accuracy"], row["batches"]});
    return figures;
  }
  static void wait_for_processes(const std::string& mark, std::size_t count) {
    while (testing::marked(mark).size() < count) std::this_thread::sleep_for(10ms);
  }

  testing::Leftovers before_;
  testing::TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data";
};

// F35
TEST_F(Stop, SignalsAtRandomMoments_TheCheckpointStandsAndTheLastRunEndsAsIfNothingHadBeen) {
  const std::uint32_t seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  const std::string epochs = "300";
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(trainer_tests::run_program(training("whole", epochs)).status, 0);
  // Five signals within a tenth of the run each: on a machine of any speed they come before its end.
  std::chrono::duration<double, std::milli> tenth = (std::chrono::steady_clock::now() - begun) / 10;
  int stops = 0, code = -1;
  for (int i = 0; i < 40 && code != 0; ++i) {
    const std::string mark = new_mark();
    BackgroundProgram program(quietly(training("stopped", epochs)), {mark});
    wait_for_processes(mark, 2);
    std::this_thread::sleep_for(tenth * std::generate_canonical<double, 32>(random));
    if (stops < 5) program.signal(std::array{SIGINT, SIGTERM, SIGHUP}[random() % 3]);
    code = program.wait(200s);
    EXPECT_TRUE(code == 0 || code == 130) << code;
    EXPECT_TRUE(none_marked(mark, 20s));
    stops += code == 130;
    if (code != 0 || stops > 2) continue;
    // It has become faster since: once more from the start, with signals that come sooner.
    std::filesystem::remove_all(out("stopped"));
    tenth /= 4;
    stops = 0;
    code = -1;
  }
  EXPECT_EQ(code, 0);
  EXPECT_GT(stops, 2);
  EXPECT_EQ(figures("stopped"), figures("whole"));
}

// F35: the wish travels with the sums, so no trainer waits for one that has left.
TEST_F(Stop, OneOfTwoTrainersIsAsked_BothEndBehindTheSameStep) {
  const std::string port = std::to_string(trainer_tests::free_port());
  const auto rank = [&](const char* number) {
    return std::vector<std::string>{std::string("RANK=") + number,
                                    std::string("LOCAL_RANK=") + number,
                                    "WORLD_SIZE=2",
                                    "LOCAL_WORLD_SIZE=2",
                                    "MASTER_ADDR=127.0.0.1",
                                    "MASTER_PORT=" + port};
  };
  const std::string mark = new_mark();
  std::vector<std::string> first = rank("0"), second = rank("1");
  first.push_back(mark);
  second.push_back(mark);
  BackgroundProgram a(quietly(training("two", "1000000")), first),
      b(quietly(training("two", "1000000")), second);
  while (!std::filesystem::exists(out("two") / "model.checkpoint"))
    std::this_thread::sleep_for(10ms);  // an epoch is over
  b.signal(SIGTERM);
  EXPECT_EQ(b.wait(60s), 130);
  EXPECT_EQ(a.wait(60s), 130);
  EXPECT_TRUE(none_marked(mark, 20s));
  for (const auto& entry : std::filesystem::directory_iterator(out("two")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
}

// F5: torchrun cannot tell anybody that it is killed; its output stays open.
TEST_F(Stop, TorchrunKilled_TrainersAndWorkersAreGone) {
  const std::string mark = new_mark();
  std::vector<std::string> command{
      HOPFEED_TEST_PYTHON,     "-m",
      "torch.distributed.run", "--no-python",
      "--nproc-per-node=2",    "--master-port=" + std::to_string(trainer_tests::free_port())};
  for (const std::string& word : training("orphans", "1000000")) command.push_back(word);
  BackgroundProgram torchrun(quietly(command), {mark, "OMP_NUM_THREADS=1"});
  while (!std::filesystem::exists(out("orphans") / "model.checkpoint")) std::this_thread::sleep_for(10ms);
  EXPECT_GE(testing::marked(mark).size(), 7u)
      << "torchrun, two trainers, a worker for each of their two loaders";
  const auto killed = std::chrono::steady_clock::now();
  torchrun.kill();
  EXPECT_TRUE(none_marked(mark, 60s));
  std::printf("all gone after %.2f s\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - killed).count());
}

}  // namespace
}  // namespace hopfeed
