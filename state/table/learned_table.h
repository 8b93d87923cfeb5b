// A LearnedTable has a learned row for each of very many nodes, or for those of a shard, and the state of its
// optimizer beside. A step costs what its batches read, however many rows there are.
//
// Before its first step a row's values are a function of (seed, original id) and need no memory: who has the
// table says which original id a row has. So a checkpoint holds the rows that were learned, and all who have
// the table agree about the others without a word.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "state/table/row_formulas.h"
#include "state/table/row_store.h"
#include "state/table/row_sums.h"

namespace hopfeed {

struct LearnedTableOptions {
  std::int64_t rows = 0;
  std::int64_t width = 64;
  std::uint64_t seed = 0;  // of the first values: uniform, a row's length is 1 in the mean
  RowOptimizerOptions optimizer = {};

  bool operator==(const LearnedTableOptions&) const = default;
  /// Throws kInvalid naming the option.
  void validate() const;
};

class LearnedTable {
 public:
  /// Returns the original id of a row; null: rows go by original ids.
  using OriginalIdOf = std::function<std::int64_t(std::int64_t row)>;

  /// Throws kInvalid naming the option, kNoSpace where the machine has not the memory for all rows.
  explicit LearnedTable(const LearnedTableOptions& options, OriginalIdOf original_id_of = nullptr);

  const LearnedTableOptions& options() const { return options_; }
  const StepCount& count() const { return count_; }
  std::int64_t num_learned() const { return store_.num_written(); }  // rows that a step has moved
  /// Returns the numbers of float32 that a row has: its values, then its optimizer's state.
  std::int64_t row_numbers() const { return row_numbers_; }
  /// Returns the bytes of learned rows and of the index.
  std::size_t bytes() const { return store_.bytes(); }

  /// Throws kInvalid naming the first id that has no row.
  void require_rows(std::span<const std::int64_t> rows) const;
  /// Writes out[i] = values of rows[i]: [n, width]. Rows are in range, here and below.
  void read(std::span<const std::int64_t> rows, float* out, const ParallelFor& parallel = serial_for) const;
  /// Takes a step on what ranks have learned, in their order; each sum of a row over the ranks times
  /// 1 / `ranks` is its gradient. Where no rank has learned anything it is no step.
  void step(std::span<const RowSums> by_rank, std::int64_t ranks, const ParallelFor& parallel = serial_for);
  /// Counts a step that moved rows of other shards alone.
  void count_step() { count_.advance(options_.optimizer); }

  /// Calls `each(row, numbers)` for learned rows, ascending; `numbers` are [row_numbers()].
  void for_each_learned(const std::function<void(std::int64_t row, const float* numbers)>& each) const;
  const RowStore& store() const { return store_; }
  /// Forgets all that was learned.
  void clear();
  /// Puts a row back that clear() took; `numbers` are [row_numbers()], or its values alone.
  void restore(std::int64_t row, std::span<const float> numbers);
  void restore_count(const StepCount& count) { count_ = count; }

 private:
  void values(std::int64_t row, float* out) const;
  float* learned(std::int64_t row);
  void step_rows(const RowStep& step, std::span<const RowSums> by_rank, float share, std::int64_t first_row,
                 std::int64_t end_row);

  const LearnedTableOptions options_;
  const OriginalIdOf original_id_of_;
  const std::int64_t row_numbers_;
  RowStore store_;
  StepCount count_;
};

}  // namespace hopfeed
