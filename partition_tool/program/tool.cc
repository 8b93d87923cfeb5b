// See tool.h.
#include "partition_tool/program/tool.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/program/stop_signals.h"

namespace hopfeed {

void Bars::show(const ProgressReport& report) {
  stop_if_asked();
  if (!bar_ || step_ != report.step) {
    bar_.reset();
    step_ = report.step;
    bar_.emplace(step_, report.total, ProgressBarOptions{.unit = report.unit});
  }
  bar_->set(report.done, report.total);
}

TellMemory MemoryTold::teller() {
  return [this](const MemoryWish& wish, const AvailableMemory& available) {
    bars_.finish();
    fmt::print("{} wants about {} of memory at its peak, {} are available\n", wish.what,
               format_bytes(wish.bytes), format_bytes(available.bytes));
    bytes_ = std::max(bytes_, wish.bytes);
  };
}

}  // namespace hopfeed
