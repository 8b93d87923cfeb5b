// See row_products.h.
#include "trainer/row_products.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "core/base/parallel_ranges.h"

namespace hopfeed {
namespace {

/// While it lives, an operation of Torch is one thread's: so are its sums, whatever this machine has.
class OneThreadEach {
 public:
  OneThreadEach() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThreadEach() { at::set_num_threads(before_); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

 private:
  const int before_;
};

}  // namespace

RowProducts::RowProducts(std::vector<RowTerm> terms, const torch::Tensor& bias, bool relu, std::int64_t width,
                         torch::Device device)
    : relu_(relu), width_(width), device_(device) {
  std::vector<torch::Tensor> weights;
  for (RowTerm& term : terms) {
    if (!term.weight.defined()) {
      added_.push_back(std::move(term));
      continue;
    }
    depth_ += term.width;
    weights.push_back(term.weight.t());
    multiplied_.push_back(std::move(term));
  }
  if (!weights.empty()) set_weights(weights, width, device);
  if (bias.defined()) bias_.assign(bias.const_data_ptr<float>(), bias.const_data_ptr<float>() + bias.numel());
}

void RowProducts::set_weights(const std::vector<torch::Tensor>& weights, std::int64_t width,
                              torch::Device device) {
  const std::int64_t zeros = (kProductColumns - width % kProductColumns) % kProductColumns;
  weights_ = torch::constant_pad_nd(torch::cat(weights, 0), {0, zeros}).contiguous().to(device);
}

/// One thread's buffers.
class RowProducts::Block {
 public:
  explicit Block(const RowProducts& stage)
      : stage_(stage),
        added_(stage.added_.empty() ? 0 : static_cast<std::size_t>(kProductRows * stage.width_)) {
    if (stage.multiplied_.empty()) return;
    in_ = torch::zeros({kProductRows, stage.depth_});
    out_ = torch::empty({kProductRows, stage.weights_.size(1)});
  }

  void compute(int part, std::int64_t begin, std::int64_t end, float* out) {
    const std::int64_t rows = end - begin;
    bool empty = stage_.multiplied_.empty();  // nothing is in `out` yet
    if (!empty) multiply(part, begin, end, out);
    for (const RowTerm& term : stage_.added_) {
      term.write(part, begin, end, empty ? out : added_.data(), stage_.width_);
      if (!empty)
        for (std::int64_t i = 0; i < rows * stage_.width_; ++i) out[i] += added_[static_cast<std::size_t>(i)];
      empty = false;
    }
    for (std::int64_t row = 0; row < rows; ++row) finish(out + row * stage_.width_);
  }

 private:
  void multiply(int part, std::int64_t begin, std::int64_t end, float* out) {
    float* at = in_.mutable_data_ptr<float>();
    for (const RowTerm& term : stage_.multiplied_) {
      term.write(part, begin, end, at, stage_.depth_);
      at += term.width;
    }
    const std::int64_t rows = end - begin;
    if (rows < kProductRows) in_.narrow(0, rows, kProductRows - rows).zero_();
    if (stage_.device_.is_cpu())
      at::mm_out(out_, in_, stage_.weights_);
    else
      out_.copy_(at::mm(in_.to(stage_.device_), stage_.weights_));
    const float* const products = out_.const_data_ptr<float>();
    for (std::int64_t row = 0; row < rows; ++row)
      std::copy_n(products + row * out_.size(1), stage_.width_, out + row * stage_.width_);
  }

  /// A NaN stays one, as in torch::relu.
  void finish(float* row) const {
    if (!stage_.bias_.empty())
      for (std::int64_t f = 0; f < stage_.width_; ++f) row[f] += stage_.bias_[static_cast<std::size_t>(f)];
    if (stage_.relu_)
      for (std::int64_t f = 0; f < stage_.width_; ++f) row[f] = row[f] <= 0.0F ? 0.0F : row[f];
  }

  const RowProducts& stage_;
  torch::Tensor in_, out_;
  std::vector<float> added_;
};

void RowProducts::compute(int part, std::int64_t begin, std::int64_t end, int threads, float* out) const {
  const OneThreadEach one;
  const std::int64_t blocks = (end - begin + kProductRows - 1) / kProductRows;
  std::atomic<std::int64_t> next{0};
  parallel_ranges(static_cast<int>(std::min<std::int64_t>(threads, blocks)), threads,
                  [&](int, std::int64_t, std::int64_t) {
                    const torch::NoGradGuard no_gradients;
                    std::optional<Block> block;
                    for (std::int64_t i = next++; i < blocks; i = next++) {
                      if (!block) block.emplace(*this);
                      const std::int64_t first = begin + i * kProductRows;
                      block->compute(part, first, std::min(first + kProductRows, end),
                                     out + (first - begin) * width_);
                    }
                  });
}

}  // namespace hopfeed
