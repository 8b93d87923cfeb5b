// The commands of hopfeed-partition share this: progress on stderr, which is also where they notice that they
// shall stop.
#pragma once
#include <optional>
#include <string>

#include "core/program/json_report.h"
#include "core/program/progress_bar.h"
#include "partition_tool/progress.h"

namespace hopfeed {

/// Bars draws one bar for each step, on stderr. Reports throw Interrupted after Ctrl-C, so that temporary
/// files go the way of any error.
class Bars {
 public:
  Progress progress() {
    return [this](const ProgressReport& report) { show(report); };
  }
  void show(const ProgressReport& report);
  void finish() { bar_.reset(); }

 private:
  std::string step_;
  std::optional<ProgressBar> bar_;
};

}  // namespace hopfeed
