// Neighbours that are no later than the seed of the destination's tree: a binary search in the row's times, then the
// uniform rule over what it leaves, or the latest. Positions come in the order of the draws; `last` and whole rows in the order
// of time. See uniform_picker.h for what a picker is.
//
// Neighbours are read from a copy of the row in the order of time, so that a draw is one access. Where the edge is in the row is
// read only for edge ids and attributes. A row's search begins where two reads, each behind a prefetch, have led it
// (time_guess.h), and the rows of a group are searched side by side.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>

#include "core/batch_options.h"
#include "core/drawn_rows.h"
#include "core/graph_view.h"
#include "core/prefetch.h"
#include "core/time_guess.h"
#include "core/uniform_picker.h"

namespace hopfeed {

struct TemporalOptions {
  TimeView time;
  std::span<const std::int64_t> seed_times;  // [count], by the seed's position in the batch
  std::span<const TimeGuess::Place> places;  // [count] TimeGuess::place of them
  TemporalStrategy strategy = TemporalStrategy::kUniform;
  std::int64_t window = 0;  // neighbours in (seed time - window, seed time]; 0: all up to the seed's time
  std::size_t index_bytes = sizeof(std::int32_t);
  bool positions = false;  // in the row are asked for: edge ids, or attributes
};

class TemporalPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 1;

  TemporalPicker(const PickOptions& options, const TemporalOptions& temporal, PickScratch& scratch)
      : options_(options), temporal_(temporal), uniform_(options, scratch) {}

  void look(DrawnRow& row, int part, std::int64_t begin) const {
    row.most = num_drawn(row.degree, options_.fanout, options_.replace);
    const std::int64_t* times = temporal_.time.times[part] + begin;
    row.extra_at = reinterpret_cast<std::uint64_t>(times);
    row.order_at = reinterpret_cast<std::uint64_t>(temporal_.time.order[part] + begin);
    row.index_at = reinterpret_cast<std::uint64_t>(temporal_.time.indices[part]) +
                   static_cast<std::uint64_t>(begin) * temporal_.index_bytes;
    prefetch_line(times + TimeBracket::guess(row.degree, temporal_.places[row.tree]));
  }

  /// Leaves each row's population the place where its search begins.
  void close_in(DrawnGroup& group) const {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      row.population = 0;
      if (row.degree == 0) continue;
      const TimeGuess::Place& place = temporal_.places[row.tree];
      const std::int64_t* times = times_of(row);
      const std::uint64_t guess = TimeBracket::guess(row.degree, place);
      row.population =
          TimeBracket::better(row.degree, place, guess, TimeGuess::difference(now_of(row), times[guess]));
      const TimeBracket bracket(row.degree, row.population);
      prefetch_line(times + bracket.begin - (bracket.begin > 0));
      prefetch_line(times + row.population);
      prefetch_line(times + bracket.end);
    }
  }

  void draw(DrawnGroup& group) {
    search(group);
    choose(group);
  }

  /// Leaves each row with what lies in the past: where that begins in the order of time, and how many they are.
  void search(DrawnGroup& group) {
    std::uint64_t before[DrawnGroup::kRows];  // times that are earlier than all that is searched
    Searches ends, begins;
    for (std::uint32_t i = 0; i < group.count; ++i) {
      const DrawnRow& row = group.rows[i];
      TimeBracket bracket(row.degree, row.population);
      bracket.widen(times_of(row), row.degree, now_of(row));
      ends.add(times_of(row) + bracket.begin, bracket.end - bracket.begin, now_of(row));
      before[i] = bracket.begin;
    }
    ends.run();
    for (std::uint32_t i = 0; i < group.count; ++i) {
      ends.result[i] += before[i];
      const std::int64_t now = now_of(group.rows[i]);
      // Where no time can be too early, nothing is searched.
      const bool has_begin = temporal_.window > 0 && now >= INT64_MIN + temporal_.window;
      begins.add(times_of(group.rows[i]), has_begin ? ends.result[i] : 0,
                 now - (has_begin ? temporal_.window : 0));
    }
    if (temporal_.window > 0) begins.run();
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      const std::uint64_t begin = begins.result[i];
      take_population(row, ends.result[i] - begin);
      row.order_at += begin * sizeof(std::uint32_t);
      row.index_at += begin * temporal_.index_bytes;
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
      emit(row.most, [first = first_of(row)](std::uint64_t j) { return first + j; });
    else
      uniform_.pick(group, row, emit);
  }

 private:
  /// How many of the times of each row, which rise, are no later than `now`.
  struct Searches {
    void add(const std::int64_t* row_times, std::uint64_t row_size, std::int64_t row_now) {
      now[count] = row_now;
      times[count] = row_size > 0 ? row_times : now + count;  // what is read there decides nothing
      size[count] = row_size;
      result[count] = 0;
      longest = std::max(longest, row_size);
      ++count;
    }
    /// One halving of each row after the other; without a branch, since none could be predicted.
    void run() {
      for (; longest > 1; longest -= longest / 2) {
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::uint64_t half = size[i] / 2;
          // Where one is left, the first: it decides nothing, as half is 0.
          const std::int64_t time = times[i][result[i] + half - (half > 0)];
          result[i] += half & -static_cast<std::uint64_t>(time <= now[i]);
          size[i] -= half;
        }
      }
      for (std::uint32_t i = 0; i < count; ++i)
        if (size[i] > 0) result[i] += times[i][result[i]] <= now[i];
    }

    const std::int64_t* times[DrawnGroup::kRows];
    std::int64_t now[DrawnGroup::kRows];
    std::uint64_t size[DrawnGroup::kRows], result[DrawnGroup::kRows];
    std::uint64_t longest = 0;
    std::uint32_t count = 0;
  };

  std::int64_t now_of(const DrawnRow& row) const { return temporal_.seed_times[row.tree]; }
  static const std::int64_t* times_of(const DrawnRow& row) {
    return reinterpret_cast<const std::int64_t*>(row.extra_at);
  }
  static const std::uint32_t* order_of(const DrawnRow& row) {
    return reinterpret_cast<const std::uint32_t*>(row.order_at);
  }

  /// Of the latest that it gives.
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

}  // namespace hopfeed
