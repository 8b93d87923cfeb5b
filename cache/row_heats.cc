// See row_heats.h.
#include "cache/row_heats.h"

namespace hopfeed {

void RowHeats::add(std::int64_t first, std::uint8_t heat) {
  const HeatRun run = static_cast<HeatRun>(first) << 8 | heat;
  if (!each_.empty()) {
    fill(runs_.back(), static_cast<std::size_t>(first));
    runs_.back() = run;
    return;
  }
  if (runs_.back() >> 8 == static_cast<HeatRun>(first)) runs_.pop_back();
  if (runs_.empty() || static_cast<std::uint8_t>(runs_.back()) != heat) runs_.push_back(run);
  if (runs_.size() > 1 && runs_.size() * sizeof(HeatRun) > rows_) take_each();
}

void RowHeats::end() {
  if (each_.empty()) return;
  fill(runs_.back(), rows_);
  runs_ = std::vector<HeatRun>();
}

void RowHeats::fill(HeatRun run, std::size_t end) {
  for (std::size_t row = run >> 8; row < std::min(end, rows_); ++row)
    each_[row] = static_cast<std::uint8_t>(run);
}

// From here on each row has its byte, since that takes less.
void RowHeats::take_each() {
  each_.resize(rows_);
  for (std::size_t r = 0; r + 1 < runs_.size(); ++r)
    fill(runs_[r], static_cast<std::size_t>(runs_[r + 1] >> 8));
  runs_ = std::vector<HeatRun>{runs_.back()};
}

}  // namespace hopfeed
