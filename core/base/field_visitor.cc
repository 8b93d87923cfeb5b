// See field_visitor.h.
#include "core/base/field_visitor.h"

#include <algorithm>

namespace hopfeed {

std::string Field::key_name() const {
  const std::string_view whole = name;
  return key != nullptr ? key : std::string(whole.substr(whole.rfind('.') + 1));
}

std::string Field::option_name() const {
  if (option != nullptr) return option;
  std::string dashed = key_name();
  std::ranges::replace(dashed, '_', '-');
  return "--" + dashed;
}

std::string Field::keyword_name() const { return keyword != nullptr ? keyword : key_name(); }

}  // namespace hopfeed
