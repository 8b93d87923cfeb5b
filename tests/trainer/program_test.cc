// node_classification and own_training_loop as a user starts them: what they leave behind, and what they say
// to bad input.
#include <iterator>
#include <limits>
#include <regex>
#include <tuple>

#include "tests/support/sharded_ids.h"
#include "tests/trainer/program_fixture.h"

namespace hopfeed {
namespace {

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { testing::write_tiny_dataset(data_, testing::training_graph()); }

  ProgramResult node_classification(std::vector<std::string> more,
                                    const trainer_tests::EnvironmentVariables& environment = {}) const {
    std::vector<std::string> command{program("node_classification"), "--data", data_.string()};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, environment);
  }
  /// A run of a second.
  ProgramResult small_run(std::vector<std::string> more) const {
    more.insert(more.end(), {"--fanouts", "4,3", "--batch-size", "50", "--hidden", "16", "--epochs", "3"});
    return node_classification(std::move(more));
  }
  static void expect_refused(const ProgramResult& result, const std::string& what) {
    hopfeed::expect_refused(result, "node_classification", what);
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data";
};

TEST_F(ProgramTest, ARunLeavesModelCheckpointAndSummary) {
  const std::filesystem::path out = folder_.path() / "out", copy = folder_.path() / "copy.json";
  const ProgramResult result = small_run({"--out", out.string(), "--json", copy.string()});
  ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json summary = read_json(out / "summary.json");
  for (const char* key : {"test_accuracy", "valid_accuracy", "baseline_test_accuracy", "epochs",
                          "epoch_seconds", "batches_per_s", "trainer_wait_fraction"}) {
    EXPECT_TRUE(summary.contains(key) && summary[key].is_number()) << key;
  }
  EXPECT_EQ(summary["epochs"], 3);
  EXPECT_EQ(summary["epoch_rows"].size(), 3u);
  EXPECT_EQ(summary, read_json(copy));
  EXPECT_TRUE(std::filesystem::exists(out / "model.pt"));
  EXPECT_TRUE(std::filesystem::exists(out / "model.checkpoint"));
  EXPECT_NE(result.output.find("GraphSAGE"), std::string::npos);
  EXPECT_NE(result.output.find("features alone"), std::string::npos);
  // "loss 0.6145, valid 0.7900; waiting for sampling 12%", or "no waiting for batches"
  const std::regex line("loss [0-9.]+, valid [0-9.]+; (no )?waiting for ");
  EXPECT_EQ(std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), line), {}), 6)
      << "three epochs of each model";
}

TEST_F(ProgramTest, TrainersOfTheirPartitionsSeeds_LoseTheSameWithShardedIds) {
  const testing::TinyGraph graph = testing::training_graph();
  std::vector<std::vector<double>> losses;
  for (const bool sharded : {false, true}) {
    const std::filesystem::path cut = folder_.path() / (sharded ? "sharded" : "replicated"),
                                out = cut.string() + "-out";
    testing::write_tiny_dataset(cut, graph, testing::random_cut(graph, 2, 5));
    if (sharded) testing::shard_ids(cut);
    testing::BackgroundProgram other(
        {program("hopfeed-server"), "--data", cut.string(), "--listen", "127.0.0.1:0", "--partitions", "1"});
    const std::string line = other.read_line();
    const std::vector<ProgramResult> ranks = trainer_tests::run_ranks({program("node_classification"),
                                                                       "--data",
                                                                       cut.string(),
                                                                       "--partitions",
                                                                       "0",
                                                                       "--peers",
                                                                       line.substr(line.rfind(' ') + 1),
                                                                       "--deal",
                                                                       "local",
                                                                       "--fanouts",
                                                                       "4,3",
                                                                       "--batch-size",
                                                                       "50",
                                                                       "--hidden",
                                                                       "16",
                                                                       "--epochs",
                                                                       "3",
                                                                       "--no-baseline",
                                                                       "--out",
                                                                       out.string()},
                                                                      2);
    for (const ProgramResult& result : ranks) ASSERT_EQ(result.status, 0) << result.output;
    EXPECT_NE(ranks[0].output.find("exact accuracies need --results, a folder"), std::string::npos)
        << ranks[0].output;
    losses.push_back(epoch_losses(read_json(out / "summary.json")));
  }
  EXPECT_EQ(losses[0].size(), 3U);
  EXPECT_EQ(losses[1], losses[0]);
}

TEST_F(ProgramTest, WithoutHopsOnlyTheFeaturesAreUsed) {
  const std::filesystem::path json = folder_.path() / "alone.json";
  const ProgramResult result = small_run({"--hops", "0", "--json", json.string()});
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_FALSE(read_json(json).contains("baseline_test_accuracy"));
}

TEST_F(ProgramTest, BadInputIsOneLineThatNamesIt) {
  expect_refused(node_classification({"--colour", "blue"}), "--colour");
  expect_refused(node_classification({"--fanouts", "4,x"}), "x");
  expect_refused(node_classification({"--fanouts", "-2,3"}), "fanout");
  expect_refused(node_classification({"--hops", "4"}), "--hops");
  expect_refused(node_classification({"--dropout", "1.5"}), "dropout");
  expect_refused(node_classification({"--epochs", "0"}), "epochs");
  expect_refused(node_classification({"--backend", "mpi"}), "mpi");
  expect_refused(node_classification({"--cores", "4000"}), "4000");
  expect_refused(run_program({program("node_classification")}), "--data");
  expect_refused(
      run_program({program("node_classification"), "--data", (folder_.path() / "nowhere").string()}),
      "nowhere");
}

TEST_F(ProgramTest, AnOutputFolderThatCannotBe_IsOneLine) {
  expect_refused(small_run({"--out", "/etc/passwd"}), "--out: cannot make the folder /etc/passwd");
  expect_refused(small_run({"--out", "/etc/passwd/deeper"}), "/etc/passwd/deeper");
  expect_refused(small_run({"--resume"}), "output folder");
}

TEST_F(ProgramTest, SplitsThatAreMissing_HaveNoAccuracy) {
  testing::TinyGraph graph = testing::training_graph();
  graph.splits.erase("test");
  graph.splits.erase("valid");
  testing::write_tiny_dataset(data_, graph);
  const std::filesystem::path json = folder_.path() / "summary.json";
  const ProgramResult result = small_run({"--no-baseline", "--json", json.string()});
  ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json summary = read_json(json);
  EXPECT_TRUE(summary.contains("train_accuracy"));
  EXPECT_FALSE(summary.contains("test_accuracy"));
  EXPECT_FALSE(summary.contains("valid_accuracy"));
  EXPECT_NE(result.output.find("        -        -"), std::string::npos) << result.output;
}

TEST_F(ProgramTest, WithoutATorchrunEnvironmentMoreTrainersAreRefused) {
  expect_refused(node_classification({"--trainers", "2"}), "no torchrun environment");
  expect_refused(node_classification({}, {{"RANK", "0"}}), "WORLD_SIZE is not set");
}

TEST_F(ProgramTest, ADamagedCheckpointIsNamedAndLeftAlone) {
  const std::filesystem::path out = folder_.path() / "out", checkpoint = out / "model.checkpoint";
  ASSERT_EQ(small_run({"--no-baseline", "--out", out.string()}).status, 0);
  std::filesystem::resize_file(checkpoint, 1'000);
  expect_refused(small_run({"--no-baseline", "--out", out.string(), "--resume"}), "model.checkpoint");
  EXPECT_EQ(std::filesystem::file_size(checkpoint), 1'000u);
}

TEST_F(ProgramTest, ResumedWithOtherOptions_ItNamesTheOptionAndBothValues) {
  const std::filesystem::path out = folder_.path() / "out";
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--no-baseline", "--out", out.string()});
    return small_run(std::move(more));
  };
  ASSERT_EQ(run({}).status, 0);
  for (const auto& [option, value, told] :
       {std::tuple{"--validate", "exact", "--validate sampled, this run has exact"},
        {"--lr", "0.02", "--lr 0.01, this run has 0.02"},
        {"--weight-decay", "0.5", "--weight-decay 1e-05, this run has 0.5"},
        {"--precision", "bf16", "--precision float32, this run has bf16"},
        {"--deal", "local", "--deal even, this run has local"}}) {
    expect_refused(run({option, value, "--resume"}), std::string("model.checkpoint' was made with ") + told +
                                                         "; use the same, or start afresh without resuming");
  }
  ASSERT_EQ(run({"--validate", "exact"}).status, 0);
  expect_refused(run({"--resume"}), "--validate exact, this run has sampled");
  EXPECT_EQ(run({"--validate", "exact", "--resume"}).status, 0);
}

TEST_F(ProgramTest, OptionsThatWouldChangeNothing_AreRefused) {
  expect_refused(small_run({"--checkpoint-every", "2"}), "--checkpoint-every needs --out");
  expect_refused(small_run({"--keep", "2"}), "--keep needs --out");
  expect_refused(small_run({"--memory", "1G"}), "--memory goes with --infer");
  expect_refused(small_run({"--results", (folder_.path() / "layers").string()}),
                 "--results goes with --infer, or with exact accuracies over several machines (--peers)");
}

// Else it would be as good as one that says class 0 of each node.
TEST_F(ProgramTest, AModelThatGivesNaN_IsNeverRight_AndTheLossIsToldOnce) {
  testing::TinyGraph graph = testing::training_graph();
  graph.x.assign(graph.x.size(), std::numeric_limits<float>::quiet_NaN());
  testing::write_tiny_dataset(data_, graph);
  const std::filesystem::path json = folder_.path() / "summary.json";
  const ProgramResult result = small_run({"--no-baseline", "--json", json.string()});
  ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json summary = read_json(json);
  for (const char* const split : {"train_accuracy", "valid_accuracy", "test_accuracy"})
    EXPECT_EQ(summary[split], 0) << split;
  for (const nlohmann::json& row : summary["epoch_rows"]) EXPECT_EQ(row["sampled_valid_accuracy"], 0);
  const std::regex line(
      "warning: the loss of 'model' is -?nan in epoch 0; lower --lr, or look for NaN and "
      "infinity in the features: --check-finite names the node, .*--reject-nonfinite");
  EXPECT_EQ(std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), line), {}), 1)
      << result.output;
}

TEST_F(ProgramTest, ATraceHoldsAllTrainersAndTheirWorkers) {
  expect_trace_of_two_trainers({program("node_classification"), "--data", data_.string(), "--fanouts", "4,3",
                                "--batch-size", "50", "--hidden", "16", "--epochs", "2"},
                               folder_.path() / "trace", {"baseline", "model"});
}

TEST_F(ProgramTest, TheOwnTrainingLoopRuns) {
  const ProgramResult result = run_program({program("own_training_loop"), data_.string()});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("test accuracy 0."), std::string::npos) << result.output;
}

}  // namespace
}  // namespace hopfeed
