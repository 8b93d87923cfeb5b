// UniformPicker gives uniform neighbours, with or without replacement: by the rule of sampling_rule.h,
// sixteen rows at a time in vector lanes where the fanout is small, one row after the other where it is not.
#pragma once
#include <cstdint>

#include "core/dataset/graph_view.h"
#include "core/draws/drawn_rows.h"
#include "core/draws/picker.h"
#include "core/draws/sampling_rule.h"

namespace hopfeed {

/// SerialPicks are positions below `size` for a row that draws k of them, 1 <= k, k < size without
/// replacement, one draw after the other.
class SerialPicks {
 public:
  SerialPicks(PickScratch& scratch, bool replace) : scratch_(scratch), replace_(replace) {}
  static PickScratch::Most most_scratch(const PickBounds& bounds) {
    return {.picks = bounds.group + kRounding,
            .wide_picks = bounds.group,
            .pick_set = bounds.fanout > kMaxLaneDraws ? bounds.fanout : 0};
  }

  template <class Emit>
  void pick(const NodeStream& stream, std::uint64_t size, std::uint32_t k, Emit emit) {
    if (size <= UINT32_MAX) {
      const std::uint32_t* picks = narrow(stream, static_cast<std::uint32_t>(size), k);
      emit_places(emit, k, [picks](std::uint64_t j) { return std::uint64_t{picks[j]}; });
    } else {
      const std::uint64_t* picks = wide(stream, size, k);
      emit_places(emit, k, [picks](std::uint64_t j) { return picks[j]; });
    }
  }

 private:
  static constexpr std::uint32_t kRounding = 4;  // of draws, which come four at a time

  const std::uint32_t* narrow(const NodeStream& stream, std::uint32_t size, std::uint32_t k) {
    scratch_.picks.reserve(k + kRounding);
    std::uint32_t* picks = scratch_.picks.data();
    if (replace_) {
      pick_with_replacement(stream, size, k, picks);
    } else if (k <= kMaxLaneDraws) {
      LinearSeen seen;
      pick_without_replacement(stream, size, k, picks, seen);
    } else {
      scratch_.pick_set.begin(k);
      pick_without_replacement(stream, size, k, picks, scratch_.pick_set);
    }
    return picks;
  }

  const std::uint64_t* wide(const NodeStream& stream, std::uint64_t size, std::uint32_t k) {
    scratch_.wide_picks.reserve(k);
    std::uint64_t* picks = scratch_.wide_picks.data();
    if (replace_) {
      pick_with_replacement_wide(stream, size, k, picks);
    } else {
      scratch_.pick_set.begin(k);
      pick_without_replacement_wide(stream, size, k, picks, scratch_.pick_set);
    }
    return picks;
  }

  PickScratch& scratch_;
  const bool replace_;
};

class UniformPicker {
 public:
  static constexpr std::uint32_t kStepsToDraw = 0;

  UniformPicker(const PickOptions& options, PickScratch& scratch) : options_(options), scratch_(scratch) {}
  static PickScratch::Most most_scratch(const PickBounds& bounds) {
    return SerialPicks::most_scratch(bounds);
  }

  void look(DrawnRow& row, int /*part*/, std::int64_t /*begin*/) const { take_population(row, row.degree); }
  void take_population(DrawnRow& row, std::uint64_t population) const {
    row.population = population;
    row.most = num_drawn(population, options_.fanout, options_.replace);
  }

  // Each row that has to draw gets a lane. A row whose numbers may have to be drawn again goes the serial
  // way: it gets none.
  void draw(DrawnGroup& group) {
    DrawRows& lanes = scratch_.lanes;
    std::uint32_t row_of[DrawnGroup::kRows];
    if (!fill_lanes(group, options_, lanes, row_of, [&](const DrawnRow& row) { return !takes_all(row); }))
      return;
    const std::uint32_t again = draw_rows(lanes, static_cast<std::uint32_t>(options_.fanout),
                                          options_.replace ? Replacement::kWith : Replacement::kWithout,
                                          options_.stream, group.picks);
    for (std::uint32_t lane = 0; lane < lanes.count; ++lane)
      if ((again >> lane & 1) == 0) group.rows[row_of[lane]].lane = static_cast<std::uint16_t>(lane);
  }

  template <class Emit>
  void pick(const DrawnGroup& group, const DrawnRow& row, Emit emit) {
    if (row.lane != DrawnRow::kNoLane) {
      const std::uint64_t* picks = group.picks.pick + row.lane;
      emit_places(emit, row.most, [picks](std::uint64_t j) { return picks[j * DrawRows::kRows]; });
    } else if (takes_all(row)) {
      emit_places(emit, row.most, [](std::uint64_t j) { return j; });
    } else {
      SerialPicks(scratch_, options_.replace)
          .pick(options_.stream_of(row), row.population, static_cast<std::uint32_t>(row.most), emit);
    }
  }

 private:
  bool takes_all(const DrawnRow& row) const {
    return options_.fanout < 0 || row.population == 0 || (row.most == row.population && !options_.replace);
  }

  const PickOptions options_;
  PickScratch& scratch_;
};

static_assert(WholePicker<UniformPicker>);

}  // namespace hopfeed
