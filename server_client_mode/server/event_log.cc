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

void EventLog::add(std::string_view event, const Values& values) const {
  if (!write_) return;
  const auto since = std::chrono::steady_clock::now() - start_;
  const std::int64_t now = std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
  const std::lock_guard lock(mutex_);
  if (now / 1'000 > second_) {
    second_ = now / 1'000;
    if (left_out_ > 0) write(now, "left_out", {{"lines", std::to_string(left_out_)}});
    told_ = left_out_ = 0;
  }
  if (is_of_strangers(event) && ++told_ > kStrangersLines)
    ++left_out_;
  else
    write(now, event, values);
}

void EventLog::write(std::int64_t milliseconds, std::string_view event, const Values& values) const {
  std::string line = fmt::format("t={}.{:03} event={}", milliseconds / 1'000, milliseconds % 1'000, event);
  for (const auto& [key, value] : values)
    if (!value.empty()) line += fmt::format(" {}={}", key, log_value(value));
  write_(line);
}

}  // namespace hopfeed
