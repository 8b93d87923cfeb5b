// Texts that come from the other side, or go there: UTF-8 without control characters, so that no peer writes
// what it likes into a terminal or forges a line of a log.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hopfeed::wire {

enum class Lines { kOne, kMany };  // kMany: line ends and tabs too

/// Valid UTF-8 (no surrogates, nothing longer than needed) without control characters.
bool is_text(std::string_view bytes, Lines lines);
/// The same as one line of at most `max_bytes`: what is no text becomes '?', line ends and tabs become
/// spaces.
std::string as_line(std::string_view bytes, std::size_t max_bytes);
/// How deep brackets and braces nest in JSON, outside of its strings; parsers and writers may recurse.
std::size_t json_depth(std::string_view json);

}  // namespace hopfeed::wire
