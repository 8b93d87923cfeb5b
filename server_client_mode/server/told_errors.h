// Rewrites an error for those on the other side: they may read names and never places.
#pragma once
#include <span>
#include <string>

namespace hopfeed {

/// A NamedPlace is a folder by its whole path, without '/' at the end, and what others know it by.
struct NamedPlace {
  std::string folder, name;
};

/// Returns `text` with the names of those folders in their place.
std::string with_names(const std::string& text, std::span<const NamedPlace> named);
/// Returns `text` with the names of those folders in their place, and with the last part alone of any other
/// file that it names by its whole path.
std::string without_places(const std::string& text, std::span<const NamedPlace> named);

}  // namespace hopfeed
