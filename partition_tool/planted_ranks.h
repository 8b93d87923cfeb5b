// Made-up graphs (generate.h, generate_bipartite.h) share this: a rank for each node, dealt at random, which
// decides its degree, its group (class or taste: rank modulo the number of groups) and how often it is drawn.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/draws/keyed_random.h"
#include "partition_tool/planted_degrees.h"
#include "partition_tool/random_permutation.h"

namespace hopfeed {

/// Returns the random numbers of one purpose; `number` is the `epoch` of their key. The caller names the
/// node.
inline NodeStream planted_stream(std::uint64_t seed, std::int64_t number) {
  return node_stream({.purpose = Purpose::kGenerate, .seed = seed, .epoch = number});
}

struct PlantedRanks {
  IdArray node_of, rank_of;  // rank -> node, node -> rank

  PlantedRanks(std::int64_t count, const PermutationKey& key)
      : node_of(random_permutation(count, key)), rank_of(make_id_array(count, count)) {
    std::visit(
        [&](const auto& nodes) {
          auto& ranks = std::get<std::decay_t<decltype(nodes)>>(rank_of);
          for (std::int64_t rank = 0; rank < count; ++rank)
            ranks[nodes[rank]] = static_cast<std::decay_t<decltype(ranks[0])>>(rank);
        },
        node_of);
  }
  std::int64_t rank(std::int64_t node) const {
    return std::visit([&](const auto& ranks) { return std::int64_t{ranks[node]}; }, rank_of);
  }
};

/// Returns row offsets [nodes + 1], the degrees by rank.
inline std::vector<std::int64_t> planted_rows(const PlantedRanks& ranks, std::int64_t num_edges) {
  return std::visit(
      [&](const auto& nodes) {
        const PlantedDegrees degrees(std::ssize(nodes), num_edges);
        std::vector<std::int64_t> begin(nodes.size() + 1);
        std::uint64_t given = 0;
        for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
          const std::uint64_t next =
              std::max(degrees.upto(rank + 1), given);  // rounding must not take edges back
          begin[nodes[rank] + 1] = static_cast<std::int64_t>(next - given);
          given = next;
        }
        for (std::size_t v = 0; v < nodes.size(); ++v) begin[v + 1] += begin[v];
        return begin;
      },
      ranks.node_of);
}

/// A PlantedTaste says who draws: one of the group `own` of `groups`, which stays in it on purpose for this
/// share of its draws.
struct PlantedTaste {
  std::uint64_t own = 0, groups = 1;
  double share = 0;
};

/// Fills a row with nodes, the lower ranks more often: half a block of the stream's random words for each.
template <class Id>
void draw_planted(const NodeStream& stream, const PlantedTaste& taste, const std::vector<Id>& node_of,
                  std::span<Id> row) {
  const auto nodes = static_cast<std::uint64_t>(node_of.size());
  const std::uint64_t own_size = (nodes - taste.own + taste.groups - 1) / taste.groups;
  const auto keep = static_cast<std::uint64_t>(taste.share * 65'536.0);
  RandomWords words{};
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i % 2 == 0) words = stream.words(static_cast<std::uint32_t>(i / 2));
    const std::uint64_t random = std::uint64_t{words.word[i % 2 * 2]} << 32 | words.word[i % 2 * 2 + 1];
    const bool stay = (random & 0xFFFF) < keep;
    row[i] = node_of[stay ? draw_rank(random >> 16, own_size) * taste.groups + taste.own
                          : draw_rank(random >> 16, nodes)];
  }
}

}  // namespace hopfeed
