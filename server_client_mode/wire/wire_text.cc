// See wire_text.h.
#include "server_client_mode/wire/wire_text.h"

#include <algorithm>

namespace hopfeed::wire {
namespace {

/// Bytes of the character that `bytes` begins with; 0 where it is no UTF-8.
std::size_t utf8_length(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  const std::size_t length = first < 0x80                     ? 1
                             : first >= 0xC2 && first <= 0xDF ? 2
                             : (first & 0xF0) == 0xE0         ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length == 0 || length > bytes.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xC0) != 0x80) return 0;
  // Longer than needed, half of a pair of UTF-16, or beyond the last character.
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) >= 0xA0) ||
      (first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) >= 0x90))
    return 0;
  return length;
}

/// C0, DEL and C1, which terminals obey.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  return first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0);
}

bool breaks_line(char c) { return c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

bool is_text(std::string_view bytes, Lines lines) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    if (is_control(bytes.substr(0, length)) && !(lines == Lines::kMany && breaks_line(bytes[0])))
      return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string as_line(std::string_view bytes, std::size_t max_bytes) {
  std::string line;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    const std::string_view character = bytes.substr(0, std::max<std::size_t>(length, 1));
    const bool shown = length > 0 && !is_control(character);
    const std::string_view put = shown ? character : breaks_line(character[0]) ? " " : "?";
    if (line.size() + put.size() > max_bytes) break;
    line += put;
    bytes.remove_prefix(character.size());
  }
  return line;
}

std::size_t json_depth(std::string_view json) {
  std::size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace hopfeed::wire
