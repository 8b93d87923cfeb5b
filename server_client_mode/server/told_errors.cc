// See told_errors.h.
#include "server_client_mode/server/told_errors.h"

#include <algorithm>
#include <string_view>

namespace hopfeed {
namespace {

constexpr std::string_view kAround = " '\"()[],;:=\n";  // what stands before and behind a path in a message

bool is_around(char c) { return kAround.find(c) != std::string_view::npos; }

/// Bytes of `folder` that `rest` begins with; 0 where it begins with another word. A relative one, "data",
/// may be a word like any other, so something in it has to be named.
std::size_t length_of(std::string_view folder, std::string_view rest) {
  if (folder.empty() || !rest.starts_with(folder)) return 0;
  const char next = rest.size() == folder.size() ? ' ' : rest[folder.size()];
  return next == '/' || (folder.front() == '/' && is_around(next)) ? folder.size() : 0;
}

}  // namespace

std::string without_places(const std::string& text, std::span<const NamedPlace> named) {
  std::string told;
  for (std::string_view rest = text; !rest.empty();) {
    const bool begins = told.empty() || is_around(text[text.size() - rest.size() - 1]);
    const auto place = std::ranges::find_if(
        named, [&](const NamedPlace& one) { return begins && length_of(one.folder, rest) > 0; });
    if (place != named.end()) {
      told += place->name;
      rest.remove_prefix(place->folder.size());
    } else if (begins && rest.front() == '/') {
      const std::string_view path = rest.substr(0, rest.find_first_of(kAround));
      told += path.substr(path.substr(0, path.size() - 1).rfind('/') + 1);
      rest.remove_prefix(path.size());
    } else {
      told += rest.front();
      rest.remove_prefix(1);
    }
  }
  return told;
}

}  // namespace hopfeed
