// See field_visitor.h.
#include "core/base/field_visitor.h"

#include <algorithm>

namespace hopfeed {

namespace {

std::string last_part(std::string_view name) { return std::string(name.substr(name.rfind('.') + 1)); }

}  // namespace

std::string Field::key_name() const { return key != nullptr ? key : last_part(name); }

std::string Field::option_name() const {
  if (option != nullptr) return option;
  std::string dashed = last_part(name);
  std::ranges::replace(dashed, '_', '-');
  return "--" + dashed;
}

std::string respelled(std::string_view help,
                      const std::function<std::string(const std::string& field)>& spelling) {
  std::string text;
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t begin = help.find('`', at), end = help.find('`', begin + 1);
    text += help.substr(at, begin - at);
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    const std::string name(help.substr(begin + 1, end - begin - 1)), other = spelling(name);
    text += other.empty() ? name : other;
    at = end + 1;
  }
  return text;
}

std::string Field::keyword_name() const { return keyword != nullptr ? keyword : last_part(name); }

}  // namespace hopfeed
