// See told_errors.h.
#include "server_client_mode/server/told_errors.h"

#include <algorithm>
#include <string_view>

namespace hopfeed {
namespace {

constexpr std::string_view kAround = " '\"()[],;:=\n";  // what stands before and behind a path in a message

bool is_around(char c) { return kAround.find(c) != std::string_view::npos; }

bool begins_with_path(std::string_view rest, std::string_view folder) {
  return !folder.empty() && rest.starts_with(folder) &&
         (rest.size() == folder.size() || rest[folder.size()] == '/' || is_around(rest[folder.size()]));
}

enum class Others { kStay, kLoseTheirFolders };

std::string told(const std::string& text, std::span<const NamedPlace> named, Others others) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const bool begins = rest.size() == text.size() || is_around(text[text.size() - rest.size() - 1]);
    const auto place = std::ranges::find_if(
        named, [&](const NamedPlace& one) { return begins && begins_with_path(rest, one.folder); });
    if (place != named.end()) {
      out += place->name;
      rest.remove_prefix(place->folder.size());
    } else if (begins && rest.front() == '/' && others == Others::kLoseTheirFolders) {
      const std::string_view path = rest.substr(0, rest.find_first_of(kAround));
      out += path.substr(path.substr(0, path.size() - 1).rfind('/') + 1);
      rest.remove_prefix(path.size());
    } else {
      out += rest.front();
      rest.remove_prefix(1);
    }
  }
  return out;
}

}  // namespace

std::string with_names(const std::string& text, std::span<const NamedPlace> named) {
  return told(text, named, Others::kStay);
}

std::string without_places(const std::string& text, std::span<const NamedPlace> named) {
  return told(text, named, Others::kLoseTheirFolders);
}

}  // namespace hopfeed
