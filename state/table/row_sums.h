// Sums what was learned about each row. The order of every sum is fixed: within a rank that of the lookups,
// then that of the ranks. So the sums have the same bits on any number of threads, and on one machine as on
// many.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hopfeed {

/// Calls `body(begin, end)` for ranges that tile [0, count), on any threads, and returns when all are done.
using ParallelFor =
    std::function<void(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body)>;
/// Does it on the calling thread.
void serial_for(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body);

/// RowSums are what one rank learned in a step: a sum per row.
struct RowSums {
  std::span<const std::int64_t> rows;  // [n], ascending, each once
  const float* sums = nullptr;         // [n, width]
};

/// RowGroups are the lookups of a step, by row.
class RowGroups {
 public:
  /// `lookups` are rows, repeats allowed.
  explicit RowGroups(std::span<const std::int64_t> lookups);
  /// Returns the rows that were looked up, ascending, each once.
  const std::vector<std::int64_t>& rows() const { return rows_; }
  std::size_t num_lookups() const { return order_.size(); }
  /// Returns the lookups of rows()[group], in their order.
  std::span<const std::uint32_t> lookups(std::size_t group) const {
    return std::span(order_).subspan(begin_[group], begin_[group + 1] - begin_[group]);
  }
  /// Writes out[g] = the sum of the gradients of lookups of rows()[g]; `gradients` is [lookups, width], `out`
  /// [rows(), width].
  void sum(const float* gradients, std::int64_t width, float* out, const ParallelFor& parallel) const;
  /// Writes the sum of one row: `sum` is [width].
  void sum_of(std::size_t group, const float* gradients, std::int64_t width, float* sum) const;

 private:
  std::vector<std::int64_t> rows_;
  std::vector<std::uint32_t> order_;  // lookups by row, those of one row in their order
  std::vector<std::uint32_t> begin_;  // of each row in it, and the end
};

}  // namespace hopfeed
