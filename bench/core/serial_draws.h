// The sampling rules are written down here literally, row by row: sets, sums that are walked, no lanes and no
// scratch. They are slow and obviously right, and the pickers must give the same. Positions are those in the
// row. serial_sampler.h says why nothing here is the core's.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "bench/core/serial_random.h"
#include "core/dataset/alias_entry.h"

namespace hopfeed::bench {

using Positions = std::vector<std::uint64_t>;

/// Returns whether a row gives all that it has.
bool takes_all(std::uint64_t size, std::int64_t fanout, bool replace);

/// Draws by Floyd's algorithm, or by plain draws, over [0, size), in the order of the draws; gives all in
/// turn where takes_all.
Positions draw_uniformly(const SerialStream& stream, std::uint64_t size, std::int64_t fanout, bool replace);

/// Draws by the weights of an alias table: repeats are rejected, then draw-and-remove; where takes_all, it
/// gives whatever weighs more than nothing.
Positions draw_by_weight(const SerialStream& stream, std::span<const AliasEntry> table, std::int64_t fanout,
                         bool replace);

/// Returns those of `times` that a seed at `now` sees, the earliest first, equal ones in their own order.
/// `window` 0 is no bound.
Positions of_the_past(std::span<const std::int64_t> times, std::int64_t now, std::int64_t window);

/// Draws by LABOR-0: gives those whose source has a variate below the threshold. `sources` are original ids.
Positions draw_by_source(const SerialStream& stream, std::size_t hop, std::span<const std::int64_t> sources,
                         std::int64_t fanout);

}  // namespace hopfeed::bench
