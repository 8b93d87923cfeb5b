// What happened, one line an event: "t=12.345 event=connected client=trainer-3 ...". Values are such that a
// line can be split at spaces; what came from a client is escaped, so that it can fake no line. What is empty
// is left out. Strangers, who may come in any number, are told in kStrangersLines lines a second at most:
// "event=left_out lines=123" counts the others, before the next line of a later second.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hopfeed {

/// "text" where it holds anything but letters, digits and ._:/@+-, with \x2A for what cannot be printed.
std::string log_value(std::string_view text);

class EventLog {
 public:
  static constexpr int kStrangersLines = 10;
  using Values = std::vector<std::pair<std::string_view, std::string>>;
  explicit EventLog(std::function<void(const std::string& line)> write) : write_(std::move(write)) {}
  /// Any thread. Names of events and keys are ours.
  void add(std::string_view event, const Values& values = {}) const;

 private:
  void write(std::int64_t milliseconds, std::string_view event, const Values& values) const;

  const std::function<void(const std::string& line)> write_;  // none: nobody reads it
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;                                   // of what follows
  mutable std::int64_t second_ = 0, told_ = 0, left_out_ = 0;  // lines about strangers, in that second
};

}  // namespace hopfeed
