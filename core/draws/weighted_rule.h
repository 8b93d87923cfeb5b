// This is the rule of weighted draws from a row's alias table (alias_table.h). Host and device compile the
// same text.
//
// Draw t takes two words: a column below the degree, and a place in it that is the edge's own below the
// threshold and the alias's from there on. With replacement that is all. Without, repeats are rejected, so
// that each draw is in proportion to the weights that are left (successive sampling); a row that has not
// given k edges after max_attempts(k) draws, because few heavy edges come again and again or because it has
// no more, goes on by draw-and-remove over sums (weighted_picker.h): draw max_attempts(k) + i falls into what
// the weights of the edges not taken sum up to, walked in the order of the row.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "core/dataset/alias_entry.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {

struct AliasDraw {
  std::uint32_t column, place;
};

/// Returns draw `t`, below 2^16, of a row of `degree` edges.
HOPFEED_HOST_DEVICE inline AliasDraw alias_draw(const NodeStream& stream, std::uint32_t t,
                                                std::uint32_t degree) {
  const RandomWords words = stream.words(t / 2);
  return {draw_below(stream, t, words.word[t % 2 * 2], degree), words.word[t % 2 * 2 + 1]};
}

/// Returns whether a draw means its column's own edge, or else the alias.
HOPFEED_HOST_DEVICE inline bool is_own(const AliasDraw& draw, const AliasEntry& entry) {
  return draw.place < entry.threshold;
}

/// Returns the position that a draw means.
HOPFEED_HOST_DEVICE inline std::uint32_t alias_position(const AliasDraw& draw, const AliasEntry& entry) {
  return is_own(draw, entry) ? draw.column : entry.alias;
}

/// Returns the draws before a row without replacement goes on by draw-and-remove. All draws of a row stay
/// below 2^16.
HOPFEED_HOST_DEVICE inline std::uint32_t max_attempts(std::uint32_t k) {
  return k <= 16'384 ? 2 * k + 16 : 0;
}

}  // namespace hopfeed
