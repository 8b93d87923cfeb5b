// Computes a stage's rows for a run of nodes: gathers and averages what its terms read, and multiplies. A row
// has the same bits wherever it is computed: its products come in zero-padded blocks of one fixed height,
// each by one thread, and its sums run over its own edges in their order.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace hopfeed {

/// Rows of a block of products, and what its columns are a multiple of, by zeros. With Torch 2.11 a row has
/// the same bits wherever it lies in such a block; of 5, 6, 7 or 10 columns it has not.
inline constexpr std::int64_t kProductRows = 2'048, kProductColumns = 16;

/// A RowTerm writes what a term reads for the rows [begin, end) of a partition, float32, to out + i * stride
/// (elements). It is called by several threads at a time.
struct RowTerm {
  std::function<void(int part, std::int64_t begin, std::int64_t end, float* out, std::int64_t stride)> write;
  std::int64_t width = 0;
  torch::Tensor weight = {};  // [out, width]; undefined: it is added as it is
};

class RowProducts {
 public:
  /// Computes out = relu(sum of terms + bias); `bias` and `relu` may be left out. Products are computed on
  /// `device`.
  RowProducts(std::vector<RowTerm> terms, const torch::Tensor& bias, bool relu, std::int64_t width,
              torch::Device device);
  /// Computes the rows [begin, end) of a partition into `out`, dense. Inside, Torch is told to use one thread
  /// for each of `threads`.
  void compute(int part, std::int64_t begin, std::int64_t end, int threads, float* out) const;

 private:
  class Block;
  void set_weights(const std::vector<torch::Tensor>& weights, std::int64_t width, torch::Device device);
  std::vector<RowTerm> multiplied_, added_;
  torch::Tensor weights_;  // [sum of widths, out and zeros], on the device
  std::vector<float> bias_;
  const bool relu_;
  const std::int64_t width_;
  std::int64_t depth_ = 0;  // sum of widths
  const torch::Device device_;
};

}  // namespace hopfeed
