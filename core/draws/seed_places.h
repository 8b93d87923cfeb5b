// SeedPlaces says where the times of a batch's seeds fall among those of an edge type: found once, searched
// for in every row (temporal_picker.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/scratch.h"
#include "core/draws/temporal_rule.h"

namespace hopfeed {

class SeedPlaces {
 public:
  /// Finds the places. With a `window`, neighbours are later than the seed's time less it; 0 is no bound.
  void find(std::span<const std::int64_t> bounds, std::span<const std::int64_t> times, std::int64_t window) {
    count_ = times.size();
    has_begins_ = window > 0;
    places_.reserve(most(count_, window));
    for (std::size_t i = 0; i < count_; ++i) {
      places_[i] = TimePlace(bounds, times[i]);
      if (!has_begins_) continue;
      // A window that begins before the smallest time has no edge before it.
      const bool has_begin = times[i] >= INT64_MIN + window;
      places_[count_ + i] = has_begin ? TimePlace(bounds, times[i] - window) : TimePlace();
    }
  }
  std::span<const TimePlace> ends() const { return {places_.data(), count_}; }
  /// Returns the places where windows begin; empty without a window.
  std::span<const TimePlace> begins() const {
    return {places_.data() + (has_begins_ ? count_ : 0), has_begins_ ? count_ : 0};
  }
  std::size_t bytes() const { return places_.bytes(); }
  /// Returns what bytes() comes to at most with so many seeds.
  static std::size_t max_bytes(std::size_t seeds, std::int64_t window) {
    return ScratchArray<TimePlace>::max_bytes(most(seeds, window));
  }

 private:
  static std::size_t most(std::size_t seeds, std::int64_t window) { return window > 0 ? 2 * seeds : seeds; }

  ScratchArray<TimePlace> places_;
  std::size_t count_ = 0;
  bool has_begins_ = false;
};

}  // namespace hopfeed
