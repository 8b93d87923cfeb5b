// The layer in one piece against the layer composed of Torch's operations, forward and backward.
#include "trainer/sage_layer.h"

#include <gtest/gtest.h>

#include "tests/trainer/sage_case.h"
#include "trainer/relu_dropout.h"

namespace hopfeed {
namespace {

struct Case : testing::SageCase {
  using SageCase::SageCase;
  torch::Tensor layer(const Activation& activation) const {
    return sage_layer(x, rows(), weights, activation);
  }
  torch::Tensor composed() const {
    const torch::Tensor messages = x.index_select(0, edges.edge_index[0]),
                        zeros = torch::zeros({edges.rows, x.size(1)}, x.options()),
                        ones = torch::ones({edges.edge_index.size(1), 1}, x.options());
    const torch::Tensor degree =
        torch::zeros({edges.rows, 1}, x.options()).index_add(0, edges.edge_index[1], ones).clamp_min(1);
    const torch::Tensor mean = zeros.index_add(0, edges.edge_index[1], messages) / degree;
    return torch::linear(mean, weights.neighbours, weights.bias) +
           torch::linear(x.narrow(0, 0, edges.rows), weights.self);
  }
};

void expect_near(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& expected,
                 double tolerance) {
  const char* names[] = {"x", "neighbours", "bias", "self"};
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::allclose(found[i], expected[i], tolerance, tolerance)) << names[i];
}

TEST(SageLayer, EqualsTheComposedLayerForwardAndBackward) {
  for (const auto& [rows, sources, in, out] : {std::array<std::int64_t, 4>{40, 60, 3, 5},
                                               {1, 1, 1, 1},
                                               {40, 40, 33, 1},
                                               {700, 1'500, 17, 20},
                                               {513, 600, 64, 7}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << in << " to " << out);
    const Case c(rows, sources, in, out, torch::kFloat64);
    const torch::Tensor plain = c.layer({}), relu = c.layer({.relu = true});
    EXPECT_TRUE(torch::allclose(plain, c.composed(), 1e-12, 1e-12));
    EXPECT_TRUE(torch::allclose(relu, torch::relu(c.composed()), 1e-12, 1e-12));
    expect_near(c.gradients(plain), c.gradients(c.composed()), 1e-10);
    expect_near(c.gradients(relu), c.gradients(torch::relu(c.composed())), 1e-10);
  }
}

TEST(SageLayer, ManyRunsOfRowsInSeveralPartialSumsGiveTheSame) {
  const Case c(9'000, 12'000, 8, 6, torch::kFloat64);
  const torch::Tensor out = c.layer({.relu = true});
  EXPECT_TRUE(torch::allclose(out, torch::relu(c.composed()), 1e-12, 1e-12));
  expect_near(c.gradients(out), c.gradients(torch::relu(c.composed())), 1e-9);
}

TEST(SageLayer, InFloat32TheDifferenceIsRounding) {
  const Case c(2'000, 5'000, 100, 64, torch::kFloat32);
  EXPECT_TRUE(torch::allclose(c.layer({}), c.composed(), 1e-4, 1e-4));
  expect_near(c.gradients(c.layer({})), c.gradients(c.composed()), 1e-3);
}

TEST(SageLayer, DropsTheUnitsThatReluDropoutDrops) {
  const Case c(1'500, 2'000, 9, 30, torch::kFloat64);
  torch::manual_seed(7);
  const torch::Tensor whole = c.layer({.relu = true, .drop = 0.4});
  torch::manual_seed(7);
  const torch::Tensor parts = relu_dropout(c.layer({}), 0.4);
  EXPECT_TRUE(torch::equal(whole, parts));
  EXPECT_GT((whole == 0).sum().item<std::int64_t>(), whole.numel() / 2);
  expect_near(c.gradients(whole), c.gradients(parts), 1e-10);
}

TEST(SageLayer, GivesTheSameBitsForAnyNumberOfThreads) {
  const Case c(9'000, 12'000, 40, 24, torch::kFloat32);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    torch::manual_seed(3);
    const torch::Tensor out = c.layer({.relu = true, .drop = 0.2});
    std::vector<torch::Tensor> all = c.gradients(out);
    all.push_back(out);
    return all;
  };
  const auto one = run(1), three = run(3);
  at::set_num_threads(1);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], three[i])) << "result " << i;
}

TEST(SageLayer, NoGradientIsMadeForInputsThatNeedNone) {
  Case c(30, 50, 4, 3, torch::kFloat64);
  c.x.requires_grad_(false);
  const auto gradients = torch::autograd::grad({c.layer({.relu = true}).sum()},
                                               {c.weights.neighbours, c.weights.bias, c.weights.self});
  const auto expected = torch::autograd::grad({torch::relu(c.composed()).sum()},
                                              {c.weights.neighbours, c.weights.bias, c.weights.self});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(torch::allclose(gradients[i], expected[i])) << i;
}

TEST(SageLayer, TakesPaddedAndTransposedInputs) {
  Case c(30, 50, 4, 3, torch::kFloat64);
  const torch::Tensor expected = c.composed(), values = c.x.detach();
  torch::Tensor padded = torch::zeros({50, 7}, torch::kFloat64);
  padded.narrow(1, 0, 4).copy_(values);
  EXPECT_TRUE(torch::allclose(sage_layer(padded.narrow(1, 0, 4), c.rows(), c.weights, {}), expected));
  EXPECT_TRUE(torch::allclose(sage_layer(values.t().contiguous().t(), c.rows(), c.weights, {}), expected));
}

TEST(SageLayer, WithoutEdgesOrRowsItIsTheSelfMap) {
  Case c(3, 5, 4, 2, torch::kFloat64);
  const CompressedRows none = compress_rows(torch::empty({2, 0}, torch::kInt64), 3, 5);
  const torch::Tensor self = torch::linear(c.x.narrow(0, 0, 3), c.weights.self, c.weights.bias);
  EXPECT_TRUE(torch::allclose(sage_layer(c.x, none, c.weights, {}), self));
  const torch::Tensor empty = sage_layer(c.x, none.prefix(0), c.weights, {});
  EXPECT_EQ(empty.size(0), 0);
  for (const torch::Tensor& gradient : c.gradients(empty))
    EXPECT_TRUE(torch::all(gradient == 0).item<bool>());
}

TEST(SageLayer, ANanShows) {
  Case c(3, 5, 4, 2, torch::kFloat64);
  const torch::NoGradGuard no_gradients;
  c.x[0][0] = std::nan("");
  EXPECT_TRUE(c.layer({.relu = true})[0].isnan().all().item<bool>());
}

}  // namespace
}  // namespace hopfeed
