// WeightedPicker gives neighbours in proportion to their weights, by the rule of weighted_rule.h. The columns
// of a row's first draws are known before its alias table is read, so that the table can be prefetched with
// the rest. Where its entries carry sources, the neighbours are read there, from the line that the draw has
// fetched. picker.h says what a picker is.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/base/prefetch.h"
#include "core/dataset/alias_table.h"
#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/picker.h"
#include "core/draws/sampling_rule.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed {

/// RemainingWeights is what is left of a row's weights, as a tree of sums (Fenwick 1994): draws by walking
/// down, removes in O(log degree).
class RemainingWeights {
 public:
  RemainingWeights(const AliasTableView& table, ScratchArray<std::uint64_t>& memory)
      : size_(static_cast<std::uint32_t>(table.count)) {
    memory.reserve(words(table.count));
    weights_ = memory.data();
    sums_ = memory.data() + table.count;  // one-based
    alias_weights(table, weights_);
    for (std::uint32_t i = 1; i <= size_; ++i) sums_[i] = weights_[i - 1], total_ += weights_[i - 1];
    for (std::uint32_t i = 1; i <= size_; ++i) {
      const std::uint32_t above = i + (i & -i);
      if (above <= size_) sums_[above] += sums_[i];
    }
  }

  /// Returns how many words of `memory` a row of so many edges takes.
  static std::size_t words(std::size_t edges) { return 2 * edges + 1; }
  std::uint64_t total() const { return total_; }
  void remove(std::uint32_t position) {
    total_ -= weights_[position];
    for (std::uint32_t i = position + 1; i <= size_; i += i & -i) sums_[i] -= weights_[position];
    weights_[position] = 0;
  }
  /// Returns the first position where the weights up to and with it sum up to more than `at`, which is below
  /// total().
  std::uint32_t find(std::uint64_t at) const {
    std::uint32_t found = 0;
    for (std::uint32_t step = std::bit_floor(size_); step > 0; step /= 2) {
      if (found + step > size_ || sums_[found + step] > at) continue;
      found += step;
      at -= sums_[found];
    }
    return found;
  }

 private:
  const std::uint32_t size_;
  std::uint64_t *weights_, *sums_;
  std::uint64_t total_ = 0;
};

class WeightedPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 0;

  WeightedPicker(const PickOptions& options, const WeightView& weights, std::size_t index_bytes,
                 PickScratch& scratch)
      : options_(options), weights_(weights), step_(weights.entry_bytes / index_bytes), scratch_(scratch) {}
  /// Returns what draws take; those without replacement may come to sum up the weights of the longest row.
  static PickScratch::Most most_scratch(const PickBounds& bounds) {
    const bool sums = bounds.fanout > 0 && !bounds.replace;
    return {.picks = bounds.group,
            .sums = sums ? RemainingWeights::words(
                               std::min<std::size_t>(bounds.longest_row(), kMaxWeightedDegree))
                         : 0,
            .choices = bounds.group,
            .pick_set = bounds.fanout > kMaxLaneDraws ? bounds.fanout : 0};
  }

  void look(DrawnRow& row, int part, std::int64_t begin) const {
    if (row.degree > kMaxWeightedDegree) {
      throw Error(ErrorCode::kUnsupported,
                  "node " + std::to_string(row.original_id) + " has " + std::to_string(row.degree) +
                      " in-edges; weighted draws take rows of less than 2^31, so sample without the weight");
    }
    take_population(row, row.degree);
    const AliasTableView table = weights_.table(static_cast<std::size_t>(part), begin, row.degree);
    row.extra_at = reinterpret_cast<std::uint64_t>(table.first);
    row.extra_bytes = static_cast<std::uint16_t>(table.entry_bytes);
    if (!takes_all(row)) return;
    constexpr std::uint64_t kLine = 64, kMostBytes = 4 * kLine;  // the rest of a long row comes by itself
    for (std::uint64_t at = 0; at < std::min(row.degree * row.extra_bytes, kMostBytes); at += kLine)
      prefetch_line(table.first + at);
  }
  /// Sets the population. Where it is not the degree, extra_at and extra_bytes have to be of an alias table
  /// of so many entries.
  void take_population(DrawnRow& row, std::uint64_t population) const {
    row.population = population;
    row.most = num_drawn(population, options_.fanout, options_.replace);
  }

  // Uses lanes as the uniform picker does. Without replacement a few draws more are made, for repeats; they
  // are seldom needed enough to be prefetched for.
  void draw(DrawnGroup& group) {
    for (std::uint32_t i = 0; i < group.count; ++i) {
      DrawnRow& row = group.rows[i];
      if (has_sources(row)) row.index_at = row.extra_at + sizeof(AliasEntry);
    }
    DrawRows& lanes = scratch_.lanes;
    std::uint32_t row_of[DrawnGroup::kRows];
    if (!fill_lanes(group, options_, lanes, row_of, [&](const DrawnRow& row) { return !takes_all(row); }))
      return;
    const std::uint32_t again = draw_alias_rows(lanes, lane_draws(), options_.stream, group.picks);
    for (std::uint32_t lane = 0; lane < lanes.count; ++lane) {
      DrawnRow& row = group.rows[row_of[lane]];
      if ((again >> lane & 1) == 0) row.lane = static_cast<std::uint16_t>(lane);
      const AliasTableView entries = table(row);
      for (std::uint32_t t = 0; t < row.most; ++t)
        prefetch_line(&entries[group.picks.pick[t * DrawRows::kRows + lane] >> 32]);
    }
  }

  template <class Emit>
  void pick(const DrawnGroup& group, const DrawnRow& row, Emit emit) {
    scratch_.choices.reserve(row.most);
    const Choice* choices = scratch_.choices.data();
    const AliasTableView entries = table(row);
    const std::uint64_t count = choose(group, row, entries);
    const auto position = [&, choices](std::uint64_t j) {
      return std::uint64_t{position_of(row, entries, choices[j])};
    };
    if (!has_sources(row)) return emit_places(emit, count, position);
    emit(
        count, [choices, step = step_](std::uint64_t j) { return choices[j] / 2 * step + choices[j] % 2; },
        position);
  }

 private:
  // A Choice is what a draw has come to: twice its column, and one more where it means the alias. Tables have
  // fewer than 2^31 columns.
  using Choice = std::uint32_t;
  static Choice own(std::uint32_t position) { return 2 * position; }
  static std::uint32_t position_of(const DrawnRow& row, const AliasTableView& entries, Choice choice) {
    return choice % 2 == 0 ? choice / 2 : row.checked(entries[choice / 2].alias);
  }

  bool takes_all(const DrawnRow& row) const {
    return options_.fanout < 0 || (row.most == row.population && !options_.replace);
  }
  std::uint32_t lane_draws() const {
    const auto k = static_cast<std::uint32_t>(options_.fanout);
    return options_.replace ? k : std::min(k + k / 2 + 2, kMaxLaneDraws);
  }
  static bool has_sources(const DrawnRow& row) { return row.extra_bytes > sizeof(AliasEntry); }
  static AliasTableView table(const DrawnRow& row) {
    return {.first = reinterpret_cast<const std::byte*>(row.extra_at),
            .count = static_cast<std::size_t>(row.population),
            .entry_bytes = row.extra_bytes};
  }

  // Fills scratch_.choices, and returns how many they are.
  std::uint64_t choose(const DrawnGroup& group, const DrawnRow& row, const AliasTableView& entries) {
    Choice* choices = scratch_.choices.data();
    std::uint64_t count = 0;
    if (takes_all(row)) {
      for (std::uint32_t i = 0; i < row.population; ++i)
        if (entries[i].threshold > 0) choices[count++] = own(i);
    } else {
      if (options_.replace)
        for (std::uint32_t t = 0; t < row.most; ++t) choices[count++] = drawn(group, row, entries, t);
      else
        count = choose_distinct(group, row, entries);
      if (count > 0 && weighs_nothing(entries[choices[0] / 2], choices[0] / 2)) count = 0;
    }
    return count;
  }

  Choice drawn(const DrawnGroup& group, const DrawnRow& row, const AliasTableView& entries,
               std::uint32_t t) const {
    AliasDraw draw;
    if (row.lane != DrawnRow::kNoLane && t < lane_draws()) {
      const std::uint64_t pick = group.picks.pick[t * DrawRows::kRows + row.lane];
      draw = {static_cast<std::uint32_t>(pick >> 32), static_cast<std::uint32_t>(pick)};
    } else {
      draw = alias_draw(options_.stream_of(row), t, static_cast<std::uint32_t>(row.population));
    }
    return own(draw.column) + !is_own(draw, entries[draw.column]);
  }

  std::uint32_t choose_distinct(const DrawnGroup& group, const DrawnRow& row, const AliasTableView& entries) {
    const auto k = static_cast<std::uint32_t>(row.most);
    if (k <= kMaxLaneDraws) {
      LinearSeen seen;
      return choose_distinct(group, row, entries, seen);
    }
    scratch_.pick_set.begin(k);
    return choose_distinct(group, row, entries, scratch_.pick_set);
  }

  // Chooses distinct edges. An edge may come as its own column's and as another's alias, so positions tell
  // repeats.
  template <class Seen>
  std::uint32_t choose_distinct(const DrawnGroup& group, const DrawnRow& row, const AliasTableView& entries,
                                Seen& seen) {
    const auto k = static_cast<std::uint32_t>(row.most);
    scratch_.picks.reserve(k);
    std::uint32_t* positions = scratch_.picks.data();
    std::uint32_t count = 0;
    for (std::uint32_t t = 0; t < max_attempts(k) && count < k; ++t) {
      const Choice choice = drawn(group, row, entries, t);
      const std::uint32_t position = position_of(row, entries, choice);
      if (seen.add(positions, count, position)) continue;
      scratch_.choices[count] = choice;
      positions[count++] = position;
    }
    return count < k ? draw_and_remove(row, entries, count) : count;
  }

  // Draws and removes behind the `count` that are chosen, whose positions are in scratch_.picks.
  std::uint32_t draw_and_remove(const DrawnRow& row, const AliasTableView& entries, std::uint32_t count) {
    ++scratch_.rows_summed;
    const auto k = static_cast<std::uint32_t>(row.most);
    for (std::size_t i = 0; i < entries.count; ++i) row.checked(entries[i].alias);
    RemainingWeights left(entries, scratch_.sums);
    for (std::uint32_t i = 0; i < count; ++i) left.remove(scratch_.picks[i]);
    for (std::uint32_t t = max_attempts(k); count < k && left.total() > 0; ++t) {
      const std::uint32_t position = left.find(draw_below_wide(options_.stream_of(row), t, left.total()));
      left.remove(position);
      scratch_.choices[count++] = own(position);
    }
    return count;
  }

  const PickOptions options_;
  const WeightView weights_;
  const std::size_t step_;  // from entry to entry, in sources, where entries carry them
  PickScratch& scratch_;
};

static_assert(WholePicker<WeightedPicker>);

}  // namespace hopfeed
