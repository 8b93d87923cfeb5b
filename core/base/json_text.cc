// See json_text.h.
#include "core/base/json_text.h"

#include <set>
#include <vector>

namespace hopfeed {

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
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

}  // namespace hopfeed
