// See serial_draws.h.
#include "bench/core/serial_draws.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace hopfeed::bench {
namespace {

Positions all_of(std::uint64_t size) {
  Positions all(size);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// What the edges of an alias table weigh: each column is 2^32, its edge's below the threshold and the
/// alias's from there on; of an edge that is its own alias whole, or nothing.
Positions weights_of(std::span<const AliasEntry> table) {
  constexpr std::uint64_t kColumn = std::uint64_t{1} << 32;
  Positions weights(table.size(), 0);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const bool alone = table[i].alias == i;
    weights[i] += alone && table[i].threshold > 0 ? kColumn : table[i].threshold;
    if (!alone) weights[table[i].alias] += kColumn - table[i].threshold;
  }
  return weights;
}

}  // namespace

bool takes_all(std::uint64_t size, std::int64_t fanout, bool replace) {
  return size == 0 || fanout < 0 || (!replace && size <= static_cast<std::uint64_t>(fanout));
}

Positions draw_uniformly(const SerialStream& stream, std::uint64_t size, std::int64_t fanout, bool replace) {
  if (takes_all(size, fanout, replace)) return all_of(size);
  Positions picks;
  std::set<std::uint64_t> taken;
  const auto k = static_cast<std::uint64_t>(fanout);
  for (std::uint64_t j = 0; j < k; ++j) {
    std::uint64_t pick = stream.below(j, j, replace ? size : size - k + j + 1);
    if (!replace && taken.contains(pick)) pick = size - k + j;
    taken.insert(pick);
    picks.push_back(pick);
  }
  return picks;
}

Positions draw_by_weight(const SerialStream& stream, std::span<const AliasEntry> table, std::int64_t fanout,
                         bool replace) {
  Positions left = weights_of(table);
  Positions picks;
  if (takes_all(table.size(), fanout, replace)) {
    for (std::uint64_t i = 0; i < table.size(); ++i)
      if (left[i] > 0) picks.push_back(i);
    return picks;
  }
  if (std::ranges::all_of(left, [](std::uint64_t weight) { return weight == 0; })) return picks;
  const auto k = static_cast<std::size_t>(fanout);
  const auto draw = [&](std::uint64_t t) -> std::uint64_t {
    const std::uint64_t column = stream.below(t, 2 * t, table.size());
    return stream.word(2 * t + 1) < table[column].threshold ? column : table[column].alias;
  };
  const std::uint64_t attempts = replace ? k : k <= 16'384 ? 2 * k + 16 : 0;
  for (std::uint64_t t = 0; t < attempts && picks.size() < k; ++t) {
    const std::uint64_t pick = draw(t);
    if (replace || std::ranges::find(picks, pick) == picks.end()) picks.push_back(pick);
  }
  for (std::uint64_t pick : picks) left[pick] = 0;
  for (std::uint64_t t = attempts; picks.size() < k; ++t) {
    const std::uint64_t total = std::accumulate(left.begin(), left.end(), std::uint64_t{0});
    if (total == 0) break;
    std::uint64_t at = stream.below_wide(t, total), pick = 0;
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

Positions draw_by_source(const SerialStream& stream, std::size_t hop, std::span<const std::int64_t> sources,
                         std::int64_t fanout) {
  if (takes_all(sources.size(), fanout, false)) return all_of(sources.size());
  const auto threshold =
      static_cast<std::uint64_t>((static_cast<unsigned __int128>(fanout) << 63) / sources.size());
  Positions picks;
  for (std::uint64_t i = 0; i < sources.size(); ++i) {
    const SerialStream source = stream.of(sources[i], 0);
    const std::uint64_t variate = std::uint64_t{source.word(hop % 4)} << 31 | source.word(4 + hop % 4) >> 1;
    if (variate < threshold) picks.push_back(i);
  }
  return picks;
}

}  // namespace hopfeed::bench
