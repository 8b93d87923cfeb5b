// Draws for many rows at once, in vector lanes: one row per lane, one draw after the other. The numbers are
// those of core/draws/sampling_rule.h, bit for bit, on every processor; which instructions make them is
// decided at run time (Highway).
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "core/dataset/graph_view.h"
#include "core/draws/keyed_random.h"
#include "core/draws/labor_rule.h"

namespace hopfeed {

/// DrawRows are rows that draw together, each with more neighbours than it draws (with replacement: with at
/// least one).
struct DrawRows {
  static constexpr std::uint32_t kRows = 16;
  alignas(64) std::uint64_t node[kRows];    // original ids
  alignas(64) std::uint64_t degree[kRows];  // below 2^32
  alignas(64) std::uint64_t tree[kRows];    // positions of seeds in disjoint batches, else 0
  std::uint32_t count = 0;                  // of the above; the lanes behind them may hold anything
};

/// Fanouts up to here are drawn in lanes: each draw is compared with all earlier ones of its row.
inline constexpr std::uint32_t kMaxLaneDraws = 32;

/// DrawPicks has draw j of row i at picks[j * kRows + i], as a position in the row.
struct DrawPicks {
  alignas(64) std::uint64_t pick[kMaxLaneDraws * DrawRows::kRows];
};

enum class Replacement : std::uint32_t { kWithout, kWith };

/// Makes k draws of each row, 1 <= k <= kMaxLaneDraws. `keys.node` and `keys.tree` are not looked at. Returns
/// the rows (bit i: row i) with a draw that may fall into the biased remainder of its range: about one in
/// 2^32 / degree, to be drawn again by core/draws/sampling_rule.h.
std::uint32_t draw_rows(DrawRows& rows, std::uint32_t k, Replacement replacement, const NodeStream& keys,
                        DrawPicks& picks);

/// Makes k weighted draws of each row, as weighted_rule.h has them: column << 32 | place. Returns rows as
/// draw_rows does; a doubtful draw still has the column that it is tried with first.
std::uint32_t draw_alias_rows(const DrawRows& rows, std::uint32_t k, const NodeStream& keys,
                              DrawPicks& picks);

/// take_below() writes the places of those of up to kMaxVariates nodes (original ids, in an aligned array
/// with space for as many) whose variate is below the threshold, as labor_rule.h has it. `out` has space for
/// kMaxVariates. Returns how many.
inline constexpr std::size_t kMaxVariates = 64;
struct VariatesBelow {
  std::uint64_t key;
  std::uint32_t hop;
  std::uint64_t threshold;
};
std::size_t take_below(std::span<const std::int64_t> nodes, const VariatesBelow& below, std::uint64_t* out);

/// upper_variates() writes out[word][at + i] = the upper 16 bits of the variate of node i, as labor_rule.h
/// has it, in the hops with that word; null: not wanted.
using VariateWords = std::array<std::uint16_t*, kLaborHops>;
void upper_variates(const OriginalIds& nodes, std::uint64_t key, std::size_t at, const VariateWords& out);

/// mark_below() sets bit i of `out` where uppers[i] is below `limit`. Both have space for a multiple of
/// kMarkedTogether elements.
inline constexpr std::size_t kMarkedTogether = 64;
void mark_below(const std::uint16_t* uppers, std::size_t count, std::uint16_t limit, std::uint8_t* out);

/// MarkedNodes gets those of `nodes` whose bit is set, in their order, and their places. Both have space for
/// as many as there are nodes and kMarkedTogether more.
struct MarkedNodes {
  std::int32_t* nodes;
  std::uint32_t* places;
};
/// take_marked() returns how many, or kNoNode where one of them is not below `num_nodes`.
inline constexpr std::size_t kNoNode = ~std::size_t{0};
std::size_t take_marked(std::span<const std::int32_t> nodes, std::uint32_t num_nodes,
                        const std::uint8_t* bits, const MarkedNodes& out);

/// A Shuffle is the swap-or-not shuffle (keyed_shuffle.h) of [0, size).
struct Shuffle {
  std::span<const std::uint64_t> partners;  // of each round
  std::uint64_t size, key;
};
/// Puts in each position's place where the shuffle takes it.
void shuffle_positions(const Shuffle& shuffle, std::span<std::uint64_t> positions);

}  // namespace hopfeed
