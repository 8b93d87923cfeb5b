// hetero_classification as a user starts it, on a tiny typed graph: alone, as two trainers, interrupted, and
// with bad input.
#include <signal.h>

#include <thread>

#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/hetero_sage.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class HeteroProgram : public testing::WatchedTest<150> {
 protected:
  HeteroProgram() {
    at::set_num_threads(1);
    const testing::TypedGraph graph = testing::typed_training_graph();
    testing::write_typed_dataset(typed_, graph, testing::random_typed_cut(graph, 2, 1));
    testing::write_typed_dataset(papers_, {.nodes = {graph.nodes[0]}, .edges = {graph.edges[0]}});
  }
  std::vector<std::string> command(std::vector<std::string> more) const {
    std::vector<std::string> words{program("hetero_classification"), "--data", typed_.string(), "--hidden",
                                   "16"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  TrainingOptions options(const std::string& out) const {
    TrainingOptions result = testing::small_training(typed_.string());
    result.loader.batch.edge_fanouts = {{"cites", {2, 2}}, {"rev_in", {1, 0}}};
    result.out = folder_.path() / out;
    result.epochs = 3;
    result.checkpoint_every = 2;
    return result;
  }

  TempFolder folder_;
  std::filesystem::path typed_ = folder_.path() / "typed", papers_ = folder_.path() / "papers";
};

TEST_F(HeteroProgram, TwoTrainersLeaveModelsTableAndSummaryOfAllThreeModels) {
  const std::filesystem::path out = folder_.path() / "out";
  const auto results =
      trainer_tests::run_ranks(command({"--homogeneous", papers_.string(), "--homogeneous-fanouts", "4,3",
                                        "--fanouts", "4,3", "--edge-fanouts", "cites=2,2;rev_in=1,0",
                                        "--batch-size", "20", "--epochs", "8", "--out", out.string()}),
                               2);
  for (const ProgramResult& result : results) ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json summary = read_json(out / "summary.json");
  for (const char* prefix : {"", "homogeneous_", "baseline_"}) {
    for (const char* key : {"test_accuracy", "valid_accuracy", "epochs", "epoch_seconds"})
      EXPECT_TRUE(summary.contains(std::string(prefix) + key)) << prefix << key;
  }
  EXPECT_EQ(summary["trainers"], 2);
  EXPECT_EQ(summary["epochs"], 8);
  EXPECT_EQ(summary["options"]["edge_fanouts"]["cites"], (std::vector<int>{2, 2}));
  EXPECT_LT(summary["epoch_rows"][7]["loss"], summary["epoch_rows"][0]["loss"]);
  EXPECT_GT(summary["test_accuracy"], summary["baseline_test_accuracy"])
      << "authors say more than the features";
  for (const char* title : {"HeteroSage", "GraphSAGE", "features alone"})
    EXPECT_NE(results[0].output.find(title), std::string::npos) << results[0].output;
  for (const char* file : {"model.pt", "homogeneous.pt", "baseline.pt", "model.checkpoint"})
    EXPECT_TRUE(std::filesystem::exists(out / file)) << file;
}

// Authors tell the class and the features hint at it: blind for authors, the model is worth less.
TEST_F(HeteroProgram, TheTableShowsTheModelWithoutSomeEdgeTypes) {
  const std::filesystem::path out = folder_.path() / "blind";
  const ProgramResult result = run_program(command(
      {"--no-baseline", "--without", "writes,paper__rev_writes__author", "--fanouts", "4,3", "--edge-fanouts",
       "author__writes__paper=5,5", "--batch-size", "20", "--epochs", "8", "--out", out.string()}));
  ASSERT_EQ(result.status, 0) << result.output;
  EXPECT_NE(result.output.find("\nwithout writes,"), std::string::npos) << result.output;
  const nlohmann::json summary = read_json(out / "summary.json");
  EXPECT_LT(summary["without_valid_accuracy"], summary["valid_accuracy"]);
  EXPECT_EQ(summary["options"]["edge_fanouts"].size(), 1U) << "of the model that the run is about";
  EXPECT_TRUE(std::filesystem::exists(out / "without.pt"));
}

TEST_F(HeteroProgram, ATraceHoldsAllTrainersAndTheirWorkers) {
  expect_trace_of_two_trainers(command({"--homogeneous", papers_.string(), "--homogeneous-fanouts", "4,3",
                                        "--fanouts", "4,3", "--batch-size", "20", "--epochs", "2"}),
                               folder_.path() / "trace", {"baseline", "homogeneous", "model"});
}

// F35: the model that is being trained stops behind its step; resumed, the run ends as if nothing had been.
TEST_F(HeteroProgram, SigintAmidARun_TheCheckpointStandsAndIsGoneOnFrom) {
  const auto run = [&](const std::string& out) {
    return command({"--no-baseline", "--fanouts", "4,3", "--batch-size", "20", "--epochs", "25", "--out",
                    (folder_.path() / out).string(), "--resume"});
  };
  ASSERT_EQ(run_program(run("whole")).status, 0);
  const std::filesystem::path out = folder_.path() / "stopped";
  const std::string mark = testing::new_mark();
  std::vector<std::string> quietly{"/bin/sh", "-c", "exec \"$@\" 2> " + (folder_.path() / "errors").string(),
                                   "sh"};
  const std::vector<std::string> words = run("stopped");
  quietly.insert(quietly.end(), words.begin(), words.end());
  testing::BackgroundProgram stopped(quietly, {mark});
  while (!std::filesystem::exists(out / "model.checkpoint")) std::this_thread::sleep_for(1ms);
  stopped.signal(SIGINT);
  EXPECT_EQ(stopped.wait(60s), 130);
  EXPECT_TRUE(testing::none_marked(mark, 20s));
  EXPECT_FALSE(std::filesystem::exists(out / "summary.json"));
  ASSERT_EQ(run_program(words).status, 0);
  const nlohmann::json whole = read_json(folder_.path() / "whole" / "summary.json"),
                       again = read_json(out / "summary.json");
  EXPECT_EQ(again["test_accuracy"], whole["test_accuracy"]);
  EXPECT_EQ(epoch_losses(again), epoch_losses(whole));
}

TEST_F(HeteroProgram, OneTrainerAndTwoWithBatchesOfHalfTheSizeHaveEqualLosses) {
  const auto losses = [&](int trainers, const std::string& batch_size) {
    const std::filesystem::path json = folder_.path() / (batch_size + ".json");
    const auto results = trainer_tests::run_ranks(
        command({"--no-baseline", "--fanouts", "-1,-1", "--dropout", "0", "--batch-size", batch_size,
                 "--epochs", "4", "--json", json.string()}),
        trainers);
    for (const ProgramResult& result : results) EXPECT_EQ(result.status, 0) << result.output;
    return epoch_losses(read_json(json));
  };
  const std::vector<double> one = losses(1, "40"), two = losses(2, "20");
  ASSERT_EQ(one.size(), 4U);
  ASSERT_EQ(two.size(), 4U);
  for (std::size_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_NEAR(one[epoch], two[epoch], 1e-3 * one[epoch]) << epoch;
}

TEST_F(HeteroProgram, ARunThatWasInterruptedAnywhere_EndsLikeTheOthersToTheLastBit) {
  World world;
  const TrainingResult whole = train(world, options("whole"));
  for (const int stop : {1, 7, 8, 9, 20}) {  // 8 steps an epoch
    TrainingOptions again = options("stopped" + std::to_string(stop));
    EXPECT_THROW(train(world, again, testing::interrupting(stop)), testing::Interruption);
    again.resume = Resume::kAlways;
    const TrainingResult result = train(world, again);
    ASSERT_EQ(result.rows.size(), whole.rows.size());
    for (std::size_t i = 0; i < whole.rows.size(); ++i)
      EXPECT_EQ(result.rows[i].loss, whole.rows[i].loss) << stop;
    EXPECT_EQ(testing::parameter_digest(result.model), testing::parameter_digest(whole.model)) << stop;
  }
  TrainingOptions other = options("stopped1");
  other.resume = Resume::kAlways;
  other.loader.batch.edge_fanouts["cites"] = {2, 1};
  try {
    train(world, other);
    FAIL() << "other edge fanouts were taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("edge_fanouts"), std::string::npos) << error.what();
  }
}

TEST_F(HeteroProgram, RowsOfNodesThatNoBatchReachesKeepTheirValues) {
  World world;
  TrainingOptions decaying = options("decaying");
  decaying.weight_decay = 0.5;
  const auto rows = [](const std::shared_ptr<NodeClassifier>& model) {
    const torch::NoGradGuard no_gradients;
    DistEmbedding learned = model->learned_rows(1);
    return learned->forward(torch::arange(learned->table().options().rows));
  };
  const torch::Tensor before = rows(make_model(decaying, Dataset(typed_).meta())),
                      after = rows(train(world, decaying).model);
  EXPECT_TRUE(torch::equal(before[-1], after[-1]));
  EXPECT_FALSE(torch::equal(before[0], after[0]));
}

TEST_F(HeteroProgram, BadInputIsOneLineThatNamesIt) {
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& what) {
    hopfeed::expect_refused(run_program(command(std::move(more))), "hetero_classification", what);
  };
  expect_refused({"--edge-fanouts", "edits=3,2", "--no-baseline"}, "edits");
  expect_refused({"--edge-fanouts", "cites=3", "--no-baseline"}, "cites");
  expect_refused({"--edge-fanouts", "cites"}, "cites");
  expect_refused({"--fanouts", ""}, "--fanouts");
  expect_refused({"--without", "edits"}, "edits");
  expect_refused({"--node-type", "journal"}, "journal");
  expect_refused({"--node-type", "author", "--no-baseline"}, "author");
  expect_refused({"--homogeneous", (folder_.path() / "nowhere").string()}, "nowhere");
  testing::TypedGraph other = testing::typed_training_graph();
  std::swap(other.nodes[0].splits["test"][0], other.nodes[0].splits["test"][1]);
  testing::write_typed_dataset(papers_, {.nodes = {other.nodes[0]}, .edges = {other.edges[0]}});
  expect_refused({"--homogeneous", papers_.string()}, "split 'test'");
}

// As docs/examples.md has it. Rows that are learned hold a batch until they step.
TEST_F(HeteroProgram, ALoopOfOnesOwn_LearnsRowsToo) {
  World world;
  const LocalStreams source(typed_);
  const BatchOptions options{.fanouts = {4, 3}};
  const auto loader =
      source.open({.batch = options, .seed = 1, .deal = {.batch_size = 20}, .execution = {.num_workers = 1}});
  const DatasetMeta& meta = loader->meta();
  HeteroSage model(HeteroOptions{.dataset = meta, .batch = options, .hidden = 16});
  torch::optim::Adam adam(model->parameters(), 0.01);
  std::vector<double> losses;
  for (int epoch = 0; epoch < 4; ++epoch) {
    loader->begin_epoch(epoch);
    losses.push_back(0);
    while (auto batch = loader->next()) {
      const TypedBatchTensors tensors = to_typed_tensors(*batch, meta);
      const torch::Tensor loss = torch::nn::functional::cross_entropy(
          tensors.at_seeds(model->forward(tensors)), tensors.at_seeds(tensors.node("paper").y),
          torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
      adam.zero_grad();
      loss.backward();
      adam.step();
      model->step_learned_rows(world);
      losses.back() += loss.item<double>();
    }
  }
  EXPECT_LT(losses.back(), losses.front());
  EXPECT_GT(model->learned_rows(meta.node_type("author"))->table().num_learned(), 0);
}

TEST_F(HeteroProgram, ALoopOfGraphSage_IsToldWhichModelTakesSeveralTypes) {
  expect_refused(run_program({program("own_training_loop"), typed_.string()}), "own_training_loop",
                 "GraphSAGE takes graphs of one node and one edge type; HeteroSage takes others");
}

}  // namespace
}  // namespace hopfeed
