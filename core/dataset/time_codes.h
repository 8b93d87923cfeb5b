// Times in 16 bits, for the search in a row (temporal_picker.h): a row's codes lie in a quarter of the cache
// lines that its times take. Bounds cut the times of an edge type into classes of about as many edges each,
// and a code says in which of them a time is. A seed's time falls into one class too: earlier ones are of the
// past, later ones are not, and of its own the times decide, which are read for one edge of 65,000. Codes
// also say where in a row a time may be found, since they are shares of all edges.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/limits.h"

namespace hopfeed {

/// Of these many times of an edge type bounds are made: four to a class.
inline constexpr std::int64_t kTimeSamples = 4 * (std::int64_t{kMaxTimeBounds} + 1);

/// In order; a time that many edges have is there as often as it is their share.
inline std::vector<std::int64_t> time_bounds(std::vector<std::int64_t> sample) {
  std::ranges::sort(sample);
  if (sample.size() <= kMaxTimeBounds) return sample;
  std::vector<std::int64_t> bounds;
  for (std::size_t i = 1; i <= kMaxTimeBounds; ++i)
    bounds.push_back(sample[i * sample.size() / (kMaxTimeBounds + 1)]);
  return bounds;
}

/// How many bounds are earlier, counted from INT16_MIN on.
inline std::int16_t time_code(std::span<const std::int64_t> bounds, std::int64_t time) {
  return static_cast<std::int16_t>(std::ranges::lower_bound(bounds, time) - bounds.begin() + INT16_MIN);
}

/// A time that is searched for: edges with codes below `past` are no later, and where it is `open`, so may be
/// some with that code.
struct TimePlace {
  std::int64_t time = INT64_MIN;
  double share = 0, slope = 0;  // of all edges that are no later; and from code to code
  std::int32_t past = INT16_MIN;
  bool open = false;

  TimePlace() = default;  // no edge is as early
  TimePlace(std::span<const std::int64_t> bounds, std::int64_t t) : time(t) {
    const auto [earlier, later] = std::ranges::equal_range(bounds, t);
    // Of the class that a bound closes, which is its latest time, all are no later than it.
    open = earlier == later;
    past = static_cast<std::int32_t>(earlier - bounds.begin()) + INT16_MIN + (open ? 0 : 1);
    slope = 1 / static_cast<double>(bounds.size() + 1);
    share = (static_cast<double>(later - bounds.begin()) + (open ? 0.5 : 0)) * slope;
  }
};

/// A stretch of a row's codes [begin, end), in which a search begins.
struct TimeBracket {
  std::uint64_t begin, end;

  /// Around the place where the first later time is thought.
  TimeBracket(std::uint64_t degree, std::uint64_t place)
      : begin(place - std::min(place, kHalf)), end(std::min(degree, place + kHalf)) {}

  /// A first thought, by the share of all edges; at an edge of the row if it has one.
  static std::uint64_t guess(std::uint64_t degree, const TimePlace& place) {
    return within(place.share * static_cast<double>(degree), degree - (degree > 0));
  }
  /// A better one, by the code at the first; that of a time which many have says less than the first thought.
  static std::uint64_t better(std::uint64_t degree, const TimePlace& place, std::uint64_t guess,
                              std::int16_t code) {
    if (!place.open && code == place.past - 1) return guess;
    const double share = (code - INT16_MIN + 0.5) * place.slope;
    return within(static_cast<double>(guess) + (place.share - share) * static_cast<double>(degree), degree);
  }
  /// Moves and widens it until the first code that is not below `past` lies in it or just behind it.
  void widen(const std::int16_t* codes, std::uint64_t degree, std::int32_t past) {
    std::uint64_t step = end - begin + 1 + degree / kSteps;
    for (; end < degree && codes[end] < past; step *= 2) {
      begin = end + 1;
      end += std::min(degree - end, step);
    }
    for (; begin > 0 && codes[begin - 1] >= past; step *= 2) {
      end = begin - 1;
      begin -= std::min(begin, step);
    }
  }

 private:
  static std::uint64_t within(double place, std::uint64_t most) {
    return static_cast<std::uint64_t>(std::clamp(place, 0.0, static_cast<double>(most)));
  }
  static constexpr std::uint64_t kSteps = 1024;  // of a long row: at most ten until half of it is seen
  static constexpr std::uint64_t kHalf = 6;      // with a code at either side mostly in one cache line
};

}  // namespace hopfeed
