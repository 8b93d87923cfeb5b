// See json_fields.h.
#include "core/base/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/json_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kShownKey = 64;  // bytes of one that is not known

}  // namespace

bool is_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  if (value.is_number_unsigned())
    return std::cmp_less_equal(value.get<std::uint64_t>(), most) &&
           std::cmp_greater_equal(value.get<std::uint64_t>(), least);
  return value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
}

JsonFields::JsonFields(const nlohmann::json& object, std::string what, ErrorCode code)
    : object_(object), what_(std::move(what)), code_(code) {
  if (!object_.is_object()) fail(what_ + " is no JSON object");
}

void JsonFields::fail(const std::string& message) const { throw Error(code_, message); }

void JsonFields::refuse(const char* key, const nlohmann::json& value, const std::string& give) const {
  fail(fmt::format("'{}' of {} is {}; give {}", key, what_, json_shown(value), give));
}

void JsonFields::only(const std::set<std::string>& keys) const {
  for (const auto& [key, value] : object_.items())
    if (!keys.contains(key))
      fail(fmt::format("{} has the unknown key '{}'", what_, key.substr(0, kShownKey)));
}

const nlohmann::json& JsonFields::at(const char* key) const {
  const auto found = object_.find(key);
  if (found == object_.end()) fail(fmt::format("{} lacks the key '{}'", what_, key));
  return *found;
}

std::int64_t JsonFields::whole(const char* key, std::int64_t least, std::int64_t most) const {
  const nlohmann::json& value = at(key);
  if (!is_whole(value, least, most))
    refuse(key, value, fmt::format("a whole number from {} to {}", least, most));
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> JsonFields::wholes(const char* key, std::int64_t least, std::int64_t most) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array() ||
      !std::ranges::all_of(value, [&](const nlohmann::json& item) { return is_whole(item, least, most); }))
    refuse(key, value, fmt::format("a list of whole numbers from {} to {}", least, most));
  return value.get<std::vector<std::int64_t>>();
}

std::uint64_t JsonFields::unsigned_whole(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number_unsigned()) refuse(key, value, fmt::format("a whole number from 0 to {}", UINT64_MAX));
  return value.get<std::uint64_t>();
}

double JsonFields::real(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number()) refuse(key, value, "a number");
  return value.get<double>();
}

bool JsonFields::flag(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) refuse(key, value, "true or false");
  return value.get<bool>();
}

std::string JsonFields::text(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) refuse(key, value, "a text");
  return value.get<std::string>();
}

std::vector<std::string> JsonFields::texts(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_array() ||
      !std::ranges::all_of(value, [](const nlohmann::json& item) { return item.is_string(); }))
    refuse(key, value, "a list of texts");
  return value.get<std::vector<std::string>>();
}

}  // namespace hopfeed
