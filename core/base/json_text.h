// Turns JSON into text and back. The library's parser and writer are templates that each unit would compile
// again, longer than all it does itself; here they are compiled once.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace hopfeed {

/// Returns what `text` says; a discarded value, which is neither object nor list, where it is no JSON or
/// nests too deep.
nlohmann::json parse_json(std::string_view text);

/// Returns where and why parse_json() does not take `text`: "line 3, column 7: unexpected 'x'". "" where it
/// does.
std::string json_complaint(std::string_view text);

/// Returns how deep brackets and braces nest, outside of texts, those that are not closed included; writers
/// recurse.
std::size_t json_depth(std::string_view text);

/// Returns a key that an object within `text` has twice, of which parse_json() keeps the last; "" where there
/// is none.
std::string repeated_key(std::string_view text);

/// Returns one line, or one line per value with `indent` spaces. Bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);

/// Returns the value for a message: one line of JSON, cut short.
std::string json_shown(const nlohmann::json& value);

/// Reports and the configuration of workers are JSON, which carries text in UTF-8 alone. Throws kInvalid,
/// with `what` before the name, where a folder's name is none.
void require_utf8(const std::filesystem::path& name, const std::string& what);

}  // namespace hopfeed
