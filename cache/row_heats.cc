// See row_heats.h.
#include "cache/row_heats.h"

namespace hopfeed {

void RowHeats::add(std::int64_t first, std::uint8_t heat) {
  if (runs_.back() >> 8 == static_cast<HeatRun>(first)) {
    runs_.pop_back();
  }
  if (runs_.empty() || static_cast<std::uint8_t>(runs_.back()) != heat)
    runs_.push_back(static_cast<HeatRun>(first) << 8 | heat);
}

void RowHeats::end(std::int64_t rows) {
  const auto count = static_cast<std::size_t>(rows);
  if (runs_.size() * sizeof(HeatRun) <= count) return;
  each_.resize(count);
  for (std::size_t r = 0; r < runs_.size(); ++r) {
    const auto first = static_cast<std::size_t>(runs_[r] >> 8),
               end = r + 1 < runs_.size() ? static_cast<std::size_t>(runs_[r + 1] >> 8) : count;
    if (first < count)
      std::fill(each_.begin() + static_cast<std::ptrdiff_t>(first),
                each_.begin() + static_cast<std::ptrdiff_t>(std::min(end, count)),
                static_cast<std::uint8_t>(runs_[r]));
  }
  runs_ = {};
}

}  // namespace hopfeed
