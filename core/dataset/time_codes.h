// Time codes are times in 16 bits, for the search in a row (temporal_rule.h): a row's codes lie in a quarter
// of the cache lines that its times take. Bounds cut the times of an edge type into classes of about as many
// edges each, and a code says in which of them a time is. A seed's time falls into one class too: earlier
// classes are of the past, later ones are not, and within its own the times decide, which are read for one
// edge of 65,000. Codes also say where in a row a time may be found, since they are shares of all edges.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/limits.h"

namespace hopfeed {

/// The bounds of an edge type are made of so many of its times: four to a class.
inline constexpr std::int64_t kTimeSamples = 4 * (std::int64_t{kMaxTimeBounds} + 1);

/// Returns the bounds in order; a time that many edges have is there as often as it is their share.
inline std::vector<std::int64_t> time_bounds(std::vector<std::int64_t> sample) {
  std::ranges::sort(sample);
  if (sample.size() <= kMaxTimeBounds) return sample;
  std::vector<std::int64_t> bounds;
  for (std::size_t i = 1; i <= kMaxTimeBounds; ++i)
    bounds.push_back(sample[i * sample.size() / (kMaxTimeBounds + 1)]);
  return bounds;
}

/// Returns how many bounds are earlier than the time, counted from INT16_MIN on.
inline std::int16_t time_code(std::span<const std::int64_t> bounds, std::int64_t time) {
  return static_cast<std::int16_t>(std::ranges::lower_bound(bounds, time) - bounds.begin() + INT16_MIN);
}

}  // namespace hopfeed
