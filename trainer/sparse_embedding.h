// SparseEmbedding is a learned table (state/table/learned_table.h) as a module: it lies whole at each
// trainer, a step moves the rows that its batch read, and all trainers move them alike.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "state/table/learned_table.h"
#include "trainer/world.h"

namespace hopfeed {

class SparseEmbeddingImpl : public torch::nn::Module {
 public:
  /// Throws what LearnedTable throws.
  explicit SparseEmbeddingImpl(const LearnedTableOptions& options) : table_(options) {}

  /// Returns the rows of `ids` (int64 [n], repeats allowed): float32 [n, width], copies, on the device of the
  /// ids; the table stays in the host's memory. While training, and where gradients are recorded, the copy is
  /// a leaf, and the next step() takes its gradient. Throws kInvalid for an id that has no row.
  torch::Tensor forward(const torch::Tensor& ids);
  /// Moves the rows that were looked up since the last step. All ranks call it together: a row's gradients
  /// are summed within each rank in the order of its lookups, those sums in the order of ranks, and the
  /// average over the ranks moves the row. So every rank has the same bits whatever its threads. Lookups
  /// without a gradient do not count; a step without any row is none.
  void step(World& world);
  /// Forgets the lookups since the last step.
  void forget() { lookups_.clear(); }

  const LearnedTable& table() const { return table_; }

  /// Saves the learned rows and the optimizer's state; load() puts back the very bits.
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Saves the learned rows' values alone: "rows" are float32 [n, width] of the nodes "learned". After load()
  /// the optimizer begins anew.
  void save_values(torch::serialize::OutputArchive& archive) const;
  /// Takes what either save wrote. Throws c10::Error or std::runtime_error for what is not of this table, as
  /// Torch's own modules do.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  struct Lookup {
    torch::Tensor ids, rows;
  };
  void write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers, std::int64_t steps) const;

  LearnedTable table_;
  std::vector<Lookup> lookups_;
};
TORCH_MODULE(SparseEmbedding);

}  // namespace hopfeed
