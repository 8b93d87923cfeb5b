// The layers of GPUs, composed of Torch's operations, against the fused ones of the CPU: the same values and
// gradients. Composed they run on the CPU too, which is where they are held against each other.
#include <gtest/gtest.h>

#include "tests/trainer/sage_case.h"
#include "trainer/dequantised.h"
#include "trainer/mean_aggregation.h"
#include "trainer/numerics.h"
#include "trainer/relu_dropout.h"
#include "trainer/sage_layer.h"

namespace hopfeed {
namespace {

using testing::SageCase;

TEST(ComposedLayers, GiveTheFusedLayersValuesAndGradients) {
  for (const auto& [rows, sources, in, out] :
       {std::array<std::int64_t, 4>{40, 60, 3, 5}, {1, 1, 1, 1}, {700, 1'500, 17, 20}, {513, 600, 64, 7}}) {
    SCOPED_TRACE(::testing::Message() << rows << " rows, " << in << " to " << out);
    const SageCase c(rows, sources, in, out, torch::kFloat64);
    for (const Activation& activation : {Activation{}, Activation{.relu = true}}) {
      const torch::Tensor fused = sage_layer(c.x, c.rows(), c.weights, activation),
                          composed = composed_sage_layer(c.x, c.rows(), c.weights, activation);
      EXPECT_TRUE(torch::allclose(composed, fused, 1e-12, 1e-12));
      const auto found = c.gradients(composed), expected = c.gradients(fused);
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-10, 1e-10)) << "gradient " << i;
    }
  }
}

TEST(ComposedLayers, InFloat32TheDifferenceIsRounding) {
  const SageCase c(2'000, 5'000, 100, 64, torch::kFloat32);
  EXPECT_TRUE(torch::allclose(composed_sage_layer(c.x, c.rows(), c.weights, {}),
                              sage_layer(c.x, c.rows(), c.weights, {}), 1e-4, 1e-4));
}

TEST(ComposedLayers, ThePrefixOfRowsIsThatOfTheFusedLayer) {
  const SageCase c(300, 400, 8, 6, torch::kFloat64);
  const CompressedRows some = c.rows().prefix(120);
  EXPECT_TRUE(torch::allclose(composed_sage_layer(c.x, some, c.weights, {}),
                              sage_layer(c.x, some, c.weights, {}), 1e-12, 1e-12));
}

TEST(ComposedLayers, WithoutTheEdgesRows_TheseAreMadeOfTheOffsets) {
  const SageCase c(300, 400, 8, 6, torch::kFloat64);
  CompressedRows rows = c.rows();
  EXPECT_TRUE(torch::equal(rows.destinations(), c.edges.edge_index[1]));
  rows.row = torch::Tensor();
  EXPECT_TRUE(torch::equal(rows.destinations(), c.edges.edge_index[1]));
  EXPECT_TRUE(torch::allclose(composed_mean(c.x, rows), mean_aggregate(c.x, rows), 1e-12, 1e-12));
}

TEST(ComposedLayers, FilledRowsHaveTheirEdgesRowsNumberedAnew) {
  const SageCase c(300, 400, 8, 6, torch::kFloat64);
  const FilledRows filled = FilledRows(c.rows()).below(200);
  EXPECT_LT(filled.ids.size(0), 200);
  EXPECT_TRUE(torch::equal(filled.places, filled.ids));
  const torch::Tensor mean = composed_mean(c.x, filled.rows);
  EXPECT_TRUE(torch::allclose(mean, mean_aggregate(c.x, filled.rows), 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(mean, composed_mean(c.x, c.rows()).index_select(0, filled.ids), 1e-12, 1e-12));
}

TEST(ComposedLayers, WithoutEdgesOrRowsTheyAreTheSelfMap) {
  const SageCase c(3, 5, 4, 2, torch::kFloat64);
  const CompressedRows none = compress_rows(torch::empty({2, 0}, torch::kInt64), 3, 5);
  const torch::Tensor self = torch::linear(c.x.narrow(0, 0, 3), c.weights.self, c.weights.bias);
  EXPECT_TRUE(torch::allclose(composed_sage_layer(c.x, none, c.weights, {}), self));
  EXPECT_EQ(composed_sage_layer(c.x, none.prefix(0), c.weights, {}).size(0), 0);
}

TEST(ComposedLayers, UnderAutocast_ProductsAreBfloat16AndMeansFloat32) {
  const SageCase c(300, 400, 16, 12, torch::kFloat32);
  const torch::Tensor exact = sage_layer(c.x, c.rows(), c.weights, {.relu = true});
  const PrecisionScope scope(torch::kCPU, Precision::kBf16);
  EXPECT_FALSE(fused_layers_take(c.x));
  const torch::Tensor out = sage_layer(c.x, c.rows(), c.weights, {.relu = true});
  EXPECT_EQ(out.dtype(), torch::kBFloat16);
  EXPECT_EQ(mean_aggregate(out, c.rows().prefix(0)).dtype(), torch::kFloat32) << "of half floats too";
  EXPECT_TRUE(torch::allclose(out.to(torch::kFloat32), exact, 0.05, 0.1));
  for (const torch::Tensor& gradient : c.gradients(out)) EXPECT_EQ(gradient.dtype(), torch::kFloat32);
}

TEST(ComposedLayers, ReluDropoutDropsItsShareAndScalesTheRest) {
  torch::manual_seed(5);
  const torch::Tensor x = torch::ones({400, 50}, torch::kBFloat16), out = relu_dropout(x, 0.25);
  const double kept = (out > 0).sum().item<double>() / static_cast<double>(out.numel());
  EXPECT_NEAR(kept, 0.75, 0.02);
  EXPECT_NEAR(out.max().item<double>(), 1 / 0.75, 0.01);
  EXPECT_TRUE(torch::equal(relu_dropout(-x, 0), torch::zeros_like(x)));
}

// What a device does to the bytes of a block, against the CPU's own code.
TEST(ComposedLayers, RowsWithAScale_AreTheSameBitsByTorchsOperations) {
  torch::manual_seed(1);
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    for (const std::int64_t elements : {1, 2, 7, 100, 143}) {
      const std::int64_t count = 50, row_bytes = quantised_row_bytes(type, elements);
      const torch::Tensor values = torch::randn({count, elements}) * 10;
      torch::Tensor rows = torch::zeros({count, row_bytes}, torch::kUInt8);
      auto* const first = reinterpret_cast<std::byte*>(rows.mutable_data_ptr<std::uint8_t>());
      for (std::int64_t i = 0; i < count; ++i)
        quantise_row(type,
                     {values.const_data_ptr<float>() + i * elements, static_cast<std::size_t>(elements)},
                     first + i * row_bytes);
      const torch::Tensor expected = dequantised(
          {.type = type, .elements = elements, .stride_bytes = row_bytes, .count = count, .rows = first},
          {count, elements});
      EXPECT_TRUE(torch::equal(dequantised(type, rows, {count, elements}), expected))
          << to_string(type) << " of " << elements;
      EXPECT_EQ(dequantised(type, rows.narrow(0, 0, 0), {0, elements}).sizes(),
                (std::vector<std::int64_t>{0, elements}));
    }
  }
}

}  // namespace
}  // namespace hopfeed
