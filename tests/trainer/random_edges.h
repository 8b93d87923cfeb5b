// Makes edges as a batch has them, for tests of layers.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <vector>

namespace hopfeed::testing {

struct Edges {
  std::int64_t rows, sources;
  torch::Tensor edge_index;
};

/// Makes edges with destinations grouped, some without edges, and repeated edges.
inline Edges random_edges(std::int64_t rows, std::int64_t sources, std::int64_t max_degree,
                          std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> source, destination;
  for (std::int64_t d = 0; d < rows; ++d) {
    const std::int64_t degree = d % 5 == 3 ? 0 : static_cast<std::int64_t>(random() % (max_degree + 1));
    for (std::int64_t k = 0; k < degree; ++k) {
      source.push_back(static_cast<std::int64_t>(random() % sources));
      destination.push_back(d);
    }
  }
  return {rows, sources,
          torch::stack({torch::tensor(source, torch::kInt64), torch::tensor(destination, torch::kInt64)})
              .contiguous()};
}

}  // namespace hopfeed::testing
