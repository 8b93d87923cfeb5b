// These structs hold what a sampler keeps between the stages of its pipeline (row_pipeline.h): rows that were
// looked at, and what pickers (picker.h) draw for them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/base/scratch.h"
#include "core/dataset/damaged_row.h"
#include "core/draws/pick_set.h"
#include "core/draws/vector_draws.h"

namespace hopfeed {

/// A DrawnRow is one destination's row, between `look` and `place`.
struct DrawnRow {
  std::uint64_t index_at;  // address of the index that a picker counts from
  std::uint64_t edge_at;   // address of the row's first edge id
  std::uint64_t position;  // of its first edge in the edge type, all partitions one after the other
  std::uint64_t degree;
  std::uint64_t population;  // of these positions it draws: the degree, or as many as the picker has left
  std::uint64_t most;        // of the neighbours that it may give
  std::uint64_t original_id;
  std::int64_t node;  // dataset id
  std::uint64_t
      extra_at;  // the picker's: address of what else it reads of the row's first edge (alias entry, code)
  std::uint64_t times_at;     // of the times in their order, where it reads such
  std::uint64_t order_at;     // of the order that the picker draws from, where it is not the row's; else 0
  std::uint32_t tree;         // position of the seed in a disjoint batch, else 0
  std::uint16_t extra_bytes;  // of alias tables: from the entry at extra_at to the next edge's
  static constexpr std::uint16_t kNoLane = UINT16_MAX;
  std::uint16_t lane = kNoLane;  // where its draws are, if they were made in vector lanes

  /// Returns the position in the row of the place that a picker has drawn.
  std::uint64_t position_of(std::uint64_t place) const {
    return order_at == 0 ? place : checked(reinterpret_cast<const std::uint32_t*>(order_at)[place]);
  }

  /// Returns a position that was read from a file, which must not become an address unless it is in the row.
  std::uint32_t checked(std::uint32_t read) const {
    if (read < degree) return read;
    throw DamagedRow{DamagedRow::What::kPosition, 0, 0, static_cast<std::int64_t>(original_id)};
  }
};

/// A DrawnGroup has the rows of one group.
struct DrawnGroup {
  static constexpr std::uint32_t kRows = DrawRows::kRows;
  DrawnRow rows[kRows];
  DrawPicks picks;
  std::uint32_t first = 0;  // local id of the first
  std::uint32_t count = 0;  // of the rows
  std::size_t most = 0;     // of what they may give together
};

/// PickScratch is the scratch of the pickers, shared by all edge types of a sampler.
struct PickScratch {
  DrawRows lanes;
  ScratchArray<std::uint32_t> picks;
  ScratchArray<std::uint64_t> wide_picks;
  ScratchArray<std::uint64_t> sums;
  ScratchArray<std::uint32_t> choices;
  /// Taken has copies of what the rows of two groups have given, in the order of the rows.
  struct Taken {
    ScratchArray<std::int64_t> sources;  // or two of 32 bits in each
    ScratchArray<std::uint32_t> positions;
    std::size_t bytes() const { return sources.bytes() + positions.bytes(); }
  };
  Taken taken[2];
  PickSet pick_set;
  std::uint64_t rows_summed =
      0;  // weighted rows that gave too few edges by rejection, since the sampler was made

  std::size_t bytes() const {
    return picks.bytes() + wide_picks.bytes() + sums.bytes() + choices.bytes() + pick_set.bytes() +
           taken[0].bytes() + taken[1].bytes();
  }

  /// Most says how many elements of each array a picker asks for at most; `pick_set`: draws of a row that
  /// needs the set.
  struct Most {
    std::size_t picks = 0, wide_picks = 0, sums = 0, choices = 0, taken = 0, pick_set = 0;
    /// Grows to what another picker asks for too, since both share the scratch.
    void cover(const Most& other) {
      picks = std::max(picks, other.picks);
      wide_picks = std::max(wide_picks, other.wide_picks);
      sums = std::max(sums, other.sums);
      choices = std::max(choices, other.choices);
      taken = std::max(taken, other.taken);
      pick_set = std::max(pick_set, other.pick_set);
    }
  };
  static std::size_t max_bytes(const Most& most) {
    return decltype(PickScratch::picks)::max_bytes(most.picks) +
           decltype(PickScratch::wide_picks)::max_bytes(most.wide_picks) +
           decltype(PickScratch::sums)::max_bytes(most.sums) +
           decltype(PickScratch::choices)::max_bytes(most.choices) +
           std::extent_v<decltype(PickScratch::taken)> * (decltype(Taken::sources)::max_bytes(most.taken) +
                                                          decltype(Taken::positions)::max_bytes(most.taken)) +
           (most.pick_set > 0 ? PickSet::max_bytes(most.pick_set) : 0);
  }
};

/// PickBounds are the largest rows that a picker meets in an edge type, by which it says what it takes of the
/// scratch.
struct PickBounds {
  std::size_t group = 0;   // neighbours that destinations expanded together give
  std::size_t fanout = 0;  // of all hops, those that take all apart
  bool replace = false;
  std::function<std::size_t()> longest_row;  // edges; may read all row records
};

/// PickOptions say how many neighbours a destination gives in this hop, and have the keys of its draws.
struct PickOptions {
  std::int64_t fanout = -1;
  bool replace = false;
  NodeStream stream;  // node and tree are the row's

  NodeStream stream_of(const DrawnRow& row) const { return stream.of(row.original_id, row.tree); }
};

/// Emits the places of a row as most pickers give them: the place of a source is the position of its edge. It
/// is inlined, since it is called for each row: as a function of its own it took a sixth of temporal
/// sampling.
template <class Emit, class Place>
[[gnu::always_inline]] inline void emit_places(Emit& emit, std::uint64_t count, Place place) {
  emit(count, place, place);
}

/// Gives a lane to each row that draws, as `draws(row)` says; row_of[lane] is its number in the group. False
/// where none draws, or where the fanout is not one for lanes.
template <class Draws>
bool fill_lanes(const DrawnGroup& group, const PickOptions& options, DrawRows& lanes,
                std::uint32_t (&row_of)[DrawnGroup::kRows], Draws draws) {
  if (group.most == 0 || options.fanout < 0 || options.fanout > kMaxLaneDraws) return false;
  lanes.count = 0;
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const DrawnRow& row = group.rows[i];
    row_of[lanes.count] = i;
    lanes.node[lanes.count] = row.original_id;
    lanes.tree[lanes.count] = row.tree;
    lanes.degree[lanes.count] = row.population;
    lanes.count += row.most > 0 && row.population <= UINT32_MAX && draws(row);
  }
  return lanes.count > 0;
}

}  // namespace hopfeed
