// Where in a row a time may be found: the share of all edges that are no later, by a sample of them. Right where rows have times
// as the whole has, a few cache lines away where they have others; what is found never depends on it.
#pragma once
#include <algorithm>
#include <bit>
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

  /// The share of edges no later than `time`, of 2^32.
  std::uint32_t share(std::int64_t time) const {
    const auto earlier = static_cast<std::uint64_t>(std::upper_bound(samples_.begin(), samples_.end(), time) -
                                                    samples_.begin());
    return static_cast<std::uint32_t>((earlier << 32) / (samples_.size() + 1));
  }

 private:
  static constexpr std::int64_t kSamples = 512;
  std::vector<std::int64_t> samples_;
};

/// A stretch of a row's times [begin, end), in which a search begins.
struct TimeBracket {
  std::uint64_t begin, end;

  /// Around the place that a share says: as wide as a sample of the row would scatter.
  TimeBracket(std::uint64_t degree, std::uint32_t share) {
    const std::uint64_t guess =
                            static_cast<std::uint64_t>(static_cast<unsigned __int128>(degree) * share >> 32),
                        half = half_width(degree);
    begin = guess - std::min(guess, half);
    end = std::min(degree, guess + half);
  }
  /// Moves and widens it until the first time that is later than `now` lies in it or just behind it.
  void widen(const std::int64_t* times, std::uint64_t degree, std::int64_t now) {
    std::uint64_t step = end - begin + 1;
    for (; end < degree && times[end] <= now; step *= 2) {
      begin = end + 1;
      end += std::min(degree - end, step);
    }
    for (; begin > 0 && times[begin - 1] > now; step *= 2) {
      end = begin - 1;
      begin -= std::min(begin, step);
    }
  }

  static std::uint64_t half_width(std::uint64_t degree) {
    return std::max<std::uint64_t>(
        kLine / 2, std::uint64_t{1} << (std::bit_width(degree | 1) - 1) / 2);  // a row may be empty
  }
  static constexpr std::uint64_t kLine = 8;  // times in a cache line
};

}  // namespace hopfeed
