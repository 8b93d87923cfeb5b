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

std::string Field::keyword_name() const { return keyword != nullptr ? keyword : last_part(name); }

}  // namespace hopfeed
