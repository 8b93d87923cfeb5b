// SeedPlaces says where the times of a batch's seeds fall among those of an edge type: found once, searched
// for in every row (temporal_picker.h).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/scratch.h"
#include "core/batch/batch_options.h"
#include "core/draws/temporal_rule.h"

namespace hopfeed {

class SeedPlaces {
 public:
  /// Finds the places. The options say from which time on neighbours count: time_window, time_start.
  void find(std::span<const std::int64_t> bounds, std::span<const std::int64_t> times,
            const BatchOptions& options) {
    count_ = times.size();
    has_begins_ = bounded(options);
    places_.reserve(most(count_, options));
    for (std::size_t i = 0; i < count_; ++i) {
      places_[i] = TimePlace(bounds, times[i]);
      if (!has_begins_) continue;
      const std::optional<std::int64_t> before = last_before(times[i], options);
      places_[count_ + i] = before ? TimePlace(bounds, *before) : TimePlace();
    }
  }
  std::span<const TimePlace> ends() const { return {places_.data(), count_}; }
  /// Returns the places where windows begin; empty without a window.
  std::span<const TimePlace> begins() const {
    return {places_.data() + (has_begins_ ? count_ : 0), has_begins_ ? count_ : 0};
  }
  std::size_t bytes() const { return places_.bytes(); }
  /// Returns what bytes() comes to at most with so many seeds.
  static std::size_t max_bytes(std::size_t seeds, const BatchOptions& options) {
    return ScratchArray<TimePlace>::max_bytes(most(seeds, options));
  }

 private:
  static bool bounded(const BatchOptions& options) { return options.time_window > 0 || options.time_start; }
  static std::size_t most(std::size_t seeds, const BatchOptions& options) {
    return bounded(options) ? 2 * seeds : seeds;
  }
  /// The last time that does not count for a seed of this time; none where all earlier times count.
  static std::optional<std::int64_t> last_before(std::int64_t seed, const BatchOptions& options) {
    constexpr std::int64_t kFirst = INT64_MIN;  // no edge is earlier, so a start there bounds nothing
    std::optional<std::int64_t> last;
    if (options.time_window > 0 && seed >= kFirst + options.time_window) last = seed - options.time_window;
    if (options.time_start && *options.time_start > kFirst)
      last = std::max(last.value_or(kFirst), *options.time_start - 1);
    return last;
  }

  ScratchArray<TimePlace> places_;
  std::size_t count_ = 0;
  bool has_begins_ = false;
};

}  // namespace hopfeed
