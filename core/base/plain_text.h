// Checks texts that come from elsewhere, or go there: they are UTF-8 without control characters and without
// marks that turn the direction of a line, so that nobody writes what they like into a terminal, forges a
// line of a log, or gives one name the look of another.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace hopfeed {

enum class Lines { kOne, kMany };  // kMany: line ends and tabs too

/// Returns whether `bytes` are valid UTF-8 (no surrogates, nothing longer than needed) without control
/// characters and direction marks.
bool is_text(std::string_view bytes, Lines lines);
/// Returns `bytes` as one line of text, of at most `max_bytes`: what is no text becomes '?', line ends and
/// tabs become spaces.
std::string as_line(std::string_view bytes, std::size_t max_bytes);

}  // namespace hopfeed
