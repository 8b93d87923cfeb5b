// The one temporal rule says which edges of a row are no later than a time. Host and device compile this same
// text, as sampling_rule.h; the CPU sampler searches the rows of a group side by side (temporal_picker.h), a
// kernel has a thread for each (gpu/kernels/row_kernels.h).
//
// A row in the order of time is searched by its codes (time_codes.h), from the place where these are thought;
// of the class that the time itself falls into, which is open, the row's times decide. What is drawn then is
// sampling_rule.h's, of the stretch that was found.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/base/host_device.h"

namespace hopfeed {

/// A TimePlace is a time that is searched for: edges with codes below `past` are no later, and where it is
/// `open`, so may be some with that code.
struct TimePlace {
  std::int64_t time = INT64_MIN;
  double share = 0, slope = 0;  // of all edges that are no later; and from code to code
  std::int32_t past = INT16_MIN;
  bool open = false;

  TimePlace() = default;  // no edge is as early
  /// Finds the place of a time among the bounds of an edge type.
  template <class Bounds>
  TimePlace(const Bounds& bounds, std::int64_t t) : time(t) {
    const auto [earlier, later] = std::equal_range(bounds.begin(), bounds.end(), t);
    // A bound is the latest time of the class that it closes, so all of that class are no later than it.
    open = earlier == later;
    past = static_cast<std::int32_t>(earlier - bounds.begin()) + INT16_MIN + (open ? 0 : 1);
    slope = 1 / static_cast<double>(bounds.size() + 1);
    share = (static_cast<double>(later - bounds.begin()) + (open ? 0.5 : 0)) * slope;
  }
};

/// A TimeBracket is a stretch of a row's codes [begin, end), in which a search begins.
struct TimeBracket {
  std::uint64_t begin, end;

  /// The bracket begins around the place where the first later time is thought.
  HOPFEED_HOST_DEVICE TimeBracket(std::uint64_t degree, std::uint64_t place)
      : begin(place - least(place, kHalf)), end(least(degree, place + kHalf)) {}

  /// Returns a first thought, by the share of all edges; at an edge of the row if it has one.
  HOPFEED_HOST_DEVICE static std::uint64_t guess(std::uint64_t degree, const TimePlace& place) {
    return within(place.share * static_cast<double>(degree), degree - (degree > 0));
  }
  /// Returns a better thought, by the code at the first; that of a time which many have says less than the
  /// first thought.
  HOPFEED_HOST_DEVICE static std::uint64_t better(std::uint64_t degree, const TimePlace& place,
                                                  std::uint64_t guess, std::int16_t code) {
    if (!place.open && code == place.past - 1) return guess;
    const double share = (code - INT16_MIN + 0.5) * place.slope;
    return within(static_cast<double>(guess) + (place.share - share) * static_cast<double>(degree), degree);
  }
  /// Moves and widens the bracket until the first code that is not below `past` lies in it or just behind it.
  HOPFEED_HOST_DEVICE void widen(const std::int16_t* codes, std::uint64_t degree, std::int32_t past) {
    std::uint64_t step = end - begin + 1 + degree / kSteps;
    for (; end < degree && codes[end] < past; step *= 2) {
      begin = end + 1;
      end += least(degree - end, step);
    }
    for (; begin > 0 && codes[begin - 1] >= past; step *= 2) {
      end = begin - 1;
      begin -= least(begin, step);
    }
  }

 private:
  HOPFEED_HOST_DEVICE static std::uint64_t least(std::uint64_t a, std::uint64_t b) { return b < a ? b : a; }
  HOPFEED_HOST_DEVICE static std::uint64_t within(double place, std::uint64_t most) {
    const auto last = static_cast<double>(most);
    return static_cast<std::uint64_t>(place < 0.0 ? 0.0 : last < place ? last : place);
  }
  static constexpr std::uint64_t kSteps = 1024;  // of a long row: at most ten until half of it is seen
  static constexpr std::uint64_t kHalf = 6;      // with a code at either side mostly in one cache line
};

/// Makes one halving in the search for the codes below `past`, of which `result` are known and the others lie
/// in the next `size`; it has no branch, since none could be predicted. Where one is left, it decides
/// nothing.
HOPFEED_HOST_DEVICE inline void halve_codes(const std::int16_t* codes, std::int32_t past, std::uint64_t& size,
                                            std::uint64_t& result) {
  const std::uint64_t half = size / 2;
  const std::int16_t code = codes[result + half - (half > 0)];
  result += half & -static_cast<std::uint64_t>(code < past);
  size -= half;
}

/// Returns the place of the first of values[begin, end), which rise, that is greater.
template <class T, class Value>
HOPFEED_HOST_DEVICE std::uint64_t first_above(const T* values, std::uint64_t begin, std::uint64_t end,
                                              Value value) {
  while (begin < end) {
    const std::uint64_t mid = begin + (end - begin) / 2;
    if (value < values[mid])
      end = mid;
    else
      begin = mid + 1;
  }
  return begin;
}

/// A TimedRow is a row in the order of time.
struct TimedRow {
  const std::int16_t* codes = nullptr;
  const std::int64_t* times = nullptr;
  std::uint64_t degree = 0;

  /// Returns whether the times of a class have to decide, where `found` codes are below the place's.
  HOPFEED_HOST_DEVICE bool is_open(const TimePlace& place, std::uint64_t found) const {
    return place.open && found < degree && codes[found] == place.past;
  }
  /// Returns how many edges are no later than the place, where `first` is the first one of its own class.
  HOPFEED_HOST_DEVICE std::uint64_t in_class(const TimePlace& place, std::uint64_t first) const {
    return first_above(times, first, first_above(codes, first, degree, place.past), place.time);
  }

  /// Returns how many edges are no later than the place, searched for from `start` on.
  HOPFEED_HOST_DEVICE std::uint64_t num_until(const TimePlace& place, std::uint64_t start) const {
    TimeBracket bracket(degree, start);
    bracket.widen(codes, degree, place.past);
    std::uint64_t size = bracket.end - bracket.begin, found = 0;
    if (size > 0) {
      while (size > 1) halve_codes(codes + bracket.begin, place.past, size, found);
      found += codes[bracket.begin + found] < place.past;
    }
    found += bracket.begin;
    return is_open(place, found) ? in_class(place, found) : found;
  }
  /// Returns the place to start at: a thought, and a better one that reads a code.
  HOPFEED_HOST_DEVICE std::uint64_t start(const TimePlace& place) const {
    if (degree == 0) return 0;
    const std::uint64_t guess = TimeBracket::guess(degree, place);
    return TimeBracket::better(degree, place, guess, codes[guess]);
  }
};

/// A TimedStretch is what of a row is in the past of a seed: edges [first, first + count) in the order of
/// time.
struct TimedStretch {
  std::uint64_t first = 0, count = 0;

  /// Returns the edges later than the begin of the window, no later than its end; edges up to both are
  /// counted so.
  HOPFEED_HOST_DEVICE static TimedStretch between(std::uint64_t until_begin, std::uint64_t until_end) {
    return {until_begin, until_end < until_begin ? 0 : until_end - until_begin};
  }
};

}  // namespace hopfeed
