// TemporalPicker gives neighbours no later than the seed of the destination's tree: a binary search in codes
// of the row's times, then the uniform rule over what it leaves, or the latest. Positions come in the order
// of the draws; `last` and whole rows in the order of time. picker.h says what a picker is.
//
// Neighbours are read from a copy of the row in the order of time, so that a draw is one access. Where the
// edge is in the row is read only for edge ids and attributes. Rows are searched by the rule of
// temporal_rule.h, from the place where two reads, each behind a prefetch, have led; those of a group side by
// side.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/base/prefetch.h"
#include "core/batch/batch_options.h"
#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/picker.h"
#include "core/draws/temporal_rule.h"
#include "core/draws/uniform_picker.h"

namespace hopfeed {

struct TemporalOptions {
  TimeView time;
  // Places go by the seed's position in the batch: neighbours are in (begin, end].
  std::span<const TimePlace> ends;    // [count] of the seeds' times
  std::span<const TimePlace> begins;  // [count], or empty: all up to the seed's time
  std::uint32_t first_tree = 0;       // the tree of the first of them
  TemporalStrategy strategy = TemporalStrategy::kUniform;
  std::size_t index_bytes = sizeof(std::int32_t);
  bool positions = false;  // in the row are asked for: edge ids, or attributes
};

class TemporalPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 1;

  TemporalPicker(const PickOptions& options, const TemporalOptions& temporal, PickScratch& scratch)
      : options_(options), temporal_(temporal), uniform_(options, scratch) {}
  static PickScratch::Most most_scratch(const PickBounds& bounds) {
    return UniformPicker::most_scratch(bounds);
  }

  void look(DrawnRow& row, int part, std::int64_t begin) const {
    row.most = num_drawn(row.degree, options_.fanout, options_.replace);
    row.extra_at = reinterpret_cast<std::uint64_t>(temporal_.time.codes[part] + begin);
    row.times_at = reinterpret_cast<std::uint64_t>(temporal_.time.times[part] + begin);
    row.order_at = reinterpret_cast<std::uint64_t>(temporal_.time.order[part] + begin);
    row.index_at = reinterpret_cast<std::uint64_t>(temporal_.time.indices[part]) +
                   static_cast<std::uint64_t>(begin) * temporal_.index_bytes;
    prefetch_line(codes_of(row) +
                  TimeBracket::guess(row.degree, temporal_.ends[row.tree - temporal_.first_tree]));
  }

  /// Leaves each row's population the place where its search begins.
  void close_in(DrawnGroup& group) const {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      row.population = 0;
      if (row.degree == 0) continue;
      const TimePlace& place = temporal_.ends[row.tree - temporal_.first_tree];
      const std::int16_t* codes = codes_of(row);
      const std::uint64_t guess = TimeBracket::guess(row.degree, place);
      row.population = TimeBracket::better(row.degree, place, guess, codes[guess]);
      const TimeBracket bracket(row.degree, row.population);
      prefetch_line(codes + bracket.begin - (bracket.begin > 0));
      prefetch_line(codes + bracket.end);
    }
  }

  void draw(DrawnGroup& group) {
    search(group);
    choose(group);
  }

  /// Leaves each row with what lies in the past: where that begins in the order of time, and how many they
  /// are.
  void search(DrawnGroup& group) {
    std::uint64_t starts[DrawnGroup::kRows], begins[DrawnGroup::kRows] = {}, ends[DrawnGroup::kRows];
    for (std::uint32_t i = 0; i < group.count; ++i) starts[i] = group.rows[i].population;
    find(group, temporal_.ends, starts, ends);
    if (!temporal_.begins.empty()) {
      for (std::uint32_t i = 0; i < group.count; ++i) {
        const DrawnRow& row = group.rows[i];
        starts[i] = TimeBracket::guess(row.degree, temporal_.begins[row.tree - temporal_.first_tree]);
      }
      find(group, temporal_.begins, starts, begins);
    }
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      const TimedStretch past = TimedStretch::between(begins[i], ends[i]);
      take_population(row, past.count);
      row.order_at += past.first * sizeof(std::uint32_t);
      row.index_at += past.first * temporal_.index_bytes;
    }
  }
  void take_population(DrawnRow& row, std::uint64_t population) const {
    uniform_.take_population(row, population);
  }
  void choose(DrawnGroup& group) {
    if (temporal_.strategy != TemporalStrategy::kLast) uniform_.draw(group);
    if (!temporal_.positions) return;
    for (std::uint32_t i = 0; i < group.count; ++i) prefetch_order(group, group.rows[i]);
  }

  template <class Emit>
  void pick(const DrawnGroup& group, const DrawnRow& row, Emit emit) {
    if (temporal_.strategy == TemporalStrategy::kLast)
      emit_places(emit, row.most, [first = first_of(row)](std::uint64_t j) { return first + j; });
    else
      uniform_.pick(group, row, emit);
  }

 private:
  /// Searches finds how many of the codes of each row, which rise, are below `past`.
  struct Searches {
    void add(const std::int16_t* row_codes, std::uint64_t row_size, std::int32_t row_past) {
      past[count] = row_past;
      codes[count] = row_size > 0 ? row_codes : &kNoCode;  // what is read there decides nothing
      size[count] = row_size;
      result[count] = 0;
      longest = std::max(longest, row_size);
      ++count;
    }
    /// Runs the search: one halving of each row after the other.
    void run() {
      for (; longest > 1; longest -= longest / 2)
        for (std::uint32_t i = 0; i < count; ++i) halve_codes(codes[i], past[i], size[i], result[i]);
      for (std::uint32_t i = 0; i < count; ++i)
        if (size[i] > 0) result[i] += codes[i][result[i]] < past[i];
    }

    static constexpr std::int16_t kNoCode = 0;
    const std::int16_t* codes[DrawnGroup::kRows];
    std::int32_t past[DrawnGroup::kRows];
    std::uint64_t size[DrawnGroup::kRows], result[DrawnGroup::kRows];
    std::uint64_t longest = 0;
    std::uint32_t count = 0;
  };

  /// Writes found[i] = how many edges of row i are no later than its place, begun at starts[i].
  void find(const DrawnGroup& group, std::span<const TimePlace> places, const std::uint64_t* starts,
            std::uint64_t* found) const {
    std::uint64_t before[DrawnGroup::kRows];  // edges that are earlier than all that is searched
    Searches searches;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const DrawnRow& row = group.rows[i];
      const std::int32_t past = places[row.tree - temporal_.first_tree].past;
      TimeBracket bracket(row.degree, starts[i]);
      bracket.widen(codes_of(row), row.degree, past);
      searches.add(codes_of(row) + bracket.begin, bracket.end - bracket.begin, past);
      before[i] = bracket.begin;
    }
    searches.run();
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const DrawnRow& row = group.rows[i];
      const TimePlace& place = places[row.tree - temporal_.first_tree];
      found[i] = before[i] + searches.result[i];
      if (timed(row).is_open(place, found[i])) found[i] = find_in_class(row, place, found[i]);
    }
  }
  [[gnu::noinline]] static std::uint64_t find_in_class(const DrawnRow& row, const TimePlace& place,
                                                       std::uint64_t first) {
    return timed(row).in_class(place, first);
  }

  static TimedRow timed(const DrawnRow& row) {
    return {codes_of(row), reinterpret_cast<const std::int64_t*>(row.times_at), row.degree};
  }
  static const std::int16_t* codes_of(const DrawnRow& row) {
    return reinterpret_cast<const std::int16_t*>(row.extra_at);
  }
  static const std::uint32_t* order_of(const DrawnRow& row) {
    return reinterpret_cast<const std::uint32_t*>(row.order_at);
  }

  /// Returns the first place of the latest edges, which are those that the row gives.
  static std::uint64_t first_of(const DrawnRow& row) { return row.population - row.most; }

  void prefetch_order(const DrawnGroup& group, const DrawnRow& row) const {
    if (temporal_.strategy == TemporalStrategy::kLast) return prefetch_line(order_of(row) + first_of(row));
    if (row.lane == DrawnRow::kNoLane) return prefetch_line(order_of(row));
    for (std::uint64_t j = 0; j < row.most; ++j)
      prefetch_line(order_of(row) + group.picks.pick[j * DrawRows::kRows + row.lane]);
  }

  const PickOptions options_;
  const TemporalOptions temporal_;
  UniformPicker uniform_;
};

static_assert(ClosingInPicker<TemporalPicker> && SearchingPicker<TemporalPicker>);

}  // namespace hopfeed
