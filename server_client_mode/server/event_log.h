// What happened, one line an event: "t=12.345 event=connected client=trainer-3 ...". Values are such that a
// line can be split at spaces; what came from a client is escaped, so that it can fake no line.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hopfeed {

/// "text" where it holds anything but letters, digits and ._:/@+-, with \x2A for what cannot be printed.
std::string log_value(std::string_view text);

class EventLog {
 public:
  using Values = std::vector<std::pair<std::string_view, std::string>>;
  explicit EventLog(std::function<void(const std::string& line)> write) : write_(std::move(write)) {}
  /// Names of events and keys are ours.
  void add(std::string_view event, const Values& values = {}) const;

 private:
  const std::function<void(const std::string& line)> write_;  // none: nobody reads it
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace hopfeed
