// See given_options.h.
#include "python/module/given_options.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "core/base/cache_size.h"
#include "core/base/error.h"
#include "core/program/parse_option.h"

namespace nb = nanobind;

namespace hopfeed::python {
namespace {

constexpr const char *kText = "a string", *kWhole = "a whole number below 2^63",
                     *kTexts = "a list of strings", *kWholes = "a list of whole numbers below 2^63",
                     *kCacheSize = "a share (\"0.2\"), a size (\"4G\") or \"auto\"";

}  // namespace

GivenOptions::GivenOptions(nb::dict given) : given_(std::move(given)) {}

void GivenOptions::flag(const Field& field, bool& value) {
  take(field.keyword_name(), value, "True or False");
}
void GivenOptions::whole(const Field& field, int& value, WholeRange) {
  take(field.keyword_name(), value, kWhole);
}
void GivenOptions::whole(const Field& field, std::int64_t& value, WholeRange) {
  take(field.keyword_name(), value, kWhole);
}
void GivenOptions::optional_whole(const Field& field, std::optional<std::int64_t>& value) {
  take(field.keyword_name(), value, kWhole);
}
void GivenOptions::unsigned_whole(const Field& field, std::uint64_t& value) {
  take(field.keyword_name(), value, "a whole number from 0 to 2^64 - 1");
}
void GivenOptions::real(const Field& field, double& value) { take(field.keyword_name(), value, "a number"); }
void GivenOptions::text(const Field& field, std::string& value) { take(field.keyword_name(), value, kText); }
void GivenOptions::choice(const Field& field, const Choice& choice) {
  std::string name;
  take(field.keyword_name(), name, kText);
  if (has(field.keyword_name())) choice.set(name);
}
void GivenOptions::texts(const Field& field, std::vector<std::string>& value) {
  take(field.keyword_name(), value, kTexts);
}
void GivenOptions::all_or_texts(const Field& field, std::optional<std::vector<std::string>>& value) {
  take(field.keyword_name(), value, kTexts);
}
void GivenOptions::numbers(const Field& field, std::vector<int>& value) {
  take(field.keyword_name(), value, kWholes);
}
void GivenOptions::fanouts(const Field& field, std::vector<std::int64_t>& value) {
  take(field.keyword_name(), value, kWholes);
}
void GivenOptions::typed_fanouts(const Field& field,
                                 std::map<std::string, std::vector<std::int64_t>>& value) {
  take(field.keyword_name(), value, "a dict from edge types to lists of whole numbers below 2^63");
}
void GivenOptions::bytes(const Field& field, std::size_t& value) {
  take(field.keyword_name(), value, "a number of bytes");
}

void GivenOptions::seconds(const Field& field, std::chrono::milliseconds& value) {
  constexpr double kMost = 1e9;  // what fits into milliseconds; the options' own limits are lower
  const std::string name = field.keyword_name();
  double seconds = 0;
  take(name, seconds, "a number of seconds");
  if (!has(name)) return;
  require_valid(seconds >= 0 && seconds < kMost, name + " is out of range; give seconds");
  value = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void GivenOptions::cache_size(const Field& field, CacheSize& value) {
  std::optional<CacheSize> size;
  optional_cache_size(field, size);
  if (size) value = *size;
}

void GivenOptions::optional_cache_size(const Field& field, std::optional<CacheSize>& value) {
  std::string text;
  take(field.keyword_name(), text, kCacheSize);
  if (!text.empty()) value = parse_cache_size(text, field.keyword_name());
}

bool GivenOptions::has(const std::string& name) const {
  return given_.contains(name.c_str()) && !nb::object(given_[name.c_str()]).is_none();
}

std::string GivenOptions::path(const std::string& name) {
  const nb::object value = taken(name);
  if (value.is_none()) return {};
  const nb::object text = nb::steal(PyOS_FSPath(value.ptr()));
  if (!text.is_valid()) PyErr_Clear();
  std::string path;
  if (!text.is_valid() || !nb::try_cast<std::string>(text, path)) refuse(name, value, "a path");
  return path;
}

nb::object GivenOptions::taken(const std::string& name) {
  taken_.add(nb::str(name.c_str()));
  return given_.contains(name.c_str()) ? nb::object(given_[name.c_str()]) : nb::none();
}

void GivenOptions::refuse(const std::string& name, nb::handle value, const char* what) const {
  std::string shown = nb::repr(value).c_str();
  constexpr std::size_t kShown = 80;
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  throw Error(ErrorCode::kInvalid,
              fmt::format("{} is {} ({}); give {}", name, shown, nb::type_name(value.type()).c_str(), what));
}

void GivenOptions::refuse_those_of(const GivenOptions& others, const char* why) {
  for (const auto& [name, value] : given_) {
    if (taken_.contains(name) || !others.taken_.contains(name)) continue;
    require_valid(value.is_none(), fmt::format("{} {}", nb::str(name).c_str(), why));
    taken_.add(name);
  }
}

void GivenOptions::require_all_taken() const {
  for (const auto& [name, value] : given_)
    if (!taken_.contains(name))
      throw Error(ErrorCode::kInvalid, fmt::format("there is no option '{}'", nb::str(name).c_str()));
}

}  // namespace hopfeed::python
