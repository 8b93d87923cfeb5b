// See json_text.h.
#include "core/base/json_text.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMaxShown = 80;  // bytes of a value in a message

/// The number that the parser could not hold, which its message quotes.
std::string too_large(const std::string& said) {
  const std::size_t first = said.find('\''), last = said.rfind('\'');
  if (first == last) return "it has a number that is too large";
  return "the number " + said.substr(first + 1, std::min(last - first - 1, kMaxShown)) + " is too large";
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  if (json_depth(text) > kMaxJsonDepth) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_complaint(std::string_view text) {
  if (json_depth(text) > kMaxJsonDepth)
    return "its brackets nest deeper than " + std::to_string(kMaxJsonDepth);
  try {
    [[maybe_unused]] const auto whole = nlohmann::json::parse(text);
    return "";
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = std::max<std::size_t>(error.byte, 1) - 1;  // of the byte that it did not expect
    const std::string_view before = text.substr(0, at);
    const std::size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none
    const std::string place = "line " + std::to_string(std::ranges::count(before, '\n') + 1) + ", column " +
                              std::to_string(at - line_begin + 1) + ": ";
    if (at >= text.size()) return place + "it ends in the middle";
    const bool shows = text[at] > ' ' && text[at] < 0x7F;
    return place + "unexpected " + (shows ? "'" + std::string(1, text[at]) + "'" : "character");
  } catch (const nlohmann::json::exception& error) {
    return too_large(error.what());
  }
}

std::size_t json_depth(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
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

std::string repeated_key(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> objects;  // the keys so far of those that are open
  std::string repeated;
  const auto note = [&](int, Event event, const nlohmann::json& value) {
    if (event == Event::object_start) objects.emplace_back();
    if (event == Event::object_end) objects.pop_back();
    if (event == Event::key && !objects.back().insert(value.get<std::string>()).second && repeated.empty())
      repeated = value.get<std::string>();
    return true;
  };
  [[maybe_unused]] const auto whole = nlohmann::json::parse(text, note, /*allow_exceptions=*/false);
  return repeated;
}

std::string json_text(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

void require_utf8(const std::filesystem::path& name, const std::string& what) {
  try {
    [[maybe_unused]] const std::string carried = nlohmann::json(name.string()).dump();
  } catch (const nlohmann::json::exception&) {
    std::string shown;
    for (const char c : name.string()) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(c));
      shown += static_cast<unsigned char>(c) < 0x80 ? std::string(1, c) : std::string(escaped);
    }
    throw Error(ErrorCode::kInvalid, what + " '" + shown +
                                         "' has a name that is not UTF-8, which reports and workers cannot "
                                         "carry; give the folder another name");
  }
}

}  // namespace hopfeed
