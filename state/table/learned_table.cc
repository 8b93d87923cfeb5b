// See learned_table.h.
#include "state/table/learned_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kRowsAtOnce = 256;  // of a step, handed to a thread at a time

const LearnedTableOptions& valid(const LearnedTableOptions& options) {
  options.validate();
  return options;
}

/// Ends of ranges of rows that hold about as many of the step's rows each.
std::vector<std::int64_t> cuts_of(std::span<const RowSums> by_rank) {
  const RowSums& most =
      *std::ranges::max_element(by_rank, {}, [](const RowSums& sums) { return sums.rows.size(); });
  std::vector<std::int64_t> cuts{0};
  for (std::size_t i = kRowsAtOnce; i < most.rows.size(); i += kRowsAtOnce) cuts.push_back(most.rows[i]);
  cuts.push_back(std::numeric_limits<std::int64_t>::max());
  return cuts;
}

}  // namespace

void LearnedTableOptions::validate() const {
  require_valid(width > 0 && width <= kMaxHidden,
                fmt::format("a learned table's width is {}; use 1 to {}", width, kMaxHidden));
  require_valid(rows >= 0 && rows <= kMaxEmbeddingElements / width,
                fmt::format("a learned table of {} rows of {} numbers in one place; use 0 to {} rows", rows,
                            width, kMaxEmbeddingElements / width));
  optimizer.validate();
}

LearnedTable::LearnedTable(const LearnedTableOptions& options, OriginalIdOf original_id_of)
    : options_(valid(options)),
      original_id_of_(std::move(original_id_of)),
      row_numbers_(options.width + state_width(options.optimizer.optimizer, options.width)),
      store_(options.rows, static_cast<std::size_t>(row_numbers_) * sizeof(float),
             "a learned table with its optimizer", "a smaller width, or fewer trainers on this machine") {}

void LearnedTable::require_rows(std::span<const std::int64_t> rows) const {
  for (const std::int64_t row : rows) {
    if (row >= 0 && row < options_.rows) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("node {} has no row in a learned table of {} rows", row, options_.rows));
  }
}

void LearnedTable::values(std::int64_t row, float* out) const {
  if (const std::byte* place = store_.find(row)) {
    std::memcpy(out, place, static_cast<std::size_t>(options_.width) * sizeof(float));
    return;
  }
  const auto width = static_cast<float>(options_.width);  // the variance of (-b, b) is b * b / 3
  first_values(options_.seed, original_id_of_ ? original_id_of_(row) : row, std::sqrt(3 / width),
               options_.width, out);
}

void LearnedTable::read(std::span<const std::int64_t> rows, float* out, const ParallelFor& parallel) const {
  const std::size_t value_bytes = static_cast<std::size_t>(options_.width) * sizeof(float);
  parallel(std::ssize(rows), [&](std::int64_t begin, std::int64_t end) {
    const std::span<const std::int64_t> mine =
        rows.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (i + kIndexAhead < mine.size()) store_.prefetch_index(mine[i + kIndexAhead]);
      if (i + kRowsAhead < mine.size()) store_.prefetch_start(mine[i + kRowsAhead], value_bytes);
      values(mine[i], out + (begin + static_cast<std::int64_t>(i)) * options_.width);
    }
  });
}

/// A row of this step. Its optimizer's state begins with zeros.
float* LearnedTable::learned(std::int64_t row) {
  if (std::byte* place = store_.find(row)) return reinterpret_cast<float*>(place);
  std::vector<float> first(static_cast<std::size_t>(options_.width));
  values(row, first.data());
  auto* numbers = reinterpret_cast<float*>(store_.make(row));
  std::ranges::copy(first, numbers);
  return numbers;
}

void LearnedTable::step(std::span<const RowSums> by_rank, std::int64_t ranks, const ParallelFor& parallel) {
  if (std::ranges::all_of(by_rank, [](const RowSums& sums) { return sums.rows.empty(); })) return;
  count_step();
  const RowStep step = row_step(options_.optimizer, count_);
  const std::vector<std::int64_t> cuts = cuts_of(by_rank);
  parallel(std::ssize(cuts) - 1, [&](std::int64_t begin, std::int64_t end) {
    step_rows(step, by_rank, 1 / static_cast<float>(ranks), cuts[static_cast<std::size_t>(begin)],
              cuts[static_cast<std::size_t>(end)]);
  });
}

/// Merges the ranks' rows in [first_row, end_row).
void LearnedTable::step_rows(const RowStep& step, std::span<const RowSums> by_rank, float share,
                             std::int64_t first_row, std::int64_t end_row) {
  struct Cursor {
    const std::int64_t *next, *end;
    const float* sums;
  };
  std::vector<Cursor> cursors;
  for (const RowSums& sums : by_rank) {
    const auto from = std::ranges::lower_bound(sums.rows, first_row),
               to = std::ranges::lower_bound(from, sums.rows.end(), end_row);
    const std::int64_t* rows = sums.rows.data() + (from - sums.rows.begin());
    cursors.push_back({rows, rows + (to - from), sums.sums + (from - sums.rows.begin()) * options_.width});
  }
  std::vector<float> gradient(static_cast<std::size_t>(options_.width));
  for (;;) {
    std::int64_t row = end_row;
    for (const Cursor& at : cursors)
      if (at.next != at.end) row = std::min(row, *at.next);
    if (row == end_row) return;
    bool first = true;
    for (Cursor& at : cursors) {
      if (at.next == at.end || *at.next != row) continue;
      if (at.next + kIndexAhead < at.end) store_.prefetch_index(at.next[kIndexAhead]);
      if (at.next + kRowsAhead < at.end) store_.prefetch_row(at.next[kRowsAhead]);
      if (std::exchange(first, false))
        std::copy_n(at.sums, options_.width, gradient.begin());
      else
        add_row(at.sums, options_.width, gradient.data());
      ++at.next;
      at.sums += options_.width;
    }
    for (float& value : gradient) value *= share;
    step_row(step, gradient.data(), options_.width, learned(row));
  }
}

void LearnedTable::for_each_learned(
    const std::function<void(std::int64_t row, const float* numbers)>& each) const {
  store_.for_each_written([&each](std::int64_t row, const std::byte* bytes) {
    each(row, reinterpret_cast<const float*>(bytes));
  });
}

void LearnedTable::clear() {
  store_.clear();
  count_ = {};
}

void LearnedTable::restore(std::int64_t row, std::span<const float> numbers) {
  std::byte* place = store_.find(row);
  std::ranges::copy(numbers, reinterpret_cast<float*>(place != nullptr ? place : store_.make(row)));
}

}  // namespace hopfeed
