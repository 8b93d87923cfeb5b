// The commands of hopfeed-partition share this: progress on stderr, which is also where they notice that they
// shall stop.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/program/json_report.h"
#include "core/program/progress_bar.h"
#include "partition_tool/graph_memory.h"
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

/// MemoryTold says on stdout what memory a command wants, and knows it for the report.
class MemoryTold {
 public:
  explicit MemoryTold(Bars& bars) : bars_(bars) {}
  TellMemory teller();
  /// Returns the most that was told; 0: nothing was.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Bars& bars_;
  std::uint64_t bytes_ = 0;
};

}  // namespace hopfeed
