// See tool.h.
#include "partition_tool/program/tool.h"

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

}  // namespace hopfeed
