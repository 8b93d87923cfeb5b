// Where in a row a time may be found: by the share of all edges that are no later, in a sample of them, and from one time of the row,
// which tells how far off that is. Right where rows have times as the whole has, a few cache lines away where they have
// others; what is found never depends on it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph_view.h"

namespace hopfeed {

class TimeGuess {
 public:
  TimeGuess(const TimeView& time, const CscView& csc) {
    const std::int64_t step = std::max<std::int64_t>(1, csc.num_edges / kSamples);
    for (std::size_t p = 0; p < csc.parts.size(); ++p)
      for (std::int64_t i = step / 2; i < csc.parts[p].num_edges; i += step)
        samples_.push_back(time.times[p][i]);
    std::sort(samples_.begin(), samples_.end());
  }

  /// The share of edges no later than a time, and by how much it grows with the time there.
  struct Place {
    double share, slope;
  };
  Place place(std::int64_t time) const {
    if (samples_.empty()) return {0, 0};
    const std::ptrdiff_t earlier =
        std::upper_bound(samples_.begin(), samples_.end(), time) - samples_.begin();
    const std::ptrdiff_t from = std::max<std::ptrdiff_t>(0, earlier - kAround),
                         to = std::min(std::ssize(samples_) - 1, earlier + kAround);
    const double all = static_cast<double>(samples_.size()),
                 span = difference(samples_[static_cast<std::size_t>(to)],
                                   samples_[static_cast<std::size_t>(from)]);
    return {static_cast<double>(earlier) / all, span > 0 ? static_cast<double>(to - from) / (all * span) : 0};
  }

  /// Of times that may be as far apart as can be.
  static double difference(std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) - static_cast<double>(b);
  }

 private:
  static constexpr std::int64_t kSamples = 512;
  static constexpr std::ptrdiff_t kAround = 16;  // samples: as far as a row of a few hundred edges is off
  std::vector<std::int64_t> samples_;
};

/// A stretch of a row's times [begin, end), in which a search begins.
struct TimeBracket {
  std::uint64_t begin, end;

  /// Around the place where the first later time is thought.
  TimeBracket(std::uint64_t degree, std::uint64_t place)
      : begin(place - std::min(place, kHalf)), end(std::min(degree, place + kHalf)) {}

  /// A first thought, by the share of all edges; at a time of the row if it has one.
  static std::uint64_t guess(std::uint64_t degree, const TimeGuess::Place& now) {
    return within(now.share * static_cast<double>(degree), degree - (degree > 0));
  }
  /// A better one, by the time at the first.
  static std::uint64_t better(std::uint64_t degree, const TimeGuess::Place& now, std::uint64_t guess,
                              double late) {
    return within(static_cast<double>(guess) + late * now.slope * static_cast<double>(degree), degree);
  }
  /// Moves and widens it until the first time that is later than `now` lies in it or just behind it.
  void widen(const std::int64_t* times, std::uint64_t degree, std::int64_t now) {
    std::uint64_t step = end - begin + 1 + degree / kSteps;
    for (; end < degree && times[end] <= now; step *= 2) {
      begin = end + 1;
      end += std::min(degree - end, step);
    }
    for (; begin > 0 && times[begin - 1] > now; step *= 2) {
      end = begin - 1;
      begin -= std::min(begin, step);
    }
  }

 private:
  static std::uint64_t within(double place, std::uint64_t most) {
    return static_cast<std::uint64_t>(std::clamp(place, 0.0, static_cast<double>(most)));
  }
  static constexpr std::uint64_t kSteps = 1024;  // of a long row: at most ten until half of it is seen
  static constexpr std::uint64_t kHalf = 6;      // with a time at either side mostly in two cache lines
};

}  // namespace hopfeed
