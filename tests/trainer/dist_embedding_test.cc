// The learned table as a module against Torch's own optimizers of sparse gradients, and what it promises
// beside: rows that no batch reads cost nothing and stay as they are, the same bits on every number of
// threads and after a checkpoint.
#include "trainer/dist_embedding.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/trainer/processes.h"
#include "trainer/checkpoint.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

constexpr LearnedTableOptions kSmall{.rows = 50, .width = 5, .seed = 9, .optimizer = {.lr = 0.05}};

torch::Tensor all_rows(DistEmbedding& table) {
  const torch::NoGradGuard no_gradients;
  return table->forward(torch::arange(table->table().options().rows));
}

struct Model : torch::nn::Module {
  explicit Model(const LearnedTableOptions& options)
      : table(register_module("table", DistEmbedding(options))),
        linear(register_module("linear", torch::nn::Linear(5, 1))) {}
  DistEmbedding table;
  torch::nn::Linear linear;
};

/// A step whose gradient of row ids[i] is gradients[i].
void take_step(DistEmbedding& table, World& world, const torch::Tensor& ids, const torch::Tensor& gradients) {
  (table->forward(ids) * gradients).sum().backward();
  table->step(world);
}

class DistEmbeddingTest : public ::testing::Test {
 protected:
  DistEmbeddingTest() { torch::manual_seed(5); }
  ~DistEmbeddingTest() override { at::set_num_threads(1); }
  World world_;
};

/// Python's own optimizer over the same rows and gradients; raw float32 and int64 in, raw float32 out.
constexpr const char* kTorchsOptimizer = R"(
import sys, numpy, torch
folder, steps, read, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
lr, optimizer = float(sys.argv[5]), getattr(torch.optim, sys.argv[6])
table = numpy.fromfile(folder + "/table", numpy.float32).reshape(-1, width)
ids = torch.from_numpy(numpy.fromfile(folder + "/ids", numpy.int64).reshape(steps, read))
gradients = torch.from_numpy(numpy.fromfile(folder + "/gradients", numpy.float32).reshape(steps, read, width))
embedding = torch.nn.Embedding.from_pretrained(torch.from_numpy(table), freeze=False, sparse=True)
optimizer = optimizer(embedding.parameters(), lr=lr)
for step in range(steps):
    optimizer.zero_grad()
    (embedding(ids[step]) * gradients[step]).sum().backward()
    optimizer.step()
embedding.weight.detach().numpy().tofile(folder + "/result")
)";

void write_raw(const std::filesystem::path& path, const torch::Tensor& values) {
  std::ofstream(path, std::ios::binary)
      .write(static_cast<const char*>(values.const_data_ptr()),
             static_cast<std::streamsize>(values.nbytes()));
}

/// Learns 30 steps here and there.
void expect_torchs(World& world, const RowOptimizerOptions& optimizer, const char* theirs_is) {
  constexpr std::int64_t kSteps = 30, kRead = 12;
  const TempFolder folder;
  LearnedTableOptions options = kSmall;
  options.optimizer = optimizer;
  DistEmbedding table(options);
  const torch::Tensor ids = torch::randint(20, {kSteps, kRead},
                                           torch::kInt64),  // with repeats, and rows that rest
      gradients = torch::randn({kSteps, kRead, kSmall.width});
  write_raw(folder.path() / "table", all_rows(table));
  write_raw(folder.path() / "ids", ids);
  write_raw(folder.path() / "gradients", gradients);
  const auto python = trainer_tests::run_program(
      {HOPFEED_TEST_PYTHON, "-c", kTorchsOptimizer, folder.path().string(), std::to_string(kSteps),
       std::to_string(kRead), std::to_string(kSmall.width), std::to_string(optimizer.lr), theirs_is});
  ASSERT_EQ(python.status, 0) << python.output;
  for (std::int64_t step = 0; step < kSteps; ++step) take_step(table, world, ids[step], gradients[step]);
  torch::Tensor theirs = torch::empty({kSmall.rows, kSmall.width});
  std::ifstream(folder.path() / "result", std::ios::binary)
      .read(static_cast<char*>(theirs.mutable_data_ptr()), static_cast<std::streamsize>(theirs.nbytes()));
  const torch::Tensor mine = all_rows(table);
  EXPECT_TRUE(torch::allclose(mine, theirs, 1e-5, 1e-6)) << theirs_is << (mine - theirs).abs().max();
  EXPECT_FALSE(
      torch::equal(mine.narrow(0, 0, 20), all_rows(table = DistEmbedding(options)).narrow(0, 0, 20)));
  EXPECT_TRUE(torch::equal(mine.narrow(0, 20, 30), theirs.narrow(0, 20, 30)));
}

TEST_F(DistEmbeddingTest, EqualsTorchsOptimizers) {
  expect_torchs(world_, {.lr = 0.05}, "SparseAdam");
  expect_torchs(world_, {.optimizer = RowOptimizer::kAdagrad, .lr = 0.05, .epsilon = 1e-10}, "Adagrad");
  expect_torchs(world_, {.optimizer = RowOptimizer::kSgd, .lr = 0.05}, "SGD");
}

// The first step of Adam moves each weight by lr against the sign of its gradient, but for epsilon.
TEST_F(DistEmbeddingTest, TheFirstStepIsTheLearningRate) {
  DistEmbedding table(kSmall);
  const torch::Tensor before = all_rows(table);
  take_step(table, world_, torch::tensor({3, 40}, torch::kInt64),
            torch::tensor({{1.F, -2.F, 100.F, -.5F, 0.F}, {-1.F, 1.F, -1.F, 1.F, -1.F}}));
  const torch::Tensor moved = all_rows(table) - before;
  const float lr = 0.05F;
  EXPECT_TRUE(torch::allclose(moved[3], torch::tensor({-lr, lr, -lr, lr, 0.F}), 1e-4, 1e-7)) << moved[3];
  EXPECT_TRUE(torch::allclose(moved[40], torch::tensor({lr, -lr, lr, -lr, lr}), 1e-4, 1e-7)) << moved[40];
}

TEST_F(DistEmbeddingTest, RowsThatNoBatchReadStayAsTheyAre) {
  DistEmbedding table(kSmall);
  const torch::Tensor before = all_rows(table);
  for (int step = 0; step < 3; ++step)
    take_step(table, world_, torch::tensor({3, 40, 3}, torch::kInt64), torch::ones({3, kSmall.width}));
  const torch::Tensor same = (all_rows(table) == before).all(1);
  EXPECT_EQ(same.sum().item<std::int64_t>(), kSmall.rows - 2);
  EXPECT_FALSE(same[3].item<bool>());
  EXPECT_EQ(table->table().num_learned(), 2);
  EXPECT_EQ(table->table().count().steps, 3);
}

TEST_F(DistEmbeddingTest, ALookupThatNoLossSaw_OrOneForgotten_OrOfEvaluation_LearnsNothing) {
  DistEmbedding table(kSmall);
  table->forward(torch::arange(5));
  table->step(world_);
  (table->forward(torch::arange(5)).sum()).backward();
  table->forget();
  table->step(world_);
  table->eval();
  EXPECT_FALSE(table->forward(torch::arange(5)).requires_grad());
  table->step(world_);
  EXPECT_EQ(table->table().num_learned(), 0);
  EXPECT_EQ(table->table().count().steps, 0);
}

TEST_F(DistEmbeddingTest, FirstValuesAreOfTheirSeedAndRowsOfLengthOne) {
  DistEmbedding one(LearnedTableOptions{.rows = 4'000, .width = 64, .seed = 1}),
      again(LearnedTableOptions{.rows = 4'000, .width = 64, .seed = 1}),
      other(LearnedTableOptions{.rows = 4'000, .width = 64, .seed = 2});
  const torch::Tensor rows = all_rows(one);
  EXPECT_TRUE(torch::equal(rows, all_rows(again)));
  EXPECT_FALSE(torch::equal(rows, all_rows(other)));
  EXPECT_NEAR(rows.square().sum(1).mean().item<double>(), 1, 0.01);
  EXPECT_NEAR(rows.mean().item<double>(), 0, 0.001);
  EXPECT_LE(rows.abs().max().item<double>(), std::sqrt(3.0 / 64));
  // Rows are as good as independent: products of neighbours are about 0.
  EXPECT_NEAR((rows.narrow(0, 1, 3'999) * rows.narrow(0, 0, 3'999)).sum(1).mean().item<double>(), 0, 0.01);
}

TEST_F(DistEmbeddingTest, TheSameBitsOnAnyNumberOfThreads) {
  const torch::Tensor ids = torch::randint(3'000, {4, 5'000}, torch::kInt64),
                      gradients = torch::randn({4, 5'000, 16});
  std::vector<torch::Tensor> results;
  for (const int threads : {1, 3}) {
    at::set_num_threads(threads);
    DistEmbedding table(LearnedTableOptions{.rows = 3'000, .width = 16});
    for (std::int64_t step = 0; step < 4; ++step) take_step(table, world_, ids[step], gradients[step]);
    EXPECT_EQ(table->table().num_learned(), std::get<0>(torch::_unique(ids)).numel());
    results.push_back(all_rows(table));
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
}

// 320 million weights: dense, a step would write 1.3 GB and the optimizer's state twice as much.
TEST_F(DistEmbeddingTest, MemoryIsThatOfTheRowsThatWereRead) {
  DistEmbedding table(LearnedTableOptions{.rows = 5'000'000, .width = 64});
  const std::size_t before = testing::resident_bytes(getpid());
  for (std::int64_t step = 0; step < 3; ++step) {
    const torch::Tensor ids = torch::arange(1'000) * 4'999 + step;
    take_step(table, world_, ids, torch::ones({1'000, 64}));
  }
  EXPECT_EQ(table->table().num_learned(), 3'000);
  EXPECT_LT(testing::resident_bytes(getpid()) - before, std::size_t{100} << 20);
}

TEST_F(DistEmbeddingTest, ACheckpointBringsBackTheVeryBits) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "model.checkpoint";
  const torch::Tensor ids = torch::randint(20, {6, 8}, torch::kInt64), gradients = torch::randn({6, 8, 5});
  Model run(kSmall);
  torch::optim::Adam adam(run.parameters());
  for (std::int64_t step = 0; step < 3; ++step) take_step(run.table, world_, ids[step], gradients[step]);
  save_checkpoint(path, run, adam, {}, {}, world_);

  Model resumed(kSmall);  // its own past is forgotten
  take_step(resumed.table, world_, torch::arange(50), torch::randn({50, 5}));
  torch::optim::Adam other(resumed.parameters());
  load_checkpoint(path, resumed, other, {}, world_);
  EXPECT_EQ(resumed.table->table().num_learned(), run.table->table().num_learned());
  for (std::int64_t step = 3; step < 6; ++step) {
    take_step(run.table, world_, ids[step], gradients[step]);
    take_step(resumed.table, world_, ids[step], gradients[step]);
  }
  take_step(run.table, world_, torch::arange(50), torch::ones({50, 5}));
  take_step(resumed.table, world_, torch::arange(50), torch::ones({50, 5}));
  EXPECT_TRUE(torch::equal(all_rows(run.table), all_rows(resumed.table)));

  LearnedTableOptions larger = kSmall;
  larger.rows = 51;
  Model another(larger);
  torch::optim::Adam third(another.parameters());
  try {
    load_checkpoint(path, another, third, {}, world_);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
}

TEST_F(DistEmbeddingTest, AModelFileHasTheValuesAlone) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "model.pt";
  Model run(kSmall);
  const torch::Tensor ids = torch::tensor({3, 40, 7}, torch::kInt64);
  for (int step = 0; step < 3; ++step) take_step(run.table, world_, ids, torch::randn({3, kSmall.width}));
  save_model(path, run);

  const torch::jit::Module file = torch::jit::load(path.string());
  const torch::jit::Module table = file.attr("table").toModule();
  EXPECT_TRUE(torch::equal(table.attr("learned").toTensor(), torch::tensor({3, 7, 40}, torch::kInt64)));
  EXPECT_TRUE(torch::equal(table.attr("rows").toTensor(),
                           all_rows(run.table).index_select(0, torch::tensor({3, 7, 40}, torch::kInt64))));
  EXPECT_TRUE(torch::equal(file.attr("linear").toModule().attr("weight").toTensor(), run.linear->weight));

  Model loaded(kSmall);
  take_step(loaded.table, world_, torch::arange(50), torch::randn({50, kSmall.width}));
  load_model(path, loaded);
  EXPECT_TRUE(torch::equal(all_rows(run.table), all_rows(loaded.table)));
  EXPECT_TRUE(torch::equal(run.linear->weight, loaded.linear->weight));
  EXPECT_EQ(loaded.table->table().num_learned(), 3);
  EXPECT_EQ(loaded.table->table().count().steps, 0);
  // Its optimizer begins anew: the first step is the learning rate.
  take_step(loaded.table, world_, torch::tensor({3}, torch::kInt64), torch::ones({1, kSmall.width}));
  EXPECT_TRUE(torch::allclose(all_rows(run.table)[3] - all_rows(loaded.table)[3],
                              torch::full({kSmall.width}, static_cast<float>(kSmall.optimizer.lr)), 1e-4,
                              1e-6));

  save_model(path, *run.table);  // a table may also be the whole model
  DistEmbedding alone(kSmall);
  load_model(path, *alone);
  EXPECT_TRUE(torch::equal(all_rows(run.table), all_rows(alone)));
}

TEST_F(DistEmbeddingTest, WhatCannotBeIsOneLineThatNamesIt) {
  const auto refusal = [](auto body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  DistEmbedding table(kSmall);
  for (const std::int64_t id : {std::int64_t{-1}, kSmall.rows}) {
    const std::string line = refusal([&] { table->forward(torch::tensor({std::int64_t{0}, id})); });
    EXPECT_NE(line.find("node " + std::to_string(id) + " has no row"), std::string::npos) << line;
  }
  const auto made = [&](LearnedTableOptions options) { return refusal([&] { DistEmbedding{options}; }); };
  EXPECT_NE(made({.rows = -1}).find("-1 rows"), std::string::npos);
  EXPECT_NE(made({.rows = kMaxEmbeddingElements / 64 + 1}).find("rows of 64"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .width = 0}).find("width is 0"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .width = kMaxHidden + 1}).find("width"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .optimizer = {.lr = 0}}).find("lr of learned rows is 0"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .optimizer = {.beta1 = 1}}).find("beta1"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .optimizer = {.beta2 = -1}}).find("beta2"), std::string::npos);
  EXPECT_NE(made({.rows = 5, .optimizer = {.epsilon = 0}}).find("epsilon"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
