// Makes random edges, rows and weights for one layer, and the gradients of a layer that was made of them.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "tests/trainer/random_edges.h"
#include "trainer/compressed_rows.h"
#include "trainer/sage_layer.h"

namespace hopfeed::testing {

struct SageCase {
  Edges edges;
  torch::Tensor x;
  SageWeights weights;

  SageCase(std::int64_t rows, std::int64_t sources, std::int64_t in, std::int64_t out, torch::Dtype dtype)
      : edges(random_edges(rows, sources, 6, static_cast<std::uint64_t>(rows + in))) {
    torch::manual_seed(static_cast<std::uint64_t>(rows + out));
    const auto random = [dtype](c10::IntArrayRef shape) {
      return torch::randn(shape, dtype).requires_grad_();
    };
    x = random({sources, in});
    weights = {.neighbours = random({out, in}), .bias = random({out}), .self = random({out, in})};
  }
  CompressedRows rows() const { return compress_rows(edges.edge_index, edges.rows, edges.sources); }
  /// Returns the gradients of a sum of the outputs with random weights: for x, neighbours, bias and self.
  std::vector<torch::Tensor> gradients(const torch::Tensor& out) const {
    torch::manual_seed(99);
    return torch::autograd::grad({(out * torch::randn_like(out)).sum()},
                                 {x, weights.neighbours, weights.bias, weights.self});
  }
};

}  // namespace hopfeed::testing
