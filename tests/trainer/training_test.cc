// Whole training runs through the loader: interrupted ones must end like the others, bit by bit.
#include "trainer/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/processes.h"
#include "tests/trainer/training_options.h"
#include "trainer/model.h"

namespace hopfeed {
namespace {

using testing::parameter_digest;
using testing::program;
using testing::small_training;
using testing::TempFolder;
using trainer_tests::run_program;

class TrainingTest : public ::testing::Test {
 protected:
  TrainingTest() {
    at::set_num_threads(1);
    testing::write_tiny_dataset(data_, testing::training_graph());
  }
  TrainingOptions options(const std::string& out) const {
    TrainingOptions result = small_training(data_.string());
    result.out = folder_.path() / out;
    result.epochs = 3;
    result.checkpoint_every = 2;
    return result;
  }
  static std::vector<double> figures(const TrainingResult& result) {
    std::vector<double> values;
    for (const EpochRow& row : result.rows) values.insert(values.end(), {row.loss, row.valid_accuracy});
    return values;
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data";
  World world_;
};

TEST_F(TrainingTest, ARunThatWasInterruptedAnywhere_EndsLikeTheOthersToTheLastBit) {
  const TrainingResult whole = train(world_, options("whole"));
  ASSERT_EQ(whole.rows.size(), 3u);
  for (const int stop :
       {1, 7, 12, 13, 30}) {  // 12 steps an epoch: before a checkpoint, amid, at both sides of an epoch's end
    TrainingOptions again = options("stopped" + std::to_string(stop));
    EXPECT_THROW(train(world_, again, testing::interrupting(stop)), testing::Interruption);
    again.resume = Resume::kAlways;
    const TrainingResult result = train(world_, again);
    EXPECT_EQ(figures(result), figures(whole)) << "stopped after " << stop << " steps";
    EXPECT_EQ(parameter_digest(result.model), parameter_digest(whole.model))
        << "stopped after " << stop << " steps";
  }
}

// Programs ask for nothing: the loader, the model and the evaluation over all nodes know them.
TEST_F(TrainingTest, OnRowsWithAScale_IsTrainingOnTheirValues_ToTheLastBit) {
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TinyGraph graph = testing::training_graph();
    graph.x_type = type;
    testing::write_tiny_dataset(data_, graph);
    const TrainingResult scaled = train(world_, options(std::string("scaled ") + to_string(type)));
    testing::write_tiny_dataset(data_, testing::in_float32(graph));
    const TrainingResult values = train(world_, options(std::string("values ") + to_string(type)));
    EXPECT_EQ(figures(scaled), figures(values)) << to_string(type);
    EXPECT_EQ(parameter_digest(scaled.model), parameter_digest(values.model)) << to_string(type);
  }
}

TEST_F(TrainingTest, WithoutAFolder_TheBestEpochsModelIsReturnedAllTheSame) {
  TrainingOptions kept = options("kept");
  kept.epochs = 8;
  kept.lr = 0.3;  // so large that the last epoch is seldom the best
  TrainingOptions unkept = kept;
  unkept.out.clear();
  const TrainingResult with = train(world_, kept), without = train(world_, unkept);
  EXPECT_EQ(with.best_epoch, without.best_epoch);
  EXPECT_EQ(parameter_digest(with.model), parameter_digest(without.model));
  TrainingOptions until_best = kept;
  until_best.out = folder_.path() / "until best";
  until_best.epochs = static_cast<int>(with.best_epoch) + 1;
  EXPECT_EQ(parameter_digest(train(world_, until_best).model), parameter_digest(without.model));
}

TEST_F(TrainingTest, LossFallsAndTheBestModelIsKept) {
  TrainingOptions longer = options("best");
  longer.epochs = 6;
  const TrainingResult result = train(world_, longer);
  EXPECT_LT(result.rows.back().loss, result.rows.front().loss);
  double best = 0;
  for (const EpochRow& row : result.rows) best = std::max(best, row.valid_accuracy);
  EXPECT_EQ(result.best_accuracy, best);
  EXPECT_EQ(result.rows[result.best_epoch].valid_accuracy, best);
  GraphSage stored(result.model->as<GraphSage>()->options());
  load_model(longer.out / "model.pt", *stored);
  EXPECT_EQ(parameter_digest(stored.ptr()), parameter_digest(result.model));
}

TEST_F(TrainingTest, WhatRankZeroCannotWrite_AllRanksHearInOneLine) {
  const std::filesystem::path out = folder_.path() / "out";
  std::filesystem::create_directories(out / "model.pt");
  const auto ranks =
      trainer_tests::run_ranks({program("training_rank"), data_.string(), out.string(), "1", "0"}, 2);
  EXPECT_NE(ranks[0].output.find((out / "model.pt").string()), std::string::npos) << ranks[0].output;
  EXPECT_EQ(ranks[1].output, "rank 0: " + ranks[0].output);
  EXPECT_EQ(ranks[1].status, ranks[0].status);
  EXPECT_GE(ranks[0].status, 10) << "an Error, and no signal";
}

TEST_F(TrainingTest, ACheckpointOfAnEarlierRunIsNotTakenUnasked) {
  const TrainingResult first = train(world_, options("again"));
  int steps = 0;
  const TrainingResult second =
      train(world_, options("again"), {.step = [&](const StepReport&) { ++steps; }, .epoch = {}});
  EXPECT_EQ(steps, 3 * 12);
  EXPECT_EQ(figures(first), figures(second));
}

TEST_F(TrainingTest, ACheckpointOfAnEarlierRunIsKeptUnderAnotherName) {
  train(world_, options("kept"));
  train(world_, options("kept"));
  TrainingOptions resumed = options("kept");
  std::filesystem::rename(resumed.out / "model.checkpoint.old", resumed.out / "model.checkpoint");
  resumed.resume = Resume::kAlways;
  EXPECT_EQ(train(world_, resumed).rows.size(), 3u) << "the first run's, and it was at its end";
}

/// The error of a training run on a graph that was changed.
template <class Change>
std::string error_on(const std::filesystem::path& folder, World& world, TrainingOptions options,
                     Change change) {
  testing::TinyGraph graph = testing::training_graph();
  change(graph);
  testing::write_tiny_dataset(folder / "changed", graph);
  options.loader.dataset = (folder / "changed").string();
  try {
    train(world, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(TrainingTest, ASplitWithoutALabelIsRefused) {
  EXPECT_NE(error_on(folder_.path(), world_, options("unlabelled"),
                     [](testing::TinyGraph& graph) {
                       for (const std::int64_t v : graph.splits["train"]) graph.y[v] = -1;
                     })
                .find("no node of split 'train' of"),
            std::string::npos);
}

TEST_F(TrainingTest, ALabelThatIsNoClassNamesTheDataset) {
  for (const std::int64_t bad : {std::int64_t{4}, INT64_MAX, std::int64_t{-2}, INT64_MIN}) {
    const std::string error =
        error_on(folder_.path(), world_, options("damaged"),
                 [&](testing::TinyGraph& graph) { graph.y[graph.splits["train"][5]] = bad; });
    EXPECT_NE(error.find("changed has label " + std::to_string(bad)), std::string::npos) << error;
    EXPECT_NE(error.find("hopfeed-partition verify"), std::string::npos) << error;
  }
}

// F29: what NaN features do to the loss is the user's to see, not a reason to lose the run.
TEST_F(TrainingTest, ALossThatIsNaN_IsShownAndTheRunCanBeResumed) {
  testing::TinyGraph graph = testing::training_graph();
  graph.x[8 * graph.splits["train"][0]] = std::nanf("");
  testing::write_tiny_dataset(folder_.path() / "nan", graph);
  TrainingOptions first = options("nan");
  first.loader.dataset = (folder_.path() / "nan").string();
  first.epochs = 2;
  EXPECT_TRUE(std::isnan(train(world_, first).rows.back().loss));
  TrainingOptions more = first;
  more.epochs = 3;
  more.resume = Resume::kAlways;
  const TrainingResult result = train(world_, more);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_TRUE(std::isnan(result.rows[1].loss)) << "came back from the checkpoint";
}

// F32: threads of OpenMP before the workers are started, and after.
TEST_F(TrainingTest, ParallelRegionsBeforeTheWorkersStart_DisturbNobody) {
  at::set_num_threads(4);
  const torch::Tensor a = torch::rand({512, 512});
  const torch::Tensor before = torch::matmul(a, a);
  at::parallel_for(0, 1'000, 1, [](std::int64_t, std::int64_t) {});
  TrainingOptions o = options("openmp");
  o.epochs = 1;
  o.loader.execution.num_workers = 3;
  EXPECT_EQ(train(world_, o).rows.size(), 1u);
  EXPECT_TRUE(torch::equal(torch::matmul(a, a), before));
  at::set_num_threads(1);
}

TEST_F(TrainingTest, OtherSettingsAreRefusedWhenResuming) {
  train(world_, options("settings"));
  TrainingOptions other = options("settings");
  other.resume = Resume::kAlways;
  other.lr = 0.5;
  EXPECT_THROW(train(world_, other), Error);
}

TEST_F(TrainingTest, FeaturesAloneTrainThroughTheSameLoader) {
  TrainingOptions alone = options("alone");
  alone.loader.batch.fanouts = {};
  const TrainingResult result = train(world_, alone);
  EXPECT_EQ(result.model->as<GraphSage>()->options().hops, 0);
  EXPECT_LT(result.rows.back().loss, result.rows.front().loss);
}

TEST_F(TrainingTest, GraphSageLearnsFromEveryKindThatHasNeighbourhoods) {
  BatchOptions walks{
      .sampler = BatchOptions::kWalkSampler, .walk = {.length = 4, .per_seed = 2}, .fanouts = {-1, -1}};
  walks.subgraph = Subgraph::kInduced;
  const BatchOptions labor{.fanouts = {4, 3}, .labor = true, .labor_seeds = 50},
      disjoint{.fanouts = {4, 3}, .disjoint = true},
      induced{.fanouts = {4, 3}, .subgraph = Subgraph::kInduced};
  for (const BatchOptions& kind : {labor, disjoint, induced, walks}) {
    SCOPED_TRACE(kind.to_json());
    TrainingOptions o = options("kind");
    o.loader.batch = kind;
    o.epochs = 12;
    const TrainingResult result = train(world_, o);
    EXPECT_LT(result.rows.back().loss, 0.85 * result.rows.front().loss);
    EXPECT_GT(result.best_accuracy, 0.29);  // of four classes, on random edges
  }
}

TEST_F(TrainingTest, KindsThatLayersCannotUse_AreRefusedInOneLine) {
  const auto refusal = [&](const BatchOptions& kind) {
    TrainingOptions o = options("refused");
    o.loader.batch = kind;
    try {
      train(world_, o);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal({.sampler = BatchOptions::kWalkSampler, .walk = {.length = 2}})
                .find("a walk's edges are steps"),
            std::string::npos);
  EXPECT_NE(
      refusal({.sampler = BatchOptions::kClusterSampler, .cluster = "y", .subgraph = Subgraph::kInduced})
          .find("whole clusters"),
      std::string::npos);
  EXPECT_NE(refusal({.fanouts = {4, 3}, .subgraph = Subgraph::kBidirectional}).find("bidirectional"),
            std::string::npos);
}

// An epoch over other seeds is another run, which its checkpoint does not continue.
TEST_F(TrainingTest, SeedsGivenByHandArePinnedByTheCheckpoint) {
  TrainingOptions o = options("seeds");
  o.loader.seeds = std::vector<std::int64_t>{5, 3, 8, 200, 41, 7, 3};
  o.loader.deal.batch_size = 3;
  train(world_, o);
  o.resume = Resume::kAlways;
  o.epochs = 4;
  EXPECT_EQ(train(world_, o).rows.size(), 4u) << "the same seeds";
  const auto refusal = [&](auto change) {
    TrainingOptions other = o;
    change(other.loader);
    try {
      train(world_, other);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string other_order = refusal([](LoaderOptions& l) { std::swap((*l.seeds)[0], (*l.seeds)[1]); });
  EXPECT_NE(other_order.find("was made with seeds sha256 "), std::string::npos) << other_order;
  EXPECT_NE(refusal([](LoaderOptions& l) { l.seed_weights.assign(7, 1.0); }).find("seeds"),
            std::string::npos);
  EXPECT_NE(refusal([](LoaderOptions& l) { l.seeds.reset(); }).find("was made with seeds sha256 "),
            std::string::npos);
}

TEST_F(TrainingTest, OptionsOutOfRangeAreNamed) {
  const auto refusal = [&](auto change) {
    TrainingOptions wrong = options("wrong");
    change(wrong);
    try {
      train(world_, wrong);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_NE(refusal([](TrainingOptions& o) { o.epochs = 0; }).find("epochs"), std::string::npos);
  EXPECT_NE(refusal([](TrainingOptions& o) { o.lr = 0; }).find("lr"), std::string::npos);
  EXPECT_NE(refusal([](TrainingOptions& o) { o.dropout = 1; }).find("dropout"), std::string::npos);
  for (const std::int64_t bad : {std::int64_t{0}, kMaxHidden + 1, std::int64_t{100'000'000'000}}) {
    EXPECT_NE(refusal([&](TrainingOptions& o) { o.hidden = bad; }).find("hidden is " + std::to_string(bad)),
              std::string::npos);
  }
  EXPECT_NE(refusal([](TrainingOptions& o) { o.lr = std::nan(""); }).find("lr is nan"), std::string::npos);
  EXPECT_NE(refusal([](TrainingOptions& o) {
              o.out.clear();
              o.resume = Resume::kAlways;
            }).find("output folder"),
            std::string::npos);
  EXPECT_NE(refusal([](TrainingOptions& o) { o.checkpoint_every = -1; }).find("checkpoint-every"),
            std::string::npos);
}

nlohmann::json torchrun(const std::filesystem::path& data, const std::filesystem::path& out,
                        const std::vector<std::string>& more) {
  std::filesystem::create_directories(out);
  std::vector<std::string> command{HOPFEED_TEST_PYTHON,
                                   "-m",
                                   "torch.distributed.run",
                                   "--no-python",
                                   "--nproc-per-node=2",
                                   "--max-restarts=2",
                                   "--monitor-interval=0.2",
                                   "--master-port=" + std::to_string(trainer_tests::free_port()),
                                   program("training_rank"),
                                   data.string(),
                                   out.string(),
                                   "3",
                                   "2"};
  command.insert(command.end(), more.begin(), more.end());
  const auto result = run_program(command, {}, 150);
  EXPECT_EQ(result.status, 0) << result.output;
  std::ifstream file(out / "result.json");
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

TEST_F(TrainingTest, ATrainerKilledMidEpochUnderTorchrun_TheRunEndsAsIfNothingHadBeen) {
  const nlohmann::json whole = torchrun(data_, folder_.path() / "undisturbed", {});
  const nlohmann::json killed =
      torchrun(data_, folder_.path() / "killed", {"9"});  // 6 steps an epoch: amid the second
  ASSERT_TRUE(whole.is_object() && killed.is_object());
  EXPECT_EQ(whole["restarts"], 0);
  EXPECT_EQ(whole["steps"], 18);
  EXPECT_EQ(killed["restarts"], 1);
  EXPECT_EQ(killed["first_step_epoch"], 1);
  EXPECT_EQ(killed["steps"], 10) << "steps from the checkpoint of step 8";
  EXPECT_EQ(killed["rows"], whole["rows"]);
  EXPECT_EQ(killed["digest"], whole["digest"]);
}

}  // namespace
}  // namespace hopfeed
