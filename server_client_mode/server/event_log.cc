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
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  std::string line = fmt::format("t={:.3f} event={}", since.count(), event);
  for (const auto& [key, value] : values) line += fmt::format(" {}={}", key, log_value(value));
  write_(line);
}

}  // namespace hopfeed
