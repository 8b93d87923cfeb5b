// DistEmbedding has a learned row for each node of a type, as a module. DGL has the like by this name. Its
// rows lie in one of two places, and learn the same bits in both:
//
//   whole        at each trainer, which moves them all alike (state/table/learned_table.h); rows go by
//                original ids
//   at owners    spread over servers with --state (state/client/dist_rows.h); rows go by dataset ids, and
//                what coming batches read is asked for ahead
//
// A step moves the rows that its batch read. All ranks take each step together.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/dataset_meta.h"
#include "state/client/dist_rows.h"
#include "state/owner/table_spec.h"
#include "state/table/learned_table.h"
#include "state/table/row_sums.h"
#include "trainer/world.h"

namespace hopfeed {

/// StateLost is thrown where an owner has lost what was learned: all ranks go back to a checkpoint together
/// (learned_state.h).
class StateLost : public Error {
 public:
  using Error::Error;
};

/// Calls `body`; the owners' word that state is gone, or that a rank is, becomes a StateLost.
template <class Body>
auto or_lost(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kStateLost)
      throw StateLost(error.code(), error.message());
    throw;
  }
}

class DistEmbeddingImpl : public torch::nn::Module {
 public:
  /// Rows that lie whole here. Throws what LearnedTable throws.
  explicit DistEmbeddingImpl(const LearnedTableOptions& options) : table_(std::in_place, options) {}
  /// Rows at owners, once it is opened. Throws what TableSpec::validate() throws.
  explicit DistEmbeddingImpl(const TableSpec& spec);

  /// Returns the rows of `ids` (int64 [n], repeats allowed): float32 [n, width], copies, on the device of the
  /// ids; the table stays in the host's memory. While training, and where gradients are recorded, the copy is
  /// a leaf, and the next step() takes its gradient. Else, at owners, they are as all steps so far have left
  /// them. Throws kInvalid for an id that has no row, and at owners for one that the step's look() did not
  /// name; StateLost.
  torch::Tensor forward(const torch::Tensor& ids);
  /// Moves the rows that were looked up since the last step. All ranks call it together: a row's gradients
  /// are summed within each rank in the order of its lookups, those sums in the order of ranks, and the
  /// average over the ranks moves the row. So every rank has the same bits whatever its threads. Lookups
  /// without a gradient do not count; a step without any row is none. Throws StateLost.
  void step(World& world);
  /// Forgets the lookups since the last step.
  void forget() { lookups_.clear(); }

  bool at_owners() const { return spec_.has_value(); }
  std::int64_t width() const { return spec_ ? spec_->width : table_->options().width; }
  /// Whole rows alone, and so is restore(): it puts a learned row's values in its place.
  const LearnedTable& table() const { return *table_; }
  void restore(std::int64_t row, std::span<const float> values) { table_->restore(row, values); }

  // ---- at owners alone
  /// Opens the table for a rank and an attempt of its run; what an earlier one held is given up. Throws what
  /// TableAtOwners throws.
  void open(std::shared_ptr<StateNetwork> network, const DatasetMeta& dataset, const RankOfRun& rank);
  /// Gives the attempt up: nothing is read or learned until it is opened again.
  void abandon();
  /// Says which rows the step behind those that were looked at reads (int64 [n], repeats allowed), so that
  /// they come while others are computed on. Whole rows need no look. Throws StateLost.
  void look(const torch::Tensor& ids);
  const TableSpec& spec() const { return *spec_; }
  DistRows& rows() { return *rows_; }

  /// Saves the learned rows and the optimizer's state; load() puts back the very bits. Of rows at owners it
  /// is the table's description alone.
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
  /// What a step reads, as look() was told.
  struct Ahead {
    torch::Tensor ids;
    RowGroups groups;
  };
  torch::Tensor rows_of_step(const torch::Tensor& ids);
  torch::Tensor pulled(const torch::Tensor& ids) const;
  void write_rows(torch::serialize::OutputArchive& archive, std::int64_t numbers, std::int64_t steps) const;
  void write_spec(torch::serialize::OutputArchive& archive) const;
  void load_spec(torch::serialize::InputArchive& archive) const;
  void step_at_owners(const std::vector<Lookup>& lookups);

  std::optional<LearnedTable> table_;  // whole
  std::optional<TableSpec> spec_;      // at owners, and so are these:
  std::unique_ptr<DistRows> rows_;
  std::deque<Ahead> ahead_;  // from the next step on
  torch::Tensor step_rows_;  // [ids of the front of ahead_, width], once they were read
  std::vector<Lookup> lookups_;
};
TORCH_MODULE(DistEmbedding);

}  // namespace hopfeed
