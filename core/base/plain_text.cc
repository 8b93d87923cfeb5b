// See plain_text.h.
#include "core/base/plain_text.h"

#include <algorithm>

namespace hopfeed {
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

/// Marks that turn the direction of what follows, which make a name look like another one, and line ends that
/// are no control characters: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool is_mark(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.starts_with("\xD8")) return character.size() == 2 && last == 0x9C;
  if (character.size() != 3) return false;
  if (character.starts_with("\xE2\x80"))
    return last == 0x8E || last == 0x8F || (last >= 0xA8 && last <= 0xAE);
  return character.starts_with("\xE2\x81") && last >= 0xA6 && last <= 0xA9;
}

bool is_shown(std::string_view character) { return !is_control(character) && !is_mark(character); }

bool breaks_line(char c) { return c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

bool is_text(std::string_view bytes, Lines lines) {
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    if (length == 0) return false;
    if (!is_shown(bytes.substr(0, length)) && !(lines == Lines::kMany && breaks_line(bytes[0]))) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string as_line(std::string_view bytes, std::size_t max_bytes) {
  std::string line;
  while (!bytes.empty()) {
    const std::size_t length = utf8_length(bytes);
    const std::string_view character = bytes.substr(0, std::max<std::size_t>(length, 1));
    const bool shown = length > 0 && is_shown(character);
    const std::string_view put = shown ? character : breaks_line(character[0]) ? " " : "?";
    if (line.size() + put.size() > max_bytes) break;
    line += put;
    bytes.remove_prefix(character.size());
  }
  return line;
}

}  // namespace hopfeed
