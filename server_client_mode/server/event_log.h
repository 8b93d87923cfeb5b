// EventLog tells what happened, a line an event: "t=12.345 event=connected client=trainer-3 ...". Values are
// such that a line can be split at spaces; what came from a client is escaped, so that it can fake no line.
// What is empty is left out.
//
// "event=left_out lines=123" counts lines that were not written: strangers, who may come in any number, are
// told in kStrangersLines lines a second at most, and nobody waits for a reader who has stopped. It comes
// before the next line that is, and at the end.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server_client_mode/server/event_queue.h"

namespace hopfeed {

/// Returns the value, as "text" where it holds anything but letters, digits and ._:/@+-, with \x2A for what
/// cannot be printed.
std::string log_value(std::string_view text);

class EventLog {
 public:
  static constexpr int kStrangersLines = 10;
  using Values = std::vector<std::pair<std::string_view, std::string>>;
  /// `write` is called by a thread of the log's own, and may wait (EventQueue); null: nobody reads.
  explicit EventLog(const EventQueue::Write& write);
  ~EventLog();
  /// Adds an event. Any thread; never waits. Names of events and keys are ours.
  void add(std::string_view event, const Values& values = {}) const;

 private:
  std::string line_of(std::string_view event, const Values& values) const;
  bool tell_left_out() const;

  mutable std::optional<EventQueue> queue_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  mutable std::mutex mutex_;                                   // of what follows
  mutable std::int64_t second_ = 0, told_ = 0, left_out_ = 0;  // told: lines about strangers, in that second
};

}  // namespace hopfeed
