// What the commands of hopfeed-partition share: progress on stderr, the JSON report.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/program/progress_bar.h"
#include "partition_tool/progress.h"

namespace hopfeed {

/// Thrown from progress reports after Ctrl-C or SIGTERM, so that temporary files go the way of any error.
struct Interrupted {};

/// Asks the running command to stop at the next progress report; a second signal ends the program at once.
void stop_on_signals();

/// One bar for each step, on stderr.
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

/// The file of `--json`: opened before the work so that a bad path is told at once, there whole or not at
/// all.
class JsonReport {
 public:
  /// An empty path makes a report that goes nowhere.
  explicit JsonReport(const std::string& path);
  ~JsonReport();
  JsonReport(const JsonReport&) = delete;
  JsonReport& operator=(const JsonReport&) = delete;
  void write(const nlohmann::json& report);

 private:
  std::filesystem::path path_, temporary_;
};

}  // namespace hopfeed
