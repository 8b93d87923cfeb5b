// LeftOut tells which places of a row count as absent, and where the others are. What is left keeps its order
// and is numbered on without gaps, as if the row had been stored without them.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/base/scratch.h"

namespace hopfeed {

/// It views a list that may move in memory as it grows; nothing is left out by default.
class LeftOut {
 public:
  LeftOut() = default;
  /// `lists` holds from `first` on, for each of `count` places in rising order, how many before it are left.
  LeftOut(const ScratchArray<std::uint64_t>& lists, std::uint64_t first, std::uint64_t count)
      : lists_(&lists), first_(first), count_(count) {}

  std::uint64_t count() const { return count_; }
  /// Returns the j-th place that is left out.
  std::uint64_t absent(std::uint64_t j) const { return list()[j] + j - left_before_; }
  /// Returns the place of the i-th source that is left.
  std::uint64_t place(std::uint64_t i) const {
    if (count_ == 0) return i;
    const std::uint64_t* end = list() + count_;
    return i + static_cast<std::uint64_t>(std::upper_bound(list(), end, i + left_before_) - list());
  }
  /// Returns what is left out of the stretch [begin, begin + size) alone, whose places count from its begin.
  LeftOut within(std::uint64_t begin, std::uint64_t size) const {
    const std::uint64_t from = number_before(begin);
    LeftOut part = *this;
    part.first_ += from;
    part.count_ = number_before(begin + size) - from;
    part.left_before_ += begin - from;
    return part;
  }

 private:
  const std::uint64_t* list() const { return lists_->data() + first_; }
  /// Returns how many places that are left out lie before a place.
  std::uint64_t number_before(std::uint64_t place) const {
    std::uint64_t lo = 0, hi = count_;
    while (lo < hi) {
      const std::uint64_t mid = (lo + hi) / 2;
      if (absent(mid) < place)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo;
  }

  const ScratchArray<std::uint64_t>* lists_ = nullptr;
  std::uint64_t first_ = 0, count_ = 0;
  std::uint64_t left_before_ = 0;  // of a stretch: how many before it are left
};

}  // namespace hopfeed
