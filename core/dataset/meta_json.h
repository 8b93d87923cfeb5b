// Fields of a JSON document, checked one by one: every complaint names the file, the object and the field.
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// One object of meta.json. Whatever does not fit throws kCorrupt.
class MetaFields {
 public:
  using json = nlohmann::json;

  MetaFields(const json& value, std::string path, std::string where)
      : value_(value), path_(std::move(path)), where_(std::move(where)) {
    if (!value.is_object()) fail("is no object");
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kCorrupt, path_ + ": " + (where_.empty() ? "the document" : where_) + " " + what);
  }
  bool has(const char* key) const { return value_.contains(key); }
  const json& at(const char* key) const {
    const auto it = value_.find(key);
    if (it == value_.end()) fail(fmt::format("lacks '{}'", key));
    return *it;
  }
  std::int64_t integer(const char* key, std::int64_t lo, std::int64_t hi) const {
    return integer(at(key), key, lo, hi);
  }
  std::int64_t integer(const json& value, const char* key, std::int64_t lo, std::int64_t hi) const {
    const bool fits = value.is_number_unsigned()
                          ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX)
                          : value.is_number_integer();
    if (!fits || value.get<std::int64_t>() < lo || value.get<std::int64_t>() > hi) {
      fail(fmt::format("has '{}' = {}, expected an integer from {} to {}", key,
                       json_text(value).substr(0, 40), lo, hi));
    }
    return value.get<std::int64_t>();
  }
  std::vector<std::int64_t> integers(const char* key, std::int64_t lo, std::int64_t hi,
                                     std::int64_t max_size) const {
    const json& list = array(key, max_size);
    std::vector<std::int64_t> values;
    for (const json& item : list) values.push_back(integer(item, key, lo, hi));
    return values;
  }
  const json& array(const char* key, std::int64_t max_size) const {
    const json& list = at(key);
    if (!list.is_array() || static_cast<std::int64_t>(list.size()) > max_size)
      fail(fmt::format("has no list '{}' of at most {} items", key, max_size));
    return list;
  }
  std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(fmt::format("has no text '{}'", key));
    return value.get<std::string>();
  }
  std::string name(const char* key) const {
    std::string value = text(key);
    try {
      check_name(value, key);
    } catch (const Error& error) {
      fail(error.what());
    }
    return value;
  }
  std::vector<std::string> names(const char* key, std::int64_t max_size) const {
    std::vector<std::string> names;
    for (const json& item : array(key, max_size)) {
      if (!item.is_string()) fail(fmt::format("has an item of '{}' that is no text", key));
      names.push_back(item.get<std::string>());
      try {
        check_name(names.back(), key);
      } catch (const Error& error) {
        fail(error.what());
      }
    }
    return names;
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean()) fail(fmt::format("has no true or false '{}'", key));
    return at(key).get<bool>();
  }
  ElementType element(const char* key) const {
    try {
      return element_type_from(text(key));
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  ElementType index(const char* key) const {
    const ElementType type = element(key);
    if (type != ElementType::kInt32 && type != ElementType::kInt64)
      fail(fmt::format("has '{}' that is neither int32 nor int64", key));
    return type;
  }
  std::uint64_t hex(const char* key) const {
    const std::string value = text(key);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number, 16);
    if (value.size() != 16 || error != std::errc{} || end != value.data() + 16)
      fail(fmt::format("has '{}' that is no 16-digit hex number", key));
    return number;
  }
  MetaFields child(const json& value, std::string where) const {
    return MetaFields(value, path_, std::move(where));
  }

 private:
  const json& value_;
  std::string path_, where_;
};

}  // namespace hopfeed
