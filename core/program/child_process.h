// Runs another program to its end: its words are an argument vector that no shell reads, what it says is read
// as it comes, and no wait is without a deadline.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace hopfeed {

struct ChildOptions {
  std::vector<std::string> arguments;                    // the program first; it is searched for in PATH
  std::chrono::milliseconds silence{0};                  // it is ended where it says nothing for so long
  std::function<void(const std::string& line)> on_line;  // of its stdout; '\r' ends a line too
};

struct ChildResult {
  int exit_code = -1;   // 128 + signal where one ended it
  bool silent = false;  // it was ended for its silence
  std::string err;      // the first KiB of its stderr
};

/// Runs it in the C locale, in a process group of its own, with an empty stdin. After a signal to this
/// program (stop_signals.h) it is ended, with all that it has started, and Interrupted is thrown; so it is
/// where `on_line` throws. Throws kUnsupported where there is no such program.
ChildResult run_child(const ChildOptions& options);

}  // namespace hopfeed
