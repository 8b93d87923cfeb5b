// The best epoch's model where rows lie at owners: its dense part and its rows are of one and the same step,
// also where what was lost with an owner comes out otherwise when it is computed again, as on devices whose
// bits do not repeat.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "tests/state/local_network.h"
#include "tests/state/owners_fixture.h"
#include "tests/support/watchdog.h"
#include "trainer/epoch_loop.h"
#include "worker_mode/local_streams.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kNodes = 60, kWidth = 4;

struct RowsModel : torch::nn::Module {
  RowsModel()
      : table(
            register_module("table", DistEmbedding(TableSpec{.name = "rows",
                                                             .node_type = "node",
                                                             .kind = TableSpec::Kind::kEmbedding,
                                                             .width = kWidth,
                                                             .first_values = TableSpec::FirstValues::kUniform,
                                                             .seed = 1,
                                                             .optimizer = {.lr = 0.1}}))),
        linear(register_module("linear", torch::nn::Linear(kWidth, 1))) {}
  DistEmbedding table;
  torch::nn::Linear linear;
};

/// What there is of a model at a moment.
struct Kept {
  torch::Tensor weight, rows;
  bool operator==(const Kept& other) const {
    return torch::equal(weight, other.weight) && torch::equal(rows, other.rows);
  }
};

/// An epoch's score is what the test says, and no batch's loss is what it was before. Behind a score that is
/// said to be lost, the owner loses its rows.
class Scripted final : public TrainingTask {
 public:
  struct Score {
    double score;
    bool lost = false;
  };
  Scripted(World& world, RowsModel& model, testing::OwnerThread& owner, std::vector<Score> scores)
      : world_(world), model_(model), owner_(owner), scores_(std::move(scores)) {}

  AnyBatchTensors tensors_of(const Batch& batch, CopyStream* copies) override {
    return to_tensors(batch, copies);
  }
  BatchLoss loss(const AnyBatchTensors& batch) override {
    const torch::Tensor& ids = std::get<BatchTensors>(batch).dataset_id;
    const torch::Tensor out = model_.linear->forward(model_.table->forward(ids));
    return {.sum = (out - 1).square().sum() * (1 + 0.01 * static_cast<double>(++batches_)),
            .count = ids.numel()};
  }
  void look(const AnyBatchTensors& batch) override {
    model_.table->look(std::get<BatchTensors>(batch).dataset_id);
  }
  void after_step() override { model_.table->step(world_); }
  std::optional<double> score(EpochRow& /*row*/) override {
    seen.push_back(now());
    const Score score = scores_.at(seen.size() - 1);
    if (score.lost) owner_.start_again();
    return score.score;
  }

  Kept now() {
    const torch::NoGradGuard no_gradients;
    model_.eval();
    return {.weight = model_.linear->weight.clone(), .rows = model_.table->forward(torch::arange(kNodes))};
  }
  std::vector<Kept> seen;

 private:
  World& world_;
  RowsModel& model_;
  testing::OwnerThread& owner_;
  const std::vector<Score> scores_;
  int batches_ = 0;
};

class BestModel : public testing::WatchedTest<60> {
 protected:
  BestModel() : graph_(kNodes), owner_(graph_.open({0, 1, 2}), 1, folder_.path() / "state") {}

  void train(const std::vector<Scripted::Score>& scores, std::int64_t epochs,
             Resume resume = Resume::kAfterRestart) {
    torch::manual_seed(1);
    network_ = std::make_shared<testing::LocalNetwork>(std::vector{&owner_}, ++connection_);
    const LocalStreams streams(graph_.whole().folder());
    stream_ = streams.open({.dataset = graph_.whole().folder().string(),
                            .batch = {.fanouts = {2}, .dataset_ids = true},
                            .deal = {.batch_size = 5},
                            .execution = {.num_workers = 0}});
    model_ = std::make_shared<RowsModel>();
    adam_.emplace(model_->parameters(), torch::optim::AdamOptions(0.1));
    loop_.emplace(world_,
                  EpochLoopOptions{.epochs = epochs,
                                   .restores_best = true,
                                   .out = folder_.path() / "out",
                                   .resume = resume,
                                   .owners = {.network = network_},
                                   .dataset = graph_.whole().meta()},
                  callbacks_, *stream_, *model_, *adam_);
    task_.emplace(world_, *model_, owner_, scores);
    loop_->run(*task_);
  }
  torch::Tensor weight_in_file() {
    RowsModel model;
    load_model(loop_->model_path(), model);
    return model.linear->weight;
  }

  const testing::TempFolder folder_;
  const testing::CutGraph graph_;
  testing::OwnerThread owner_;
  std::uint64_t connection_ = 0;
  World world_;
  const TrainingCallbacks callbacks_;
  std::shared_ptr<testing::LocalNetwork> network_;
  std::unique_ptr<BatchStream> stream_;
  std::shared_ptr<RowsModel> model_;
  std::optional<torch::optim::Adam> adam_;
  std::optional<EpochLoop> loop_;
  std::optional<Scripted> task_;
};

TEST_F(BestModel, AnEpochThatWasLostAndComesOutWorseIsNotTheBest) {
  train({{0.5}, {0.9, /*lost=*/true}, {0.4}}, 2);
  EXPECT_EQ(loop_->returns().times, 1);
  EXPECT_EQ(loop_->progress().best_epoch, 0);
  EXPECT_EQ(loop_->progress().best_accuracy, 0.5);
  ASSERT_EQ(task_->seen.size(), 3U);
  ASSERT_FALSE(task_->seen[1] == task_->seen[2]) << "the device's bits do not repeat";
  EXPECT_TRUE(torch::equal(weight_in_file(), task_->seen[0].weight));
  loop_->restore_best();
  EXPECT_TRUE(task_->now() == task_->seen[0]);
}

TEST_F(BestModel, AnEpochThatWasLostAndComesOutBetterIsTheBestAsItCameOutLast) {
  train({{0.5}, {0.7, /*lost=*/true}, {0.9}, {0.6}}, 3);
  EXPECT_EQ(loop_->progress().best_epoch, 1);
  EXPECT_TRUE(torch::equal(weight_in_file(), task_->seen[2].weight));
  loop_->restore_best();
  EXPECT_TRUE(task_->now() == task_->seen[2]);
}

TEST_F(BestModel, ItIsBackAfterAResume_AlsoWhereTheFileBesideTheCheckpointIsAnother) {
  train({{0.9}, {0.5}}, 2);
  const Kept best = task_->seen[0];
  std::filesystem::remove(loop_->model_path());
  loop_.reset();
  train({{0.4}}, 3, Resume::kAlways);
  EXPECT_EQ(loop_->progress().best_epoch, 0);
  EXPECT_TRUE(torch::equal(weight_in_file(), best.weight));
  loop_->restore_best();
  EXPECT_TRUE(task_->now() == best);
}

}  // namespace
}  // namespace hopfeed
