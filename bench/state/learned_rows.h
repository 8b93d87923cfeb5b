// LearnedRows are a table at owners of which ranks, threads of this process, have learned all rows: each row
// in one step of the first kParts, at one of the ranks, by a gradient that is a function of the row alone. So
// what was learned can be had in one place too, to verify it or to go on there.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bench/state/state_servers.h"
#include "core/dataset/dataset.h"
#include "state/client/dist_rows.h"
#include "state/table/learned_table.h"

namespace hopfeed::bench {

inline constexpr int kParts = 10;  // steps in which all rows are learned, about as many in each

/// Returns the table: SparseAdam, in the defaults.
TableSpec learned_spec(const DatasetMeta& meta, std::int64_t width);
/// Returns the rows below `rows` that a rank learns in a part, ascending. They lie anywhere.
std::vector<std::int64_t> rows_of_part(std::int64_t rows, int part, std::int64_t rank, std::int64_t ranks);
/// Returns the gradients of rows: [rows, width].
std::vector<float> gradients_of(std::span<const std::int64_t> rows, std::int64_t width);

/// Calls `body(rank)` for all of them at once, each in a thread of its own, and throws on what one throws.
void at_ranks(std::int64_t ranks, const std::function<void(std::int64_t rank)>& body);

class LearnedRows {
 public:
  LearnedRows(const StateServers& servers, const Dataset& dataset, std::int64_t width, std::int64_t ranks);
  std::int64_t ranks() const { return static_cast<std::int64_t>(ranks_.size()); }
  DistRows& rank(std::int64_t rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  /// Has all ranks learn their rows of a part: 0, 1, 2, ...
  void learn(int part);
  void learn_all();
  /// Waits until the owners have applied all steps that were brought.
  void settle();

 private:
  std::vector<std::unique_ptr<DistRows>> ranks_;
};

/// Returns that table in one place, of rows by dataset ids, with the same first values.
std::unique_ptr<LearnedTable> table_in_one_place(const Dataset& dataset, std::int64_t width);
/// Has it learn what `ranks` ranks learn of `rows`, which are ascending, in all parts.
void learn_in_one_place(LearnedTable& table, std::span<const std::int64_t> rows, std::int64_t ranks);

}  // namespace hopfeed::bench
