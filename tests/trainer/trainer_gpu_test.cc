// Training on a card: copies, layers, whole runs and checkpoints against the CPU's. Where there is no card,
// each test says so and is skipped, not passed.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/trainer/copied_batches.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/random_edges.h"
#include "tests/trainer/typed_training_graph.h"
#include "trainer/batch_prefetcher.h"
#include "trainer/checkpoint.h"
#include "trainer/device.h"
#include "trainer/dist_embedding.h"
#include "trainer/layerwise_inference.h"
#include "trainer/sage_layer.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

class TrainerOnACard : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv(kCublasVariable, kCublasSetting, 0);
    if (const std::string why = why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
    at::set_num_threads(1);
    card_ = choose_device("cuda:0").device;
    testing::write_tiny_dataset(data_, testing::training_graph());
    const testing::TypedGraph graph = testing::typed_training_graph();
    testing::write_typed_dataset(typed_, graph, testing::random_typed_cut(graph, 2, 1));
  }
  TrainingOptions options(const std::filesystem::path& data) const {
    TrainingOptions result = testing::small_training(data.string());
    result.epochs = 4;
    result.dropout = 0;  // each device draws its own
    return result;
  }
  TrainingOptions on_card(const std::filesystem::path& data) const {
    TrainingOptions result = options(data);
    result.device = card_;
    return result;
  }
  static std::vector<double> losses(const TrainingResult& result) {
    std::vector<double> values;
    for (const EpochRow& row : result.rows) values.push_back(row.loss);
    return values;
  }

  torch::Device card_ = torch::kCPU;
  TempFolder folder_;
  std::filesystem::path data_ = folder_.path() / "data", typed_ = folder_.path() / "typed";
  World world_;
};

TEST_F(TrainerOnACard, CopiesHaveTheFieldsOfTheViews_OneAheadOfTheStep) {
  LoaderOptions loading{.dataset = data_.string(), .batch = {.fanouts = {4, 3}}, .deal = {.batch_size = 10}};
  loading.execution.num_workers = 0;
  Loader plain(loading), loader(loading);
  CopyStream copies(card_);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    plain.begin_epoch(epoch);
    loader.begin_epoch(epoch);
    BatchPrefetcher ahead(loader, &copies,
                          [](const Batch& batch, CopyStream* to) { return to_tensors(batch, to); });
    while (const std::optional<Batch> batch = plain.next()) {
      const std::optional<PlacedBatch> placed = ahead.next();
      ASSERT_TRUE(placed);
      const auto& copy = std::get<BatchTensors>(placed->tensors);
      const BatchTensors views = to_tensors(*batch);
      testing::expect_same_batch(copy, views, card_);
      testing::expect_same_rows(copy.rows(), views.rows(), card_);
    }
  }
}

TEST_F(TrainerOnACard, TheLayerHasTheCpusValuesAndGradients) {
  torch::manual_seed(1);
  const testing::Edges edges = testing::random_edges(700, 1'500, 6, 3);
  const auto run = [&](torch::Device device) {
    torch::manual_seed(2);
    const auto random = [&](c10::IntArrayRef shape) {
      return torch::randn(shape, torch::kFloat64).to(device).requires_grad_();
    };
    const torch::Tensor x = random({edges.sources, 17});
    const SageWeights weights{.neighbours = random({9, 17}), .bias = random({9}), .self = random({9, 17})};
    CompressedRows rows = compress_rows(edges.edge_index, edges.rows, edges.sources);
    rows.col = rows.col.to(device);
    rows.row = rows.row.to(device);
    const torch::Tensor out = sage_layer(x, rows, weights, {.relu = true});
    std::vector<torch::Tensor> all =
        torch::autograd::grad({out.square().sum()}, {x, weights.neighbours, weights.bias, weights.self});
    all.push_back(out.detach());
    return all;
  };
  const auto expected = run(torch::kCPU), found = run(card_);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i].cpu(), expected[i], 1e-9, 1e-9)) << i;
}

TEST_F(TrainerOnACard, ARunHasTheCpusLosses_AndItsExactInference) {
  for (const std::filesystem::path& data : {data_, typed_}) {
    const TrainingResult expected = train(world_, options(data)), result = train(world_, on_card(data));
    ASSERT_EQ(result.rows.size(), expected.rows.size());
    for (std::size_t i = 0; i < result.rows.size(); ++i)
      EXPECT_NEAR(result.rows[i].loss, expected.rows[i].loss, 0.02 * expected.rows[0].loss) << data << i;
    const Dataset dataset(data);
    const torch::Tensor there = layerwise_inference(*result.model, dataset);
    result.model->to(torch::kCPU);
    EXPECT_TRUE(there.is_cpu());
    EXPECT_TRUE(torch::allclose(there, layerwise_inference(*result.model, dataset), 1e-3, 1e-3));
  }
}

TEST_F(TrainerOnACard, InBfloat16TheLossFalls) {
  TrainingOptions half = on_card(data_);
  half.precision = Precision::kBf16;
  const std::vector<double> found = losses(train(world_, half));
  EXPECT_LT(found.back(), found.front());
}

TEST_F(TrainerOnACard, DeterministicRunsRepeatToTheLastBit) {
  for (const std::filesystem::path& data : {data_, typed_}) {
    TrainingOptions run = on_card(data);
    run.deterministic = true;
    run.dropout = 0.3;
    EXPECT_EQ(losses(train(world_, run)), losses(train(world_, run))) << data;
  }
}

TEST_F(TrainerOnACard, ARunThatWasInterruptedEndsLikeTheOthers_WhereItIsDeterministic) {
  TrainingOptions whole = on_card(data_);
  whole.deterministic = true;
  whole.dropout = 0.3;
  whole.checkpoint_every = 2;
  whole.out = folder_.path() / "whole";
  const std::vector<double> expected = losses(train(world_, whole));
  whole.out = folder_.path() / "stopped";
  EXPECT_THROW(train(world_, whole, testing::interrupting(7)), testing::Interruption);
  whole.resume = Resume::kAlways;
  EXPECT_EQ(losses(train(world_, whole)), expected);
}

TEST_F(TrainerOnACard, ARunGoesOnOnAnotherDevice) {
  for (const bool to_card : {false, true}) {
    TrainingOptions run = to_card ? options(data_) : on_card(data_);
    run.out = folder_.path() / (to_card ? "to the card" : "from the card");
    EXPECT_THROW(train(world_, run, testing::interrupting(13)), testing::Interruption);
    run.device = to_card ? card_ : torch::Device(torch::kCPU);
    run.resume = Resume::kAlways;
    const TrainingResult result = train(world_, run);
    EXPECT_EQ(result.rows.size(), 4U);
    EXPECT_LT(result.rows.back().loss, result.rows.front().loss);
    for (const torch::Tensor& parameter : result.model->parameters())
      EXPECT_EQ(parameter.device(), run.device);
  }
}

TEST_F(TrainerOnACard, LearnedRowsStayInTheHostsMemory) {
  DistEmbedding table(LearnedTableOptions{.rows = 100, .width = 6, .seed = 4, .optimizer = {.lr = 0.1}}),
      twin(LearnedTableOptions{.rows = 100, .width = 6, .seed = 4, .optimizer = {.lr = 0.1}});
  const torch::Tensor ids = torch::tensor({7, 3, 7}, torch::kInt64);
  for (int step = 0; step < 3; ++step) {
    const torch::Tensor there = table->forward(ids.to(card_)), here = twin->forward(ids);
    EXPECT_EQ(there.device(), card_);
    (there.sum() * 2).backward();
    (here.sum() * 2).backward();
    table->step(world_);
    twin->step(world_);
  }
  EXPECT_TRUE(torch::equal(table->forward(ids.to(card_)).cpu(), twin->forward(ids)));
}

TEST_F(TrainerOnACard, AProgramSaysWhichCardAutoTook_AndRanksShareIt) {
  const std::filesystem::path json = folder_.path() / "summary.json";
  const auto results = trainer_tests::run_ranks(
      {program("node_classification"), "--data", data_.string(), "--fanouts", "4,3", "--epochs", "2",
       "--no-baseline", "--device", "auto", "--json", json.string()},
      2);
  for (const ProgramResult& result : results) EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_NE(results[0].output.find("device auto: cuda:0"), std::string::npos) << results[0].output;
  EXPECT_EQ(read_json(json)["options"]["device"], "cuda:0");
}

TEST_F(TrainerOnACard, TooLittleMemoryIsOneLine) {
  try {
    translate_torch_errors("training", [&] {
      std::vector<torch::Tensor> all;
      for (;;) all.push_back(torch::empty({std::int64_t{1} << 33}, torch::TensorOptions(card_)));
    });
    FAIL() << "no end of memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace) << error.what();
    EXPECT_NE(std::string(error.what()).find("lower --batch-size"), std::string::npos) << error.what();
  }
}

TEST_F(TrainerOnACard, ACardThatIsNotThereIsRefused) {
  try {
    choose_device("cuda:1000");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid) << error.what();
  }
}

}  // namespace
}  // namespace hopfeed
