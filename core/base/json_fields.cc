// See json_fields.h.
#include "core/base/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/json_text.h"

namespace hopfeed {
namespace {

constexpr std::size_t kShownKey = 64;  // bytes of one that is not known

/// What may be given in the place of what does not fit.
std::string fitting(const JsonFault& fault) {
  switch (fault.wanted) {
    case JsonWanted::kWhole:
      return fmt::format("a whole number from {} to {}", fault.least, fault.most);
    case JsonWanted::kUnsigned:
      return fmt::format("a whole number from 0 to {}", UINT64_MAX);
    case JsonWanted::kReal:
      return "a number";
    case JsonWanted::kFlag:
      return "true or false";
    case JsonWanted::kText:
      return "a text";
    case JsonWanted::kWholes:
      return fmt::format("a list of whole numbers from {} to {}", fault.least, fault.most);
    case JsonWanted::kTexts:
      return "a list of texts";
    default:
      return "a list";
  }
}

}  // namespace

bool is_whole(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  if (value.is_number_unsigned())
    return std::cmp_less_equal(value.get<std::uint64_t>(), most) &&
           std::cmp_greater_equal(value.get<std::uint64_t>(), least);
  return value.is_number_integer() && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most;
}

void CheckedJson::require_object() const {
  if (!object_.is_object()) complain({.wanted = JsonWanted::kObject});
}

void CheckedJson::only(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : object_.items())
    if (std::ranges::find(keys, key) == keys.end())
      complain({.wanted = JsonWanted::kKnownKey, .key = key, .value = &value, .known = keys});
}

const nlohmann::json* CheckedJson::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

const nlohmann::json& CheckedJson::at(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (!value) complain({.wanted = JsonWanted::kAnything, .key = key});
  return *value;
}

std::int64_t CheckedJson::whole(const char* key, std::int64_t least, std::int64_t most) const {
  const nlohmann::json* const value = find(key);
  if (!value || !is_whole(*value, least, most))
    complain({.wanted = JsonWanted::kWhole, .key = key, .value = value, .least = least, .most = most});
  return value->get<std::int64_t>();
}

std::uint64_t CheckedJson::unsigned_whole(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (!value || !value->is_number_unsigned())
    complain({.wanted = JsonWanted::kUnsigned, .key = key, .value = value});
  return value->get<std::uint64_t>();
}

double CheckedJson::real(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (!value || !value->is_number()) complain({.wanted = JsonWanted::kReal, .key = key, .value = value});
  return value->get<double>();
}

bool CheckedJson::flag(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (!value || !value->is_boolean()) complain({.wanted = JsonWanted::kFlag, .key = key, .value = value});
  return value->get<bool>();
}

std::string CheckedJson::text(const char* key) const {
  const nlohmann::json* const value = find(key);
  if (!value || !value->is_string()) complain({.wanted = JsonWanted::kText, .key = key, .value = value});
  return value->get<std::string>();
}

const nlohmann::json& CheckedJson::list(const char* key, std::int64_t most_items) const {
  return list_of(key, {.wanted = JsonWanted::kList, .key = key, .most_items = most_items});
}

const nlohmann::json& CheckedJson::list_of(const char* key, JsonFault fault) const {
  fault.value = find(key);
  if (!fault.value || !fault.value->is_array() || std::cmp_greater(fault.value->size(), fault.most_items))
    complain(fault);
  return *fault.value;
}

std::vector<std::int64_t> CheckedJson::wholes(const char* key, std::int64_t least, std::int64_t most,
                                              std::int64_t most_items) const {
  JsonFault fault{
      .wanted = JsonWanted::kWholes, .key = key, .least = least, .most = most, .most_items = most_items};
  const nlohmann::json& items = *(fault.value = &list_of(key, fault));
  for (const nlohmann::json& item : items) {
    fault.item = &item;
    if (!is_whole(item, least, most)) complain(fault);
  }
  return items.get<std::vector<std::int64_t>>();
}

std::vector<std::string> CheckedJson::texts(const char* key, std::int64_t most_items) const {
  JsonFault fault{.wanted = JsonWanted::kTexts, .key = key, .most_items = most_items};
  const nlohmann::json& items = *(fault.value = &list_of(key, fault));
  for (const nlohmann::json& item : items) {
    fault.item = &item;
    if (!item.is_string()) complain(fault);
  }
  return items.get<std::vector<std::string>>();
}

JsonFields::JsonFields(const nlohmann::json& object, std::string what, ErrorCode code)
    : CheckedJson(object), what_(std::move(what)), code_(code) {
  require_object();
}

void JsonFields::complain(const JsonFault& fault) const {
  if (fault.wanted == JsonWanted::kObject) throw Error(code_, what_ + " is no JSON object");
  if (fault.wanted == JsonWanted::kKnownKey)
    throw Error(code_, fmt::format("{} has the unknown key '{}'", what_, fault.key.substr(0, kShownKey)));
  if (!fault.value) throw Error(code_, fmt::format("{} lacks the key '{}'", what_, fault.key));
  throw Error(code_, fmt::format("'{}' of {} is {}; give {}", fault.key, what_, json_shown(*fault.value),
                                 fitting(fault)));
}

}  // namespace hopfeed
