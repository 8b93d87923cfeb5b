// Runs into a folder where an earlier run has left its checkpoints, which are started again before they have
// any of their own: by torchrun, by hopfeed-launch and by hand.
#include <fstream>

#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/taste_graph.h"

namespace hopfeed {
namespace {

using Words = std::vector<std::string>;
using Environment = trainer_tests::EnvironmentVariables;

class EarlierRun : public testing::WatchedTest<280> {
 protected:
  EarlierRun() { testing::write_tiny_dataset(data_, testing::training_graph()); }

  Words nodes(const Words& more) const {
    Words words{program("node_classification"),
                "--data",
                data_.string(),
                "--fanouts",
                "4,3",
                "--batch-size",
                "25",
                "--hidden",
                "16",
                "--out",
                out_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// A run that has ended, of an epoch more than the others, by which its figures are told from theirs.
  void earlier(const Words& command) {
    ASSERT_EQ(run_program(command).status, 0);
    std::ofstream(mark_) << "what is newer is of another run";
  }
  /// A start that is killed as soon as there is a file that the earlier run has not made; `file` empty: at
  /// once.
  Words killed_behind(const std::string& file, const Words& command) const {
    const std::string wait = file.empty()
                                 ? ""
                                 : "until test " + (out_ / file).string() + " -nt " + mark_.string() +
                                       "; do sleep 0.01; kill -0 $p || exit 9; done;";
    Words words{"/bin/sh", "-c",
                file.empty() ? "exit 1" : "\"$@\" & p=$!; " + wait + " kill -9 $p; wait $p; exit 1", "sh"};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }
  /// By torchrun: the first start is killed so, the second is not.
  ProgramResult torchrun(int trainers, const std::string& killed_behind_file, const Words& command) const {
    const Words killed = killed_behind(killed_behind_file, {});
    Words words{HOPFEED_TEST_PYTHON,
                "-m",
                "torch.distributed.run",
                "--no-python",
                "--nproc-per-node=" + std::to_string(trainers),
                "--max-restarts=1",
                "--monitor-interval=0.1",
                "--master-port=" + std::to_string(trainer_tests::free_port()),
                "/bin/sh",
                "-c",
                "if test $TORCHELASTIC_RESTART_COUNT$RANK = 00; then " + killed[2] + "; fi; exec \"$@\"",
                "sh"};
    words.insert(words.end(), command.begin(), command.end());
    return run_program(words, {{"OMP_NUM_THREADS", "1"}}, 150);
  }
  void expect_epochs(std::size_t epochs) const {
    const nlohmann::json summary = read_json(out_ / "summary.json");
    EXPECT_EQ(summary["baseline_epoch_rows"].size(), epochs);
    EXPECT_EQ(summary["epoch_rows"].size(), epochs) << "these are the earlier run's";
  }
  static std::size_t count(const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
    return found;
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data", out_ = folder_.path() / "out",
                        mark_ = folder_.path() / "mark";
};

TEST_F(EarlierRun, KilledInTheFirstModel_TheRestartTrainsTheSecondItself) {
  earlier(nodes({"--epochs", "21"}));
  const ProgramResult result = torchrun(2, "baseline.checkpoint", nodes({"--epochs", "20"}));
  ASSERT_EQ(result.status, 0) << result.output;
  expect_epochs(20);
  EXPECT_TRUE(std::filesystem::exists(out_ / "model.checkpoint.old"));
}

TEST_F(EarlierRun, WithOtherOptions_ARestartIsNotRefusedForThem) {
  earlier(nodes({"--epochs", "4", "--lr", "0.01"}));
  const ProgramResult result = torchrun(1, "baseline.checkpoint", nodes({"--epochs", "20", "--lr", "0.02"}));
  ASSERT_EQ(result.status, 0) << result.output;
  expect_epochs(20);
}

TEST_F(EarlierRun, KilledBeforeItHasLooked_TheRestartBeginsAfresh) {
  for (const int trainers : {1, 2}) {
    std::filesystem::remove_all(out_);
    earlier(nodes({"--epochs", "4"}));
    const ProgramResult result = torchrun(trainers, "", nodes({"--epochs", "3"}));
    ASSERT_EQ(result.status, 0) << result.output;
    expect_epochs(3);
  }
}

TEST_F(EarlierRun, KilledInTheLastModel_TheRestartGoesOn) {
  earlier(nodes({"--epochs", "4"}));
  for (const int trainers : {1, 2}) {
    const ProgramResult result = torchrun(trainers, "model.checkpoint", nodes({"--epochs", "30"}));
    ASSERT_EQ(result.status, 0) << result.output;
    expect_epochs(30);
    EXPECT_EQ(count(result.output, "features alone epoch 0/29 "), 1U) << "it was trained twice";
    std::ofstream(mark_) << "again";
  }
}

// hopfeed-launch names a run, and counts its starts.
TEST_F(EarlierRun, BegunAgainByALauncher_ItTakesItsOwnCheckpointsAlone) {
  std::string run = "0123456789abcdef";
  const auto started = [&](const std::string& again, const Words& command) {
    return run_program(command, {{"HOPFEED_RESTART", again}, {"HOPFEED_RUN", run}});
  };
  earlier(nodes({"--epochs", "21"}));
  EXPECT_EQ(started("0", killed_behind("", nodes({"--epochs", "20"}))).status, 1);
  EXPECT_EQ(started("1", killed_behind("baseline.checkpoint", nodes({"--epochs", "20"}))).status, 1);
  const ProgramResult second = started("2", nodes({"--epochs", "20"}));
  ASSERT_EQ(second.status, 0) << second.output;
  expect_epochs(20);
  EXPECT_EQ(count(second.output, "features alone epoch 0/"), 0U) << "it goes on from its checkpoint";
  run = "fedcba9876543210";
  const ProgramResult another = started("1", nodes({"--epochs", "3"}));
  ASSERT_EQ(another.status, 0) << another.output;
  expect_epochs(3);
}

// --resume takes what there is; so nothing of an earlier run may be left.
TEST_F(EarlierRun, KilledInTheFirstModelAndResumedByHand_ItTrainsTheSecondItself) {
  earlier(nodes({"--epochs", "21"}));
  EXPECT_EQ(run_program(killed_behind("baseline.checkpoint", nodes({"--epochs", "20"}))).status, 1);
  ASSERT_EQ(run_program(nodes({"--epochs", "20", "--resume"})).status, 0);
  expect_epochs(20);
}

TEST_F(EarlierRun, LinkModelsLikewise) {
  const testing::TypedGraph graph = testing::taste_graph();
  testing::write_typed_dataset(folder_.path() / "tastes", graph, testing::random_typed_cut(graph, 2, 1));
  const auto links = [&](const Words& more) {
    Words words{program("link_prediction"),
                "--data",
                (folder_.path() / "tastes").string(),
                "--edge-type",
                "listens",
                "--hidden",
                "16",
                "--batch-size",
                "100",
                "--fanouts",
                "4,3",
                "--out",
                out_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  earlier(links({"--epochs", "11"}));
  const ProgramResult result = torchrun(1, "baseline.checkpoint", links({"--epochs", "10"}));
  ASSERT_EQ(result.status, 0) << result.output;
  expect_epochs(10);
}

}  // namespace
}  // namespace hopfeed
