// link_prediction as a user starts it, on a small graph of users, artists and planted tastes: alone, as two
// trainers, interrupted, and with bad input.
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "core/dataset/npy.h"
#include "tests/support/typed_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/taste_graph.h"
#include "trainer/link_trainer.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::kArtists;
using testing::kUsers;
using testing::TypedGraph;

/// The learned rows in a model file: a tensor for each node type that has some.
std::vector<torch::Tensor> learned_rows(const std::filesystem::path& path) {
  std::vector<torch::Tensor> rows;
  const torch::jit::Module file = torch::jit::load(path.string());
  for (const torch::jit::Module& child : file.children())
    if (child.hasattr("learned")) rows.push_back(child.attr("rows").toTensor());
  return rows;
}

class LinkProgram : public testing::WatchedTest<150> {
 protected:
  LinkProgram() {
    at::set_num_threads(1);
    const TypedGraph graph = testing::taste_graph();
    testing::write_typed_dataset(data_, graph, testing::random_typed_cut(graph, 2, 1));
  }
  /// With small defaults for what `more` does not name.
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words{program("link_prediction"), "--data", data_.string()};
    for (const auto& [name, value] : {std::pair{"--edge-type", "listens"},
                                      {"--hidden", "16"},
                                      {"--batch-size", "100"},
                                      {"--fanouts", "4,3"},
                                      {"--lr", "0.02"},
                                      {"--embedding-lr", "0.02"}}) {
      if (std::ranges::find(more, name) == more.end()) words.insert(words.end(), {name, value});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  LinkTrainingOptions options(const std::string& out) const {
    LinkTrainingOptions result{.loader = {.dataset = data_.string(),
                                          .batch = {.fanouts = {4, 3},
                                                    .link = {.edge_type = "listens",
                                                             .negatives = {.mode = NegativeMode::kBinary},
                                                             .exclude = Exclude::kReverse}},
                                          .deal = {.batch_size = 150}},
                               .epochs = 3,
                               .hidden = 8,
                               .dropout = 0.3,
                               .lr = 0.02,
                               .embedding_lr = 0.02,
                               .seed = 3,
                               .out = folder_.path() / out};
    return result;
  }

  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data";
};

TEST_F(LinkProgram, TwoTrainersLearnTheTastes_AndLeaveModelsTableAndSummary) {
  const std::filesystem::path out = folder_.path() / "out";
  const auto results = trainer_tests::run_ranks(command({"--epochs", "12", "--out", out.string()}), 2);
  for (const ProgramResult& result : results) ASSERT_EQ(result.status, 0) << result.output;
  const nlohmann::json summary = read_json(out / "summary.json");
  for (const char* prefix : {"", "baseline_"}) {
    for (const char* key : {"test_auc", "valid_auc", "epochs", "epoch_seconds", "learned_rows"})
      EXPECT_TRUE(summary.contains(std::string(prefix) + key)) << prefix << key;
  }
  EXPECT_EQ(summary["trainers"], 2);
  EXPECT_EQ(summary["epochs"], 12);
  EXPECT_EQ(summary["edge_type"], "user__listens__artist");
  EXPECT_EQ(summary["learned_rows"], kUsers + kArtists);
  EXPECT_LT(summary["epoch_rows"][11]["loss"], summary["epoch_rows"][0]["loss"]);
  EXPECT_GT(summary["test_auc"], 0.75) << "a taste is a quarter of the artists, so 0.8 or so can be had";
  for (const char* title : {"two towers", "without the graph", "test AUC"})
    EXPECT_NE(results[0].output.find(title), std::string::npos) << results[0].output;
  for (const char* file : {"model.pt", "baseline.pt", "model.checkpoint"})
    EXPECT_TRUE(std::filesystem::exists(out / file)) << file;
}

TEST_F(LinkProgram, OnCopiesThatGoOneAhead_IsTrainingOnTheSlots_ToTheLastBit) {
  World world;
  const LinkTrainingResult slots = train_links(world, options("slots"));
  LinkTrainingOptions copied = options("copies");
  copied.copy_batches = true;
  copied.deterministic = true;
  const LinkTrainingResult copies = train_links(world, copied);
  ASSERT_EQ(copies.rows.size(), slots.rows.size());
  for (std::size_t i = 0; i < slots.rows.size(); ++i) {
    EXPECT_EQ(copies.rows[i].loss, slots.rows[i].loss) << i;
    EXPECT_EQ(copies.rows[i].valid_auc, slots.rows[i].valid_auc) << i;
  }
  EXPECT_EQ(copies.learned_rows, slots.learned_rows);
}

TEST_F(LinkProgram, InBfloat16TheLossFalls_NearToThatInFloat32) {
  World world;
  LinkTrainingOptions exact = options("exact");
  exact.dropout = 0;
  exact.epochs = 8;
  LinkTrainingOptions half = exact;
  half.out = folder_.path() / "half";
  half.precision = Precision::kBf16;
  const LinkTrainingResult expected = train_links(world, exact), result = train_links(world, half);
  ASSERT_EQ(result.rows.size(), 8U);
  EXPECT_LT(result.rows.back().loss, result.rows.front().loss);
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    EXPECT_NEAR(result.rows[i].loss, expected.rows[i].loss, 0.03) << i;
}

TEST_F(LinkProgram, WithoutHeldOutLinks_TellsNoAuc) {
  const auto results = trainer_tests::run_ranks(
      command({"--no-baseline", "--epochs", "1", "--valid-split", "none", "--test-split", "none"}), 1);
  ASSERT_EQ(results[0].status, 0) << results[0].output;
  EXPECT_EQ(results[0].output.find("AUC valid"), std::string::npos) << results[0].output;
  EXPECT_EQ(results[0].output.find("0.0000"), std::string::npos) << results[0].output;
}

TEST_F(LinkProgram, OneTrainerAndTwoWithBatchesOfHalfTheSizeBeginAlike) {
  const auto losses = [&](int trainers, const std::string& batch_size) {
    const std::filesystem::path json = folder_.path() / (batch_size + ".json");
    for (const ProgramResult& result : trainer_tests::run_ranks(
             command({"--no-baseline", "--fanouts", "-1,-1", "--exclude", "none", "--epochs", "6",
                      "--batch-size", batch_size, "--json", json.string()}),
             trainers))
      EXPECT_EQ(result.status, 0) << result.output;
    return epoch_losses(read_json(json));
  };
  const std::vector<double> one = losses(1, "300"), two = losses(2, "150");
  ASSERT_EQ(one.size(), 6U);
  ASSERT_EQ(two.size(), 6U);
  EXPECT_NEAR(one[0], two[0], 0.02) << "the negatives alone differ, which are drawn by batch";
  EXPECT_NEAR(one[5], two[5], 0.05);
}

// Which rank scores which batch is all that differs: 120 links in batches of 30 are whole rounds of one
// trainer and of two.
TEST_F(LinkProgram, OneTrainerAndTwoScoreTheSameModelAlikeToTheLastBit) {
  LinkTrainingOptions one_epoch = options("one");
  one_epoch.loader.deal.batch_size = 30;
  one_epoch.epochs = 1;
  const std::int64_t steps = kUsers * 10 / 30;
  std::int64_t done = 0;
  World world;
  const LinkTrainingResult stopped = train_links(
      world, one_epoch,
      {.step = [&](const StepReport& step) { done = step.step; }, .stop = [&] { return done == steps - 1; }});
  ASSERT_TRUE(stopped.stopped && stopped.rows.empty());
  ASSERT_EQ(done, steps) << "trained, but not scored";
  std::filesystem::copy(folder_.path() / "one", folder_.path() / "two");
  const auto resumed = [&](int trainers, const std::string& out) {
    for (const ProgramResult& result : trainer_tests::run_ranks(
             command({"--no-baseline", "--batch-size", "30", "--hidden", "8", "--dropout", "0.3", "--seed",
                      "3", "--epochs", "1", "--resume", "--out", (folder_.path() / out).string()}),
             trainers))
      EXPECT_EQ(result.status, 0) << result.output;
    return read_json(folder_.path() / out / "summary.json");
  };
  const nlohmann::json one = resumed(1, "one"), two = resumed(2, "two");
  EXPECT_EQ(one["trainers"], 1);
  EXPECT_EQ(two["trainers"], 2);
  EXPECT_EQ(epoch_losses(one), epoch_losses(two)) << "from the checkpoint, no step was taken";
  for (const char* auc : {"valid_auc", "test_auc"}) {
    EXPECT_GT(one[auc], 0.5) << auc;
    EXPECT_EQ(one[auc], two[auc]) << auc;
  }
}

TEST_F(LinkProgram, TheBestModelIsTheFileOfItsEpoch) {
  World world;
  LinkTrainingOptions longer = options("longer");
  longer.epochs = 6;
  const LinkTrainingResult result = train_links(world, longer);
  LinkTrainingOptions until_best = options("until best");
  until_best.epochs = result.best_epoch + 1;
  EXPECT_EQ(train_links(world, until_best).best_epoch, result.best_epoch);
  const Dataset dataset(data_);
  const LinkModelOptions shape{.dataset = dataset.meta(),
                               .batch = longer.loader.batch,
                               .edge_type = "listens",
                               .hidden = longer.hidden,
                               .dropout = longer.dropout,
                               .seed = longer.seed,
                               .embedding_lr = longer.embedding_lr};
  LinkModel best(shape), again(shape);
  load_model(longer.out / "model.pt", *best);
  load_model(until_best.out / "model.pt", *again);
  EXPECT_EQ(best->num_learned_rows(), result.learned_rows);
  const auto parameters = best->parameters(), others = again->parameters();
  ASSERT_EQ(parameters.size(), others.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(torch::equal(parameters[i], others[i])) << i;
  const std::vector<torch::Tensor> rows = learned_rows(longer.out / "model.pt"),
                                   other_rows = learned_rows(until_best.out / "model.pt");
  ASSERT_EQ(rows.size(), 2U) << "of users and of artists";
  ASSERT_EQ(other_rows.size(), 2U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(1), longer.hidden) << "without their optimizer's state";
    EXPECT_TRUE(torch::equal(rows[i], other_rows[i])) << i;
  }
}

TEST_F(LinkProgram, TestLinksOfAFileAreTheSameAsThoseOfTheSplit) {
  const Dataset dataset(data_);
  const auto pairs = dataset.edge_split(0, "test").pairs;
  const std::filesystem::path file = folder_.path() / "test.npy";
  write_npy(file, pairs, {std::ssize(pairs) / 2, 2});
  const auto auc = [&](std::vector<std::string> more, const std::string& json) {
    more.insert(more.end(), {"--no-baseline", "--epochs", "2", "--json", (folder_.path() / json).string()});
    const ProgramResult result = run_program(command(more));
    EXPECT_EQ(result.status, 0) << result.output;
    return read_json(folder_.path() / json)["test_auc"];
  };
  EXPECT_EQ(auc({}, "split.json"), auc({"--test-links", file.string()}, "file.json"));
}

TEST_F(LinkProgram, ARunThatWasInterruptedAnywhere_EndsLikeTheOthersToTheLastBit) {
  World world;
  const LinkTrainingResult whole = train_links(world, options("whole"));
  ASSERT_EQ(whole.rows.size(), 3U);
  for (const int stop : {9, 10, 20}) {  // 8 steps an epoch
    LinkTrainingOptions again = options("stopped" + std::to_string(stop));
    EXPECT_THROW(train_links(world, again, testing::interrupting(stop)), testing::Interruption);
    again.resume = Resume::kAlways;
    const LinkTrainingResult result = train_links(world, again);
    ASSERT_EQ(result.rows.size(), whole.rows.size());
    for (std::size_t i = 0; i < whole.rows.size(); ++i) {
      EXPECT_EQ(result.rows[i].loss, whole.rows[i].loss) << stop;
      EXPECT_EQ(result.rows[i].test_auc, whole.rows[i].test_auc) << stop;
    }
  }
  LinkTrainingOptions other = options("stopped9");
  other.resume = Resume::kAlways;
  other.embedding_lr = 0.03;
  try {
    train_links(world, other);
    FAIL() << "another learning rate was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("embedding_lr 0.02, this run has 0.03"), std::string::npos)
        << error.what();
  }
}

TEST_F(LinkProgram, AskedToStopAmidAnEpoch_TheRunGoesOnFromThatStep) {
  World world;
  const LinkTrainingResult whole = train_links(world, options("whole"));
  LinkTrainingOptions again = options("stopped");
  int steps = 0;
  const LinkTrainingResult stopped = train_links(
      world, again, {.step = [&](const StepReport&) { ++steps; }, .stop = [&] { return steps == 11; }});
  EXPECT_TRUE(stopped.stopped);
  again.resume = Resume::kAlways;
  int rest = 0;
  World later;  // the first one has agreed to stop
  const LinkTrainingResult result = train_links(later, again, {.step = [&](const StepReport&) { ++rest; }});
  EXPECT_EQ(steps + rest, 24);
  ASSERT_EQ(result.rows.size(), 3U);
  EXPECT_EQ(result.rows[2].loss, whole.rows[2].loss);
  EXPECT_EQ(result.rows[2].valid_auc, whole.rows[2].valid_auc);
}

TEST_F(LinkProgram, MaxBatchesEndsAnEpochEarly) {
  World world;
  LinkTrainingOptions few = options("few");
  few.max_batches = 3;
  int steps = 0;
  const LinkTrainingResult result = train_links(world, few, {.step = [&](const StepReport&) { ++steps; }});
  EXPECT_EQ(steps, 9);
  for (const EpochRow& row : result.rows) EXPECT_EQ(row.batches, 3);
}

// A split with labels has its negatives: these are the same in each epoch and no others are drawn.
TEST_F(LinkProgram, ASplitWithLabelsIsJudgedAsItIs) {
  TypedGraph graph = testing::taste_graph();
  testing::TypedLinks& test = graph.edges[0].splits["test"];
  test.labels.assign(test.pairs.size() / 2, 1);
  test.pairs.insert(test.pairs.end(), {0, 1, 0, 2});
  test.labels.insert(test.labels.end(), {0, 0});
  testing::write_typed_dataset(data_, graph);
  World world;
  const LinkTrainingResult result = train_links(world, options("labelled"));
  const double pairs =
      2.0 * (static_cast<double>(test.labels.size()) - 2);  // AUC is a number of halves of them
  for (const EpochRow& row : result.rows) {
    const double halves = row.test_auc * pairs * 2;
    EXPECT_NEAR(halves, std::round(halves), 1e-6);
  }
}

TEST_F(LinkProgram, ResumedWithOtherOptions_ItNamesTheOptionAndBothValues) {
  const std::vector<std::string> run{"--no-baseline", "--epochs", "1", "--out",
                                     (folder_.path() / "out").string()};
  ASSERT_EQ(run_program(command(run)).status, 0);
  const std::filesystem::path links = folder_.path() / "links.npy";
  write_npy(links, std::span<const std::int64_t>(std::vector<std::int64_t>{1, 2, 3, 4}), {2, 2});
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& told) {
    more.insert(more.end(), run.begin(), run.end());
    more.emplace_back("--resume");
    hopfeed::expect_refused(run_program(command(more)), "link_prediction",
                            "model.checkpoint' was made with " + told);
  };
  expect_refused({"--amount", "2"}, "--amount 1.0, this run has 2.0; use the same");
  expect_refused({"--strict"}, "--strict false, this run has true; use the same");
  expect_refused({"--exclude", "none"}, "--exclude reverse, this run has none; use the same");
  expect_refused({"--test-links", links.string()}, "--test-links unset, this run has sha256 ");
  expect_refused({"--embedding-lr", "0.5"}, "--embedding-lr 0.02, this run has 0.5; use the same");
}

TEST_F(LinkProgram, OptionsThatWouldChangeNothing_AreRefused) {
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& what) {
    hopfeed::expect_refused(run_program(command(std::move(more))), "link_prediction", what);
  };
  expect_refused({"--checkpoint-every", "2"}, "--checkpoint-every needs --out");
  expect_refused({"--keep", "2"}, "--keep needs --out");
  expect_refused({"--memory", "1G"}, "--memory goes with --infer");
  expect_refused({"--results", (folder_.path() / "layers").string()}, "--results goes with --infer");
}

TEST_F(LinkProgram, BadInputIsOneLineThatNamesIt) {
  const auto expect_refused = [&](std::vector<std::string> more, const std::string& what) {
    hopfeed::expect_refused(run_program(command(std::move(more))), "link_prediction", what);
  };
  expect_refused({"--edge-type", "hates"}, "hates");
  expect_refused({"--edge-fanouts", "hates=4,3"}, "hates");
  expect_refused({"--exclude", "all"}, "--exclude");
  expect_refused({"--amount", "0"}, "--amount");
  expect_refused({"--train-split", "tests"}, "tests");
  expect_refused({"--embedding-lr", "0"}, "learning rate");
  expect_refused({"--resume"}, "output folder");
  const std::filesystem::path flat = folder_.path() / "flat.npy";
  write_npy(flat, std::span<const std::int64_t>(std::vector<std::int64_t>{1, 2, 3}), {3});
  expect_refused({"--test-links", flat.string()}, "not of shape [P, 2]");
  const std::filesystem::path outside = folder_.path() / "outside.npy";
  write_npy(outside, std::span<const std::int64_t>(std::vector<std::int64_t>{1, kArtists}), {1, 2});
  expect_refused({"--test-links", outside.string(), "--no-baseline"}, std::to_string(kArtists));
}

}  // namespace
}  // namespace hopfeed
