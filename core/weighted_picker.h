// Neighbours in proportion to their weights: the rule of weighted_rule.h. The columns of a row's first draws are known before
// its alias table is read, so that the table can be prefetched with the rest. See uniform_picker.h for what a picker is.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "core/alias_table.h"
#include "core/drawn_rows.h"
#include "core/error.h"
#include "core/graph_view.h"
#include "core/limits.h"
#include "core/prefetch.h"
#include "core/sampling_rule.h"
#include "core/weighted_rule.h"

namespace hopfeed {

/// What is left of a row's weights, as a tree of sums (Fenwick 1994): draws by walking down, removes in O(log degree).
class RemainingWeights {
 public:
  RemainingWeights(std::span<const AliasEntry> entries, ScratchArray<std::uint64_t>& memory)
      : size_(static_cast<std::uint32_t>(entries.size())) {
    memory.reserve(words(entries.size()));
    weights_ = memory.data();
    sums_ = memory.data() + entries.size();  // one-based
    alias_weights(entries, weights_);
    for (std::uint32_t i = 1; i <= size_; ++i) sums_[i] = weights_[i - 1], total_ += weights_[i - 1];
    for (std::uint32_t i = 1; i <= size_; ++i) {
      const std::uint32_t above = i + (i & -i);
      if (above <= size_) sums_[above] += sums_[i];
    }
  }

  /// Of `memory`, for a row of so many edges.
  static std::size_t words(std::size_t edges) { return 2 * edges + 1; }
  std::uint64_t total() const { return total_; }
  void remove(std::uint32_t position) {
    total_ -= weights_[position];
    for (std::uint32_t i = position + 1; i <= size_; i += i & -i) sums_[i] -= weights_[position];
    weights_[position] = 0;
  }
  /// The first position where the weights up to and with it sum up to more than `at`, which is below total().
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

  WeightedPicker(const PickOptions& options, const WeightView& weights, PickScratch& scratch)
      : options_(options), weights_(weights), scratch_(scratch) {}

  void look(DrawnRow& row, int part, std::int64_t begin) const {
    if (row.degree > kMaxWeightedDegree) {
      throw Error(ErrorCode::kUnsupported,
                  "node " + std::to_string(row.original_id) + " has " + std::to_string(row.degree) +
                      " in-edges; weighted draws take rows of less than 2^31, so sample without the weight");
    }
    take_population(row, row.degree);
    row.extra_at = reinterpret_cast<std::uint64_t>(weights_.parts[part] + begin);
    if (takes_all(row)) prefetch_line(entries(row));
  }
  /// Where it is not the degree, extra_at has to be the address of an alias table of so many entries.
  void take_population(DrawnRow& row, std::uint64_t population) const {
    row.population = population;
    row.most = num_drawn(population, options_.fanout, options_.replace);
  }

  // Lanes as the uniform picker's. Without replacement a few draws more are made, for repeats; they are seldom needed enough
  // to be prefetched for.
  void draw(DrawnGroup& group) {
    DrawRows& lanes = scratch_.lanes;
    std::uint32_t row_of[DrawnGroup::kRows];
    if (!fill_lanes(group, options_, lanes, row_of, [&](const DrawnRow& row) { return !takes_all(row); }))
      return;
    const std::uint32_t again = draw_alias_rows(lanes, lane_draws(), options_.stream, group.picks);
    for (std::uint32_t lane = 0; lane < lanes.count; ++lane) {
      DrawnRow& row = group.rows[row_of[lane]];
      if ((again >> lane & 1) == 0) row.lane = lane;
      for (std::uint32_t t = 0; t < row.most; ++t)
        prefetch_line(entries(row) + (group.picks.pick[t * DrawRows::kRows + lane] >> 32));
    }
  }

  template <class Emit>
  void pick(const DrawnGroup& group, const DrawnRow& row, Emit emit) {
    scratch_.picks.reserve(row.most);
    std::uint32_t* picks = scratch_.picks.data();
    std::uint64_t count = 0;
    if (takes_all(row)) {
      for (std::uint32_t i = 0; i < row.population; ++i)
        if (entries(row)[i].threshold > 0) picks[count++] = i;
    } else if (options_.replace) {
      for (std::uint32_t t = 0; t < row.most; ++t) picks[count++] = position_of(group, row, t);
    } else {
      count = pick_distinct(group, row, picks);
    }
    emit(count, [picks](std::uint64_t j) { return std::uint64_t{picks[j]}; });
  }

 private:
  bool takes_all(const DrawnRow& row) const {
    return options_.fanout < 0 || (row.most == row.population && !options_.replace);
  }
  std::uint32_t lane_draws() const {
    const auto k = static_cast<std::uint32_t>(options_.fanout);
    return options_.replace ? k : std::min(k + k / 2 + 2, kMaxLaneDraws);
  }
  static const AliasEntry* entries(const DrawnRow& row) {
    return reinterpret_cast<const AliasEntry*>(row.extra_at);
  }

  std::uint32_t position_of(const DrawnGroup& group, const DrawnRow& row, std::uint32_t t) const {
    AliasDraw draw;
    if (row.lane != DrawnRow::kNoLane && t < lane_draws()) {
      const std::uint64_t drawn = group.picks.pick[t * DrawRows::kRows + row.lane];
      draw = {static_cast<std::uint32_t>(drawn >> 32), static_cast<std::uint32_t>(drawn)};
    } else {
      draw = alias_draw(options_.stream_of(row), t, static_cast<std::uint32_t>(row.population));
    }
    return row.checked(alias_position(draw, entries(row)[draw.column]));
  }

  std::uint32_t pick_distinct(const DrawnGroup& group, const DrawnRow& row, std::uint32_t* picks) {
    const auto k = static_cast<std::uint32_t>(row.most);
    if (k <= kMaxLaneDraws) {
      LinearSeen seen;
      return pick_distinct(group, row, picks, seen);
    }
    scratch_.pick_set.begin(k);
    return pick_distinct(group, row, picks, scratch_.pick_set);
  }

  template <class Seen>
  std::uint32_t pick_distinct(const DrawnGroup& group, const DrawnRow& row, std::uint32_t* picks,
                              Seen& seen) {
    const auto k = static_cast<std::uint32_t>(row.most);
    std::uint32_t count = 0;
    for (std::uint32_t t = 0; t < max_attempts(k) && count < k; ++t) {
      const std::uint32_t position = position_of(group, row, t);
      if (!seen.add(picks, count, position)) picks[count++] = position;
    }
    return count < k ? draw_and_remove(row, picks, count) : count;
  }

  std::uint32_t draw_and_remove(const DrawnRow& row, std::uint32_t* picks, std::uint32_t count) {
    ++scratch_.rows_summed;
    const auto k = static_cast<std::uint32_t>(row.most);
    const std::span<const AliasEntry> table(entries(row), static_cast<std::size_t>(row.population));
    for (const AliasEntry& entry : table) row.checked(entry.alias);
    RemainingWeights left(table, scratch_.sums);
    for (std::uint32_t i = 0; i < count; ++i) left.remove(picks[i]);
    for (std::uint32_t t = max_attempts(k); count < k && left.total() > 0; ++t) {
      picks[count] = left.find(draw_below_wide(options_.stream_of(row), t, left.total()));
      left.remove(picks[count++]);
    }
    return count;
  }

  const PickOptions options_;
  const WeightView weights_;
  PickScratch& scratch_;
};

}  // namespace hopfeed
