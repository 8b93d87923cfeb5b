// What the subcommands of hopfeed-partition share: the command that was chosen, progress on stderr, the JSON report.
#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
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
  Progress progress() { return [this](const ProgressReport& report) { show(report); }; }
  void show(const ProgressReport& report);
  void finish() { bar_.reset(); }

 private:
  std::string step_;
  std::optional<ProgressBar> bar_;
};

/// The file of `--json`: opened before the work so that a bad path is told at once, there whole or not at all.
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

struct Tool {
  std::string command_line;          // noted in the dataset
  std::function<void()> run;         // set by the subcommand that the user chose
};

void add_import(CLI::App& app, Tool& tool);
void add_generate(CLI::App& app, Tool& tool);
void add_partition(CLI::App& app, Tool& tool);
void add_inspect(CLI::App& app, Tool& tool);
void add_verify(CLI::App& app, Tool& tool);

/// The option --threads, all processors of this process by default.
void add_threads_option(CLI::App& command, int& threads);

}  // namespace hopfeed
