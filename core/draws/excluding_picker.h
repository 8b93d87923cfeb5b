// ExcludingPicker wraps another picker (picker.h says what one is): excluded edges count as absent before the
// draw, so a row of so many edges less draws by the same rule from what is left, as if it had been stored so.
// Rows that have nothing excluded are the other picker's; the others too, once they are known to have a
// smaller population, and what it picks of that is told its place in the whole row.
#pragma once
#include <cstdint>
#include <span>

#include "core/base/error.h"
#include "core/base/prefetch.h"
#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/excluded_rows.h"
#include "core/draws/left_out.h"
#include "core/draws/picker.h"

namespace hopfeed {

/// Excluding says what is excluded of the edge type that is expanded.
struct Excluding {
  ExcludedRows& rows;
  int edge_type = 0;
  ElementType index_type = ElementType::kInt32;
  const AttrView* weights = nullptr;  // of weighted draws
};

template <WholePicker Inner>
class ExcludingPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = Inner::kStepsToDraw;

  ExcludingPicker(const Inner& picker, const Excluding& excluding) : picker_(picker), excluding_(excluding) {}

  void look(DrawnRow& row, int part, std::int64_t begin) { picker_.look(row, part, begin); }
  void close_in(DrawnGroup& group) requires ClosingInPicker<Inner> { picker_.close_in(group); }

  void draw(DrawnGroup& group) {
    find(group);
    if constexpr (kSearches) picker_.search(group);
    leave_out(group);
    if constexpr (kSearches)
      picker_.choose(group);
    else
      picker_.draw(group);
    if constexpr (kCopies) drop_copies(group);
  }

  template <class Emit>
  void pick(const DrawnGroup& group, const DrawnRow& row, Emit emit) {
    const LeftOut& left_out = left_out_[&row - group.rows];
    if (left_out.count() == 0) {
      picker_.pick(group, row, emit);
    } else {
      // A row with excluded edges has places that are positions of what is left, by weight too: the table
      // that was made for it has no sources.
      picker_.pick(group, row, [&](std::uint64_t count, auto place, auto position) {
        emit(
            count, [&](std::uint64_t j) { return left_out.place(place(j)); },
            [&](std::uint64_t j) { return left_out.place(position(j)); });
      });
    }
  }

 private:
  static constexpr bool kSearches = SearchingPicker<Inner>, kCopies = CopyingPicker<Inner>;
  static constexpr std::uint64_t kLine = 64, kLinesAhead = 8;  // the rest of a long row comes by itself

  // Finds the rows of the group that have excluded edges. The first lines of all are under way before one is
  // searched.
  void find(const DrawnGroup& group) {
    excluding_.rows.make_room();
    std::span<const std::int64_t> sources[DrawnGroup::kRows];
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const DrawnRow& row = group.rows[i];
      if (row.most > 0) sources[i] = excluding_.rows.sources_of(excluding_.edge_type, row.node);
      if (sources[i].empty()) continue;
      const std::uint64_t bytes = row.degree * element_bytes(excluding_.index_type);
      for (std::uint64_t at = 0; at < bytes && at < kLinesAhead * kLine; at += kLine)
        prefetch_line(reinterpret_cast<const void*>(row.index_at + at));
    }
    for (std::uint32_t i = 0; i < group.count; ++i) {
      found_[i] = nullptr;
      if (sources[i].empty()) continue;
      const DrawnRow& row = group.rows[i];
      index_at_[i] = row.index_at;
      found_[i] =
          &excluding_.rows.row(excluding_.edge_type, sources[i],
                               {.at = row.index_at, .degree = row.degree, .type = excluding_.index_type});
    }
  }

  // Lessens each row's population by its excluded edges, and says how the rest is numbered.
  void leave_out(DrawnGroup& group) {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      left_out_[i] = {};
      if (!found_[i] || found_[i]->count == 0) continue;
      DrawnRow& row = group.rows[i];
      LeftOut& left_out = left_out_[i] = excluding_.rows.left_out(*found_[i]);
      if constexpr (kSearches)
        left_out = left_out.within((row.index_at - index_at_[i]) / element_bytes(excluding_.index_type),
                                   row.population);
      std::uint64_t left = row.population - left_out.count();
      if (excluding_.weights && left > 0 && !weigh(*found_[i], row)) left = 0;
      picker_.take_population(row, left);
    }
    for (std::uint32_t i = 0; excluding_.weights && i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      if (left_out_[i].count() == 0 || row.population == 0) continue;
      row.extra_at = reinterpret_cast<std::uint64_t>(excluding_.rows.table(*found_[i]));
      row.extra_bytes = sizeof(AliasEntry);
    }
  }

  bool weigh(ExcludedRows::Row& found, const DrawnRow& row) {
    try {
      return excluding_.rows.make_table(found, {.view = *excluding_.weights,
                                                .position = static_cast<std::int64_t>(row.position),
                                                .degree = row.degree});
    } catch (const Error&) {
      throw DamagedRow{DamagedRow::What::kWeight, 0, 0, static_cast<std::int64_t>(row.original_id)};
    }
  }

  void drop_copies(DrawnGroup& group) {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      if (left_out_[i].count() == 0 || group.rows[i].order_at == 0) continue;  // whole rows are not copied
      picker_.drop(group.rows[i], left_out_[i]);
      left_out_[i] = {};
    }
  }

  Inner picker_;
  Excluding excluding_;
  // These are what the group that was drawn last left out: its rows are picked before the next group is
  // drawn.
  ExcludedRows::Row* found_[DrawnGroup::kRows];
  std::uint64_t index_at_[DrawnGroup::kRows];
  LeftOut left_out_[DrawnGroup::kRows];
};

}  // namespace hopfeed
