// A checkpoint brings back every bit that a step depends on.
#include "trainer/checkpoint.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <torch/csrc/jit/serialization/import.h>

#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "tests/support/tiny_dataset.h"
#include "trainer/model.h"
#include "trainer/settings_told.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

constexpr ModelOptions kModel{.hops = 0, .features = 6, .hidden = 16, .classes = 3, .dropout = 0.5};
const Settings kSettings{{"seed", "1"}, {"lr", "0.01"}};

/// A small run whose steps depend on parameters, Adam's moments and the generator.
struct SmallRun {
  SmallRun() : model(kModel), adam(model->parameters(), torch::optim::AdamOptions(0.01).weight_decay(1e-4)) {}
  double step() {
    const torch::Tensor x = torch::randn({20, 6}), y = torch::randint(3, {20}, torch::kInt64);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(model->perceptron(x), y);
    adam.zero_grad();
    loss.backward();
    adam.step();
    return loss.item<double>();
  }
  GraphSage model;
  torch::optim::Adam adam;
};

ErrorCode code_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::kIo;
}

class CheckpointTest : public ::testing::Test {
 protected:
  TempFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.checkpoint";
  World world_;
};

TEST_F(CheckpointTest, AResumedRunGivesTheSameLossesToTheLastBit) {
  torch::manual_seed(7);
  SmallRun run;
  for (int i = 0; i < 5; ++i) run.step();
  save_checkpoint(path_, *run.model, run.adam, {.epoch = 2, .position = 5}, kSettings, world_);
  std::vector<double> losses, again;
  for (int i = 0; i < 10; ++i) losses.push_back(run.step());

  torch::manual_seed(99);
  SmallRun other;
  load_checkpoint(path_, *other.model, other.adam, kSettings, world_);
  for (int i = 0; i < 10; ++i) again.push_back(other.step());
  EXPECT_EQ(losses, again);
}

TEST_F(CheckpointTest, ProgressComesBackExactly) {
  SmallRun run;
  run.step();
  const TrainingProgress progress{
      .epoch = 3,
      .position = 1024,
      .loss_sum = 0.1 + 0.2,
      .loss_seeds = 77,
      .batches = 4,
      .seconds = 1.0 / 3,
      .best_accuracy = 0.7000000000000001,
      .best_epoch = 2,
      .world_size = 1,
      .rows = {{.epoch = 2, .loss = 1.0 / 7, .valid_accuracy = 0.7000000000000001}}};
  save_checkpoint(path_, *run.model, run.adam, progress, kSettings, world_);
  const TrainingProgress back = load_checkpoint(path_, *run.model, run.adam, kSettings, world_).progress;
  EXPECT_EQ(back.epoch, 3);
  EXPECT_EQ(back.position, 1024);
  EXPECT_EQ(back.loss_sum, progress.loss_sum);
  EXPECT_EQ(back.best_accuracy, progress.best_accuracy);
  ASSERT_EQ(back.rows.size(), 1u);
  EXPECT_EQ(back.rows[0].loss, progress.rows[0].loss);
}

TEST_F(CheckpointTest, OtherSettingsAreRefusedByName) {
  SmallRun run;
  save_checkpoint(path_, *run.model, run.adam, {}, kSettings, world_);
  try {
    load_checkpoint(path_, *run.model, run.adam, {{"seed", "1"}, {"lr", "0.02"}}, world_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    EXPECT_NE(std::string(error.what()).find("lr 0.01"), std::string::npos) << error.what();
  }
}

TEST(SettingsTold, NameOptionsAndShortValues) {
  const auto told = [](const Settings& stored, const Settings& here) {
    const std::optional<ToldSetting> other = first_difference(stored, here);
    return other ? unmarked(other->name) + ": " + other->stored + ", " + other->here : "";
  };
  EXPECT_EQ(told({{"lr", "0.01"}}, {{"lr", "0.01"}}), "");
  EXPECT_EQ(told({{"weight-decay", "0.1"}}, {{"weight-decay", "0.2"}}), "weight_decay: 0.1, 0.2");
  EXPECT_EQ(told({{"lr", "0.1"}}, {}), "lr: 0.1, unset");
  EXPECT_EQ(told({{"batch.dataset_ids", "true"}}, {{"batch.dataset_ids", "false"}}), "owners: set, unset");
  EXPECT_EQ(told({}, {{"validate", "exact"}}), "validate: sampled, exact");
  EXPECT_EQ(told({{"seeds.sha256", kSeedsOfPartition}, {"trainers", "2"}},
                 {{"seeds.sha256", "\"\""}, {"seeds.split", "\"train\""}}),
            "deal: local, even");
  const std::string hash(64, 'a'), other(64, 'b');
  EXPECT_EQ(told({{"seeds.sha256", '"' + hash + '"'}}, {{"seeds.sha256", '"' + other + '"'}}),
            "seeds: sha256 aaaaaaaaaaaa, sha256 bbbbbbbbbbbb");
  EXPECT_EQ(told({{"hash of the test links", hash}}, {}), "test_links: sha256 aaaaaaaaaaaa, unset");
  std::string many = "[1";
  for (int i = 0; i < 50; ++i) many += ",1";
  EXPECT_EQ(told({{"batch.fanouts", many + "]"}}, {{"batch.fanouts", "[2]"}}),
            "batch.fanouts: " + many.substr(0, 60) + "..., [2]");
}

TEST_F(CheckpointTest, AMissingOrDamagedFileIsOneLine) {
  SmallRun run;
  const auto load = [&] { load_checkpoint(path_, *run.model, run.adam, kSettings, world_); };
  EXPECT_EQ(code_of(load), ErrorCode::kNotFound);
  save_checkpoint(path_, *run.model, run.adam, {}, kSettings, world_);
  const auto bytes = std::filesystem::file_size(path_);
  for (const std::uintmax_t keep : {bytes / 2, std::uintmax_t{10}, std::uintmax_t{0}}) {
    std::filesystem::resize_file(path_, keep);
    EXPECT_EQ(code_of(load), ErrorCode::kCorrupt) << keep << " of " << bytes << " bytes";
  }
}

TEST_F(CheckpointTest, APlaceThatNoRunHasIsRefusedByName) {
  SmallRun run;
  for (const TrainingProgress& progress :
       {TrainingProgress{.epoch = -1}, TrainingProgress{.position = INT64_MIN},
        TrainingProgress{.world_size = 0}}) {
    save_checkpoint(path_, *run.model, run.adam, progress, kSettings, world_);
    try {
      load_checkpoint(path_, *run.model, run.adam, kSettings, world_);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      const std::string name = progress.epoch < 0      ? "epoch is -1"
                               : progress.position < 0 ? "position is -9223372036854775808"
                                                       : "world_size is 0";
      EXPECT_NE(std::string(error.what()).find("model.checkpoint' is damaged: its " + name),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(CheckpointTest, AWriteThatFailsLeavesTheOldCheckpoint) {
  SmallRun run;
  save_checkpoint(path_, *run.model, run.adam, {.epoch = 1}, kSettings, world_);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1'000, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const ErrorCode code =
      code_of([&] { save_checkpoint(path_, *run.model, run.adam, {.epoch = 2}, kSettings, world_); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(code, ErrorCode::kIo);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1) << "the old one alone";
  EXPECT_EQ(load_checkpoint(path_, *run.model, run.adam, kSettings, world_).progress.epoch, 1);
}

TEST_F(CheckpointTest, PyTorchReadsTheModelFile) {
  SmallRun run;
  save_model(folder_.path() / "model.pt", *run.model);
  const torch::jit::Module module = torch::jit::load((folder_.path() / "model.pt").string());
  std::size_t found = 0;
  for (const auto& parameter : module.named_parameters()) {
    EXPECT_TRUE(torch::equal(parameter.value, run.model->named_parameters()[parameter.name]))
        << parameter.name;
    ++found;
  }
  EXPECT_EQ(found, run.model->parameters().size());
}

}  // namespace
}  // namespace hopfeed
