// See serial_draws.h.
#include "bench/core/serial_draws.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/dataset/alias_table.h"
#include "core/draws/labor_rule.h"
#include "core/draws/weighted_rule.h"

namespace hopfeed::bench {
namespace {

Positions all_of(std::uint64_t size) {
  Positions all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

bool takes_all(std::uint64_t size, std::int64_t fanout, bool replace) {
  return size == 0 || fanout < 0 || (!replace && size <= static_cast<std::uint64_t>(fanout));
}

Positions draw_uniformly(const NodeStream& stream, std::uint64_t size, std::int64_t fanout, bool replace) {
  if (takes_all(size, fanout, replace)) return all_of(size);
  Positions picks;
  std::set<std::uint64_t> taken;
  const auto k = static_cast<std::uint32_t>(fanout);
  for (std::uint32_t j = 0; j < k; ++j) {
    const auto bound = static_cast<std::uint32_t>(replace ? size : size - k + j + 1);
    std::uint64_t pick = draw_below(stream, j, stream.words(j / 4).word[j % 4], bound);
    if (!replace && taken.contains(pick)) pick = size - k + j;
    taken.insert(pick);
    picks.push_back(pick);
  }
  return picks;
}

Positions draw_by_weight(const NodeStream& stream, std::span<const AliasEntry> table, std::int64_t fanout,
                         bool replace) {
  std::vector<std::uint64_t> left(table.size());
  alias_weights(table, left.data());
  Positions picks;
  if (takes_all(table.size(), fanout, replace)) {
    for (std::uint64_t i = 0; i < table.size(); ++i)
      if (left[i] > 0) picks.push_back(i);
    return picks;
  }
  if (std::ranges::all_of(left, [](std::uint64_t weight) { return weight == 0; })) return picks;
  const auto k = static_cast<std::size_t>(fanout);
  const auto draw = [&](std::uint32_t t) {
    const AliasDraw made = alias_draw(stream, t, static_cast<std::uint32_t>(table.size()));
    return std::uint64_t{alias_position(made, table[made.column])};
  };
  const auto attempts = replace ? static_cast<std::uint32_t>(k) : max_attempts(static_cast<std::uint32_t>(k));
  for (std::uint32_t t = 0; t < attempts && picks.size() < k; ++t) {
    const std::uint64_t pick = draw(t);
    if (replace || std::ranges::find(picks, pick) == picks.end()) picks.push_back(pick);
  }
  for (std::uint64_t pick : picks) left[pick] = 0;
  for (std::uint32_t t = attempts; picks.size() < k; ++t) {
    const std::uint64_t total = std::accumulate(left.begin(), left.end(), std::uint64_t{0});
    if (total == 0) break;
    std::uint64_t at = draw_below_wide(stream, t, total), pick = 0;
    while (at >= left[pick]) at -= left[pick++];
    left[pick] = 0;
    picks.push_back(pick);
  }
  return picks;
}

Positions of_the_past(std::span<const std::int64_t> times, std::int64_t now, std::int64_t window) {
  Positions seen;
  for (std::uint64_t i = 0; i < times.size(); ++i)
    if (times[i] <= now && (window == 0 || times[i] > now - window)) seen.push_back(i);
  std::ranges::stable_sort(seen, {}, [&](std::uint64_t i) { return times[i]; });
  return seen;
}

Positions draw_by_source(NodeStream stream, std::size_t hop, std::span<const std::int64_t> sources,
                         std::int64_t fanout) {
  if (takes_all(sources.size(), fanout, false)) return all_of(sources.size());
  const std::uint64_t threshold = labor_threshold(static_cast<std::uint64_t>(fanout), sources.size());
  Positions picks;
  for (std::uint64_t i = 0; i < sources.size(); ++i) {
    stream.node = static_cast<std::uint64_t>(sources[i]);
    if (labor_variate(stream, static_cast<std::uint32_t>(hop)) < threshold) picks.push_back(i);
  }
  return picks;
}

}  // namespace hopfeed::bench
