// JSON <-> text. The library's parser and writer are templates that each unit would compile again, longer
// than all it does itself; here they are compiled once.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hopfeed {

/// What `text` says; a discarded value, of which any use throws nlohmann::json::exception, where it is no
/// JSON.
nlohmann::json parse_json(std::string_view text);

/// A key that an object within `text` has twice, of which parse_json() keeps the last; "" where there is
/// none.
std::string repeated_key(std::string_view text);

/// One line, or one line per value with `indent` spaces. Bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace hopfeed
