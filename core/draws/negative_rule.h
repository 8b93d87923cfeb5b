// The rule of negatives says which random numbers make the ends of a link that is not there. Each negative
// belongs to a link of the batch, negative j of P links to link j % P, as its number j / P; its draws are
// keyed by that link's position in the epoch and by this number, so whoever makes the batch, and however the
// epoch is cut into batches, draws it alike.
//
//   stream    = (kNegatives, seed, epoch, end, edge type) of (position, number); end 0: sources,
//               1: destinations
//   attempt a = draw a of the stream: below the number of nodes, or a column and a place of the nodes'
//               alias table (weighted_rule.h)
//
// Nodes count by original id. Nodes that have times count by time and then by original id, so that those that
// exist at the link's time are the first of them: attempt a is a draw below their number, or below the sum of
// what they weigh, in the integers behind the alias table (alias_table.h), and gives the node that it falls
// on.
//
// A strict negative that cannot be, since it is an edge or a link of the list, is drawn again, both ends of
// it (of triplets the destination), kMaxNegativeRetries times. Then all that is left is weighed, destination
// by destination and source by source as nodes count, and one draw of whole_draw() falls into the sum: so
// negatives are exactly in proportion whatever is left.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "core/batch/batch_key.h"
#include "core/dataset/graph_view.h"
#include "core/draws/keyed_random.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed {

inline constexpr std::uint32_t kMaxNegativeRetries = 100;

enum class LinkEnd : std::uint32_t { kSource = 0, kDestination = 1 };

/// Returns the draws of one end of all negatives of an epoch; of(position of the link, number of the
/// negative) gives each negative's.
inline NodeStream negative_stream(const BatchKey& key, int edge_type, LinkEnd end) {
  return node_stream({.purpose = Purpose::kNegatives,
                      .seed = key.seed,
                      .epoch = key.epoch,
                      .first = 0,
                      .hop = static_cast<std::uint32_t>(end),
                      .edge_type = static_cast<std::uint32_t>(edge_type)});
}

/// Returns the node of attempt `a` among `count` nodes, each as likely.
inline std::int64_t draw_node(const NodeStream& stream, std::uint32_t a, std::int64_t count) {
  if (count >> 32 == 0)
    return draw_below(stream, a, stream.words(a / 4).word[a % 4], static_cast<std::uint32_t>(count));
  return static_cast<std::int64_t>(draw_below_wide(stream, a, static_cast<std::uint64_t>(count)));
}

/// Returns the node of attempt `a` by the nodes' alias table.
inline std::int64_t draw_node(const NodeStream& stream, std::uint32_t a, std::span<const AliasEntry> table) {
  const AliasDraw draw = alias_draw(stream, a, static_cast<std::uint32_t>(table.size()));
  return alias_position(draw, table[draw.column]);
}

/// Returns the number of the node of attempt `a` by the sums of what the first 0, 1, 2, ... nodes weigh, of
/// which the last is above 0.
inline std::int64_t draw_by_sums(const NodeStream& stream, std::uint32_t a,
                                 std::span<const std::uint64_t> sums) {
  const std::uint64_t at = draw_below_wide(stream, a, sums.back());
  return std::ranges::upper_bound(sums, at) - sums.begin() - 1;
}

/// Draws exactly from [0, bound), 1 <= bound: as many bits as it takes, again until they are below.
inline unsigned __int128 whole_draw(const NodeStream& stream, unsigned __int128 bound) {
  constexpr std::uint32_t kFirstBlock = 1U << 20;  // behind all attempts
  const auto high = static_cast<std::uint64_t>((bound - 1) >> 64),
             low = static_cast<std::uint64_t>(bound - 1);
  const int bits = high != 0 ? 64 + std::bit_width(high) : std::bit_width(low);
  const unsigned __int128 mask =
      bits == 128 ? ~static_cast<unsigned __int128>(0) : (static_cast<unsigned __int128>(1) << bits) - 1;
  for (std::uint32_t block = kFirstBlock;; ++block) {
    const RandomWords words = stream.words(block);
    unsigned __int128 value = 0;
    for (int i = 3; i >= 0; --i) value = value << 32 | words.word[i];
    if ((value & mask) < bound) return value & mask;
  }
}

}  // namespace hopfeed
