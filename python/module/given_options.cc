// See given_options.h.
#include "python/module/given_options.h"

#include <fmt/format.h>

#include <utility>

namespace nb = nanobind;

namespace hopfeed::python {

GivenOptions::GivenOptions(nb::dict given) : given_(std::move(given)) {}

bool GivenOptions::has(const char* name) const {
  return given_.contains(name) && !nb::object(given_[name]).is_none();
}

nb::object GivenOptions::taken(const char* name) {
  taken_.add(nb::str(name));
  return given_.contains(name) ? nb::object(given_[name]) : nb::none();
}

void GivenOptions::refuse(const char* name, nb::handle value, const char* what) const {
  std::string shown = nb::repr(value).c_str();
  constexpr std::size_t kShown = 80;
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} is {} ({}); give {}", name, shown, nb::type_name(value.type()).c_str(), what));
}

void GivenOptions::require_all_taken() const {
  for (const auto& [name, value] : given_)
    if (!taken_.contains(name))
      throw Error(ErrorCode::kInvalid, fmt::format("there is no option '{}'", nb::str(name).c_str()));
}

}  // namespace hopfeed::python
