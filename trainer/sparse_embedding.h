// SparseEmbedding has a learned row for each of very many nodes; a step costs what its batch reads, however
// many rows there are: a dense gradient and optimizer of 320 million weights would take half a second.
//
// The optimizer is torch.optim.SparseAdam, to its formula: the rows of a step get their running means and
// their values moved, all other rows keep both (plain Adam would decay their means and move them too), and
// the bias corrections count the steps of the whole table, not those of the row. No weight decay, which would
// move every row.
//
// Rows lie in memory as [values | running means | running squares], one run of cache lines each, in a mapping
// whose pages come into being with the first step on a row: before that a row's values are a function of
// (seed, row) and need no memory. So a checkpoint holds the rows that were learned, and ranks agree about all
// others without a word.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/world.h"

namespace hopfeed {

struct SparseEmbeddingOptions {
  std::int64_t rows = 0;
  std::int64_t width = 64;
  std::uint64_t seed = 0;  // of the first values: uniform, a row's length is 1 in the mean
  double lr = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

class SparseEmbeddingImpl : public torch::nn::Module {
 public:
  /// Throws kInvalid naming the option, kNoSpace where the machine has not the memory for all rows.
  explicit SparseEmbeddingImpl(const SparseEmbeddingOptions& options);

  /// Returns the rows of `ids` (int64 [n], repeats allowed): float32 [n, width], copies, on the device of the
  /// ids; the table stays in the host's memory. While training, and where gradients are recorded, the copy is
  /// a leaf, and the next step() takes its gradient. Throws kInvalid for an id that has no row.
  torch::Tensor forward(const torch::Tensor& ids);
  /// Moves the rows that were looked up since the last step. All ranks call it together: their gradients are
  /// averaged as GradientReducer averages those of dense parameters, row by row in the order of ranks and
  /// lookups, so that every rank has the same bits whatever its threads. Lookups without a gradient do not
  /// count; a step without any row is none.
  void step(World& world);
  /// Forgets the lookups since the last step.
  void forget() { lookups_.clear(); }

  const SparseEmbeddingOptions& options() const { return options_; }
  std::int64_t num_learned() const { return num_learned_; }  // rows that a step has moved
  std::int64_t num_steps() const { return steps_; }

  /// Saves the learned rows and the optimizer's state; load() puts back the very bits.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Saves the learned rows' values alone, a third of that: "rows" are float32 [n, width] of the nodes
  /// "learned". After load() the optimizer begins anew.
  void save_values(torch::serialize::OutputArchive& archive) const;
  /// Takes what either save wrote. Throws c10::Error or std::runtime_error for what is not of this table, as
  /// Torch's own modules do.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Lookup {
    torch::Tensor ids, rows;
  };
  struct Unmap {
    std::size_t bytes;
    void operator()(float* data) const;
  };

  void make_table();
  float* row(std::int64_t id) const { return table_.get() + id * 3 * options_.width; }
  void values(std::int64_t id, float* out) const;
  void learn(const torch::Tensor& ids, const torch::Tensor& gradients, float share);
  void write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers, std::int64_t steps) const;

  SparseEmbeddingOptions options_;
  std::unique_ptr<float, Unmap> table_{nullptr, Unmap{0}};
  std::vector<std::uint8_t> learned_;  // per row; bytes, for threads set those of different rows
  std::int64_t num_learned_ = 0, steps_ = 0;
  double power1_ = 1,
         power2_ =
             1;  // beta1, beta2 to the power of steps_, by multiplications: pow differs between processors
  std::vector<Lookup> lookups_;
};
TORCH_MODULE(SparseEmbedding);

}  // namespace hopfeed
