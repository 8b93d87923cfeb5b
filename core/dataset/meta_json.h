// Checks the fields of meta.json one by one: every complaint names the file, the object and the field.
#pragma once
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

/// MetaFields is one object of meta.json. Whatever does not fit throws kCorrupt.
class MetaFields final : public CheckedJson {
 public:
  using json = nlohmann::json;

  MetaFields(const json& value, std::string path, std::string where)
      : CheckedJson(value), path_(std::move(path)), where_(std::move(where)) {
    require_object();
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kCorrupt, path_ + ": " + (where_.empty() ? "the document" : where_) + " " + what);
  }
  std::string name(const char* key) const {
    std::string value = text(key);
    try {
      check_name(value, key);
    } catch (const Error& error) {
      fail(error.message());
    }
    return value;
  }
  std::vector<std::string> names(const char* key, std::int64_t max_size) const {
    std::vector<std::string> names;
    for (const json& item : list(key, max_size)) {
      if (!item.is_string()) fail(fmt::format("has an item of '{}' that is no text", key));
      names.push_back(item.get<std::string>());
      try {
        check_name(names.back(), key);
      } catch (const Error& error) {
        fail(error.message());
      }
    }
    return names;
  }
  ElementType element(const char* key) const {
    try {
      return element_type_from(text(key));
    } catch (const Error& error) {
      fail(error.message());
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
  [[noreturn]] void complain(const JsonFault& fault) const override {
    if (fault.wanted == JsonWanted::kObject) fail("is no object");
    if (!fault.value) fail(fmt::format("lacks '{}'", fault.key));
    switch (fault.wanted) {
      case JsonWanted::kWholes:
        if (!fault.item) break;
        [[fallthrough]];
      case JsonWanted::kWhole:
        fail(fmt::format("has '{}' = {}, expected an integer from {} to {}", fault.key,
                         json_text(fault.item ? *fault.item : *fault.value).substr(0, 40), fault.least,
                         fault.most));
      case JsonWanted::kText:
        fail(fmt::format("has no text '{}'", fault.key));
      case JsonWanted::kFlag:
        fail(fmt::format("has no true or false '{}'", fault.key));
      default:
        break;
    }
    fail(fmt::format("has no list '{}' of at most {} items", fault.key, fault.most_items));
  }

  std::string path_, where_;
};

}  // namespace hopfeed
