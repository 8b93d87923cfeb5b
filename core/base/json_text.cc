// See json_text.h.
#include "core/base/json_text.h"

#include <cstdio>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::size_t kMaxComplaint = 200;  // a token that it quotes can be as long as the file

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_complaint(std::string_view text) {
  try {
    [[maybe_unused]] const auto whole = nlohmann::json::parse(text);
    return "";
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 3, column 7: syntax error while parsing ..."
    const std::string said = error.what();
    const std::size_t place = said.find("line "), number = said.find("] ");
    if (place != std::string::npos) return said.substr(place, kMaxComplaint);
    return said.substr(number == std::string::npos ? 0 : number + 2, kMaxComplaint);
  }
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
