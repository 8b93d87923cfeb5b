// RowHeats say how hot each row of an attribute is, 0 the hottest, as stretches of rows that are alike: in a
// dataset's own order a partition has 256 of them, however many rows it has. Where stretches would take more
// than a byte a row, each row has its byte.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hopfeed {

/// A HeatRun is a stretch of rows up to the next one's first: first << 8 | heat.
using HeatRun = std::uint64_t;

class RowHeatsView {
 public:
  /// `runs` rise, the first begins at row 0. What is viewed must outlive the view.
  explicit RowHeatsView(std::span<const HeatRun> runs) : runs_(runs) {}
  explicit RowHeatsView(std::span<const std::uint8_t> each) : each_(each) {}
  /// Returns the heat of a row: one read, or a search among the stretches.
  std::uint8_t operator()(std::int64_t row) const {
    if (!each_.empty()) return each_[static_cast<std::size_t>(row)];
    const HeatRun behind = static_cast<HeatRun>(row) << 8 | 255;
    const HeatRun* run = runs_.data();  // the last that is known not to begin behind the row
    for (std::size_t left = runs_.size(); left > 1;) {
      const std::size_t half = left / 2;
      run = run[half] <= behind ? run + half : run;
      left -= half;
    }
    return static_cast<std::uint8_t>(*run);
  }

 private:
  std::span<const HeatRun> runs_;
  std::span<const std::uint8_t> each_;
};

class RowHeats {
 public:
  /// All rows have heat 0, however many there are.
  RowHeats() = default;
  /// The heats of so many rows are going to be added.
  explicit RowHeats(std::int64_t rows) : rows_(static_cast<std::size_t>(rows)) {}
  /// Rows from `first` on, which does not fall from call to call, have this heat; all have 0 before.
  void add(std::int64_t first, std::uint8_t heat);
  /// All are added.
  void end();
  /// Returns those that heat_of(row) gives of `rows` rows.
  template <class HeatOf>
  static RowHeats of_each(std::int64_t rows, const HeatOf& heat_of) {
    RowHeats heats(rows);
    for (std::int64_t row = 0; row < rows; ++row) heats.add(row, heat_of(row));
    heats.end();
    return heats;
  }
  /// Returns the bytes as a RowHeatsView takes them: runs() of HeatRun, or where that is 0 one a row.
  std::span<const std::byte> bytes() const {
    return each_.empty() ? std::as_bytes(std::span(runs_)) : std::as_bytes(std::span(each_));
  }
  std::size_t runs() const { return each_.empty() ? runs_.size() : 0; }
  std::uint8_t operator()(std::int64_t row) const {
    return each_.empty() ? RowHeatsView(std::span(runs_))(row) : each_[static_cast<std::size_t>(row)];
  }

 private:
  void fill(HeatRun run, std::size_t end);
  void take_each();

  std::size_t rows_ = 0;
  std::vector<HeatRun> runs_{0};  // where each row has its byte: the last alone
  std::vector<std::uint8_t> each_;
};

}  // namespace hopfeed
