// The mean aggregation against one that is obviously right, forward and backward.
#include "trainer/mean_aggregation.h"

#include <gtest/gtest.h>

#include "tests/trainer/random_edges.h"

namespace hopfeed {
namespace {

using testing::Edges;
using testing::random_edges;

/// Message by message, in the order of the edges.
torch::Tensor serial_mean(const torch::Tensor& x, const Edges& edges) {
  torch::Tensor sum = torch::zeros({edges.rows, x.size(1)}, x.options()),
                count = torch::zeros({edges.rows, 1}, x.options());
  for (std::int64_t k = 0; k < edges.edge_index.size(1); ++k) {
    const auto source = edges.edge_index[0][k].item<std::int64_t>(),
               destination = edges.edge_index[1][k].item<std::int64_t>();
    sum[destination] += x[source];
    count[destination] += 1;
  }
  return sum / count.clamp_min(1);
}

torch::Tensor aggregate(const torch::Tensor& x, const Edges& edges) {
  return mean_aggregate(x, compress_rows(edges.edge_index, edges.rows, edges.sources));
}

TEST(MeanAggregation, EqualsTheSerialMeanForEveryWidth) {
  for (const std::int64_t width : {1, 3, 16, 57, 64, 130, 256}) {
    const Edges edges = random_edges(40, 60, 9, static_cast<std::uint64_t>(width));
    const torch::Tensor x = torch::randn({edges.sources, width});
    EXPECT_TRUE(torch::allclose(aggregate(x, edges), serial_mean(x, edges), 1e-6, 1e-6)) << "width " << width;
    const torch::Tensor wide = x.to(torch::kFloat64);
    EXPECT_TRUE(torch::allclose(aggregate(wide, edges), serial_mean(wide, edges), 1e-14, 1e-14))
        << "width " << width;
  }
}

TEST(MeanAggregation, RowsWithoutNeighboursAreZero) {
  const Edges edges{3, 4, torch::tensor({{1, 2}, {1, 1}}, torch::kInt64)};
  const torch::Tensor x = torch::tensor({{1.f, 2.f}, {3.f, 5.f}, {5.f, 9.f}, {7.f, 7.f}});
  EXPECT_TRUE(torch::equal(aggregate(x, edges), torch::tensor({{0.f, 0.f}, {4.f, 7.f}, {0.f, 0.f}})));
}

TEST(MeanAggregation, ABatchWithoutEdgesGivesZeros) {
  const Edges edges{3, 3, torch::empty({2, 0}, torch::kInt64)};
  EXPECT_TRUE(torch::equal(aggregate(torch::ones({3, 4}), edges), torch::zeros({3, 4})));
}

TEST(MeanAggregation, BackwardEqualsTheSerialMeansBackward) {
  const Edges edges = random_edges(30, 50, 8, 5);
  const torch::Tensor weights = torch::randn({edges.rows, 33}, torch::kFloat64);
  torch::Tensor x = torch::randn({edges.sources, 33}, torch::kFloat64).requires_grad_(),
                y = x.detach().clone().requires_grad_();
  (aggregate(x, edges) * weights).sum().backward();
  (serial_mean(y, edges) * weights).sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), y.grad(), 1e-13, 1e-13));
}

TEST(MeanAggregation, BackwardEqualsCentralDifferences) {
  const Edges edges = random_edges(8, 12, 5, 9);
  const auto loss = [&](const torch::Tensor& at) { return aggregate(at, edges).pow(3).sum(); };
  torch::Tensor x = torch::randn({edges.sources, 3}, torch::kFloat64).requires_grad_();
  loss(x).backward();
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    torch::Tensor up = x.detach().clone(), down = x.detach().clone();
    up.view(-1)[i] += kStep;
    down.view(-1)[i] -= kStep;
    const double numeric = (loss(up) - loss(down)).item<double>() / (2 * kStep);
    EXPECT_NEAR(x.grad().view(-1)[i].item<double>(), numeric, 1e-7) << "element " << i;
  }
}

TEST(MeanAggregation, GivesTheSameBitsForAnyNumberOfThreads) {
  const Edges edges = random_edges(5'000, 8'000, 12, 11);
  const torch::Tensor weights = torch::randn({edges.rows, 40}), values = torch::randn({edges.sources, 40});
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    torch::Tensor x = values.clone().requires_grad_();
    const torch::Tensor out = aggregate(x, edges);
    (out * weights).sum().backward();
    return torch::cat({out.detach(), x.grad()});
  };
  const torch::Tensor one = run(1), four = run(4);
  at::set_num_threads(1);
  EXPECT_TRUE(torch::equal(one, four));
}

TEST(MeanAggregation, APrefixOfTheRowsIsTheRowsOfThePrefix) {
  const Edges edges = random_edges(20, 30, 6, 3);
  const torch::Tensor x = torch::randn({edges.sources, 7});
  const CompressedRows rows = compress_rows(edges.edge_index, edges.rows, edges.sources);
  EXPECT_TRUE(torch::equal(mean_aggregate(x, rows.prefix(12)), mean_aggregate(x, rows).narrow(0, 0, 12)));
  EXPECT_EQ(mean_aggregate(x, rows.prefix(0)).size(0), 0);
}

}  // namespace
}  // namespace hopfeed
