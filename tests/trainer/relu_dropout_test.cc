// ReLU with dropout: what is kept, how often, and that nothing but the generator's state decides.
#include "trainer/relu_dropout.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hopfeed {
namespace {

TEST(ReluDropout, KeptUnitsAreScaledAndNegativeOnesAreZero) {
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({200, 33}), out = relu_dropout(x, 0.25);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float in = x.view(-1)[i].item<float>(), value = out.view(-1)[i].item<float>();
    if (in <= 0)
      EXPECT_EQ(value, 0);
    else
      EXPECT_TRUE(value == 0 || std::abs(value - in / 0.75f) < 1e-6f * in + 1e-7f)
          << in << " became " << value;
  }
}

TEST(ReluDropout, DropsEachUnitWithTheGivenProbability) {
  torch::manual_seed(2);
  constexpr std::int64_t kRows = 2'000, kWidth = 64, kCalls = 20;
  for (const double drop : {0.1, 0.3, 0.5, 0.9}) {
    torch::Tensor dropped = torch::zeros({kRows, kWidth});
    for (std::int64_t call = 0; call < kCalls; ++call)
      dropped += (relu_dropout(torch::ones({kRows, kWidth}), drop) == 0).to(torch::kFloat32);
    const auto near = [&](double count, double trials, const char* what) {  // five standard deviations
      EXPECT_LE(std::abs(count - drop * trials), 5 * std::sqrt(trials * drop * (1 - drop)))
          << what << ", drop " << drop;
    };
    near(dropped.sum().item<double>(), kRows * kWidth * kCalls, "all");
    for (std::int64_t f = 0; f < kWidth; ++f)
      near(dropped.select(1, f).sum().item<double>(), kRows * kCalls, "a column");
    for (std::int64_t r = 0; r < kRows; r += 50)
      near(dropped[r].sum().item<double>(), kWidth * kCalls, "a row");
  }
}

TEST(ReluDropout, NeighbouringUnitsAndCallsAreIndependent) {
  torch::manual_seed(3);
  constexpr double kTrials = 1'000 * 999;
  const torch::Tensor a = (relu_dropout(torch::ones({1'000, 1'000}), 0.5) == 0).to(torch::kFloat64);
  const torch::Tensor b = (relu_dropout(torch::ones({1'000, 1'000}), 0.5) == 0).to(torch::kFloat64);
  const auto both = [](const torch::Tensor& x, const torch::Tensor& y) {
    return (x * y).sum().item<double>();
  };
  const double bound = 5 * std::sqrt(kTrials * 0.25 * 0.75);
  EXPECT_NEAR(both(a.narrow(0, 0, 999), a.narrow(0, 1, 999)), kTrials / 4, bound) << "rows";
  EXPECT_NEAR(both(a.narrow(1, 0, 999), a.narrow(1, 1, 999)), kTrials / 4, bound) << "columns";
  EXPECT_NEAR(both(a.narrow(0, 0, 999), b.narrow(0, 0, 999)), kTrials / 4, bound) << "calls";
}

TEST(ReluDropout, TheGeneratorsStateDecides_NotTheThreads) {
  const torch::Tensor x = torch::randn({5'000, 40});
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    torch::manual_seed(4);
    return std::pair{relu_dropout(x, 0.3), relu_dropout(x, 0.3)};
  };
  const auto one = run(1), four = run(4);
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(one.first, four.first));
  EXPECT_TRUE(torch::equal(one.second, four.second));
  EXPECT_FALSE(torch::equal(one.first, one.second));
}

TEST(ReluDropout, BackwardPassesExactlyWhereForwardDid) {
  torch::manual_seed(5);
  torch::Tensor x = torch::randn({100, 7}, torch::kFloat64).requires_grad_();
  const torch::Tensor out = relu_dropout(x, 0.4), weights = torch::randn({100, 7}, torch::kFloat64);
  (out * weights).sum().backward();
  const torch::Tensor expected = (out.detach() > 0).to(torch::kFloat64) * weights / 0.6;
  EXPECT_TRUE(torch::allclose(x.grad(), expected, 1e-14, 1e-14));
}

}  // namespace
}  // namespace hopfeed
