// See field_json.h.
#include "core/base/field_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/cache_size.h"
#include "core/base/json_fields.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

using nlohmann::json;

json of_cache_size(const CacheSize& size) {
  return {{"auto", size.automatic}, {"ratio", size.ratio}, {"bytes", size.bytes}};
}

/// What each field holds, and when it is told.
class Writer final : public FieldVisitor {
 public:
  void flag(const Field& field, bool& value) override { add(field, value); }
  void whole(const Field& field, int& value, WholeRange) override { add(field, value); }
  void whole(const Field& field, std::int64_t& value, WholeRange) override { add(field, value); }
  void optional_whole(const Field& field, std::optional<std::int64_t>& value) override {
    add(field, value ? json(*value) : json(nullptr));
  }
  void unsigned_whole(const Field& field, std::uint64_t& value) override { add(field, value); }
  void real(const Field& field, double& value) override { add(field, value); }
  void text(const Field& field, std::string& value) override { add(field, value); }
  void choice(const Field& field, const Choice& choice) override { add(field, choice.get()); }
  void texts(const Field& field, std::vector<std::string>& value) override { add(field, value); }
  void all_or_texts(const Field& field, std::optional<std::vector<std::string>>& value) override {
    add(field, value ? json(*value) : json(nullptr));
  }
  void numbers(const Field& field, std::vector<int>& value) override { add(field, value); }
  void fanouts(const Field& field, std::vector<std::int64_t>& value) override { add(field, value); }
  void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>& value) override {
    json types = json::object();
    for (const auto& [type, hops] : value) types[type] = hops;
    add(field, std::move(types));
  }
  void bytes(const Field& field, std::size_t& value) override { add(field, value); }
  void seconds(const Field& field, std::chrono::milliseconds& value) override { add(field, value.count()); }
  void cache_size(const Field& field, CacheSize& value) override { add(field, of_cache_size(value)); }
  void optional_cache_size(const Field& field, std::optional<CacheSize>& value) override {
    add(field, value ? of_cache_size(*value) : json(nullptr));
  }
  void secret(const Field& field, std::string& value) override { add(field, value); }
  void object(const Field& field, const VisitFields& visit) override {
    Writer inner;
    visit(inner);
    inner_[field.key_name()] = std::move(inner.values_);
    values_[field.key_name()] = {field.in_json, nullptr};
  }

  /// With `unset`, of the same struct.
  json told(const Writer& unset) const { return told(*this, unset); }

 private:
  using Values = std::map<std::string, std::pair<InJson, json>>;

  void add(const Field& field, json value) { values_[field.key_name()] = {field.in_json, std::move(value)}; }

  static json of_values(const Values& values, const Values& unset) {
    json object = json::object();
    for (const auto& [key, value] : values)
      if (value.first == InJson::kAlways || value.second != unset.at(key).second) object[key] = value.second;
    return object;
  }
  static json told(const Writer& set, const Writer& unset) {
    json object = of_values(set.values_, unset.values_);
    for (const auto& [key, values] : set.inner_) {
      const Values& defaults = unset.inner_.at(key);
      const bool all_default = std::ranges::all_of(
          values, [&](const auto& one) { return one.second.second == defaults.at(one.first).second; });
      if (set.values_.at(key).first == InJson::kAlways || !all_default)
        object[key] = of_values(values, defaults);
    }
    return object;
  }

  Values values_;
  std::map<std::string, Values> inner_;  // of objects within
};

class Keys final : public FieldVisitor {
 public:
  explicit Keys(std::vector<std::pair<std::string, InJson>>& keys) : keys_(keys) {}
  void any(const Field& field) override { keys_.emplace_back(field.key_name(), field.in_json); }
  void special(const Field&, const char*) override {}  // JSON has none
  void object(const Field& field, const VisitFields&) override { any(field); }

 private:
  std::vector<std::pair<std::string, InJson>>& keys_;
};

std::vector<std::pair<std::string, InJson>> keys_of(const VisitFields& visit) {
  std::vector<std::pair<std::string, InJson>> keys;
  Keys names(keys);
  visit(names);
  return keys;
}

class Reader final : public FieldVisitor {
 public:
  Reader(const JsonFields& in, std::string what, ErrorCode code)
      : in_(in), what_(std::move(what)), code_(code) {}

  void flag(const Field& field, bool& value) override {
    if (has(field)) value = in_.flag(key_.c_str());
  }
  void whole(const Field& field, int& value, WholeRange range) override {
    if (has(field))
      value = static_cast<int>(in_.whole(key_.c_str(), std::max<std::int64_t>(range.least, INT32_MIN),
                                         std::min<std::int64_t>(range.most, INT32_MAX)));
  }
  void whole(const Field& field, std::int64_t& value, WholeRange range) override {
    if (has(field)) value = in_.whole(key_.c_str(), range.least, range.most);
  }
  void optional_whole(const Field& field, std::optional<std::int64_t>& value) override {
    if (has(field) && !in_.at(key_.c_str()).is_null()) value = in_.whole(key_.c_str(), INT64_MIN, INT64_MAX);
  }
  void unsigned_whole(const Field& field, std::uint64_t& value) override {
    if (has(field)) value = in_.unsigned_whole(key_.c_str());
  }
  void real(const Field& field, double& value) override {
    if (has(field)) value = in_.real(key_.c_str());
  }
  void text(const Field& field, std::string& value) override {
    if (has(field)) value = in_.text(key_.c_str());
  }
  void choice(const Field& field, const Choice& choice) override {
    if (has(field)) choice.set(in_.text(key_.c_str()));
  }
  void texts(const Field& field, std::vector<std::string>& value) override {
    if (has(field)) value = in_.texts(key_.c_str());
  }
  void all_or_texts(const Field& field, std::optional<std::vector<std::string>>& value) override {
    if (has(field) && !in_.at(key_.c_str()).is_null()) value = in_.texts(key_.c_str());
  }
  void numbers(const Field& field, std::vector<int>& value) override {
    if (!has(field)) return;
    const std::vector<std::int64_t> wide = in_.wholes(key_.c_str(), 0, INT32_MAX);
    value.assign(wide.begin(), wide.end());
  }
  void fanouts(const Field& field, std::vector<std::int64_t>& value) override {
    if (has(field)) value = in_.wholes(key_.c_str(), -1, kMaxFanout);
  }
  void typed_fanouts(const Field& field, std::map<std::string, std::vector<std::int64_t>>& value) override {
    if (!has(field)) return;
    const json& types = in_.at(key_.c_str());
    const JsonFields of_types(types, within(), code_);
    for (const auto& [type, hops] : types.items())
      value[type] = of_types.wholes(type.c_str(), -1, kMaxFanout);
  }
  void bytes(const Field& field, std::size_t& value) override {
    if (has(field)) value = in_.unsigned_whole(key_.c_str());
  }
  void seconds(const Field& field, std::chrono::milliseconds& value) override {
    if (has(field)) value = std::chrono::milliseconds(in_.whole(key_.c_str(), 0, kMaxDeadlineMs));
  }
  void cache_size(const Field& field, CacheSize& value) override {
    if (has(field)) value = cache_size_at();
  }
  void optional_cache_size(const Field& field, std::optional<CacheSize>& value) override {
    if (has(field) && !in_.at(key_.c_str()).is_null()) value = cache_size_at();
  }
  void secret(const Field& field, std::string& value) override { text(field, value); }
  void object(const Field& field, const VisitFields& visit) override {
    if (has(field)) fields_from_json(in_.at(key_.c_str()), within(), visit, code_);
  }

 private:
  /// Whether it is to be read: it is there, or has to be.
  bool has(const Field& field) {
    key_ = field.key_name();
    return field.in_json == InJson::kAlways || in_.has(key_.c_str());
  }
  std::string within() const { return fmt::format("'{}' of {}", key_, what_); }
  CacheSize cache_size_at() const {
    const JsonFields of_size(in_.at(key_.c_str()), within(), code_);
    return {.automatic = of_size.flag("auto"),
            .ratio = of_size.real("ratio"),
            .bytes = of_size.unsigned_whole("bytes")};
  }

  const JsonFields& in_;
  const std::string what_;
  const ErrorCode code_;
  std::string key_;  // of the field that is visited
};

}  // namespace

json fields_to_json(const VisitFields& visit, const VisitFields& unset) {
  Writer values, defaults;
  visit(values);
  unset(defaults);
  return values.told(defaults);
}

void fields_from_json(const json& object, const std::string& what, const VisitFields& visit, ErrorCode code) {
  const JsonFields in(object, what, code);
  const auto keys = keys_of(visit);
  std::vector<std::string_view> known;
  for (const auto& [key, in_json] : keys) known.push_back(key);
  in.only(known);
  Reader reader(in, what, code);
  visit(reader);
}

std::vector<std::string> keys_in_json(const VisitFields& visit, InJson in_json) {
  std::vector<std::string> names;
  for (const auto& [key, is] : keys_of(visit))
    if (is == in_json) names.push_back(key);
  std::ranges::sort(names);
  return names;
}

}  // namespace hopfeed
