// See event_log.h.
#include "server_client_mode/server/event_log.h"

#include <fmt/format.h>

#include <algorithm>

namespace hopfeed {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._:/@+-,").find(c) != std::string_view::npos;
}

/// Whether anybody who reaches the server can make such lines.
bool is_of_strangers(std::string_view event) { return event == "login_failed" || event == "turned_away"; }

}  // namespace

std::string log_value(std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      quoted += fmt::format("\\x{:02X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

EventLog::EventLog(const EventQueue::Write& write) {
  if (write) queue_.emplace(write);
}

EventLog::~EventLog() {
  const std::lock_guard lock(mutex_);
  if (queue_ && left_out_ > 0) queue_->push(line_of("left_out", {{"lines", std::to_string(left_out_)}}));
}

void EventLog::add(std::string_view event, const Values& values) const {
  if (!queue_) return;
  const std::lock_guard lock(mutex_);
  const auto since = std::chrono::steady_clock::now() - start_;
  if (const std::int64_t now = std::chrono::duration_cast<std::chrono::seconds>(since).count();
      now > second_) {
    second_ = now;
    told_ = 0;
  }
  const bool too_many = is_of_strangers(event) && ++told_ > kStrangersLines;
  if (too_many || !tell_left_out() || !queue_->try_push(line_of(event, values))) ++left_out_;
}

/// Whether what was left out is told by now.
bool EventLog::tell_left_out() const {
  if (left_out_ == 0) return true;
  if (!queue_->try_push(line_of("left_out", {{"lines", std::to_string(left_out_)}}))) return false;
  left_out_ = 0;
  return true;
}

std::string EventLog::line_of(std::string_view event, const Values& values) const {
  const auto since = std::chrono::steady_clock::now() - start_;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  std::string line = fmt::format("t={}.{:03} event={}", now / 1'000, now % 1'000, event);
  for (const auto& [key, value] : values)
    if (!value.empty()) line += fmt::format(" {}={}", key, log_value(value));
  return line;
}

}  // namespace hopfeed
