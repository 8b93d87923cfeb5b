// See settings_told.h.
#include "trainer/settings_told.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

using nlohmann::json;

constexpr std::size_t kMostOfValue = 60;  // characters
constexpr std::size_t kOfHash = 12;

/// Null where a run has no such setting.
json value_of(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return nullptr;
  json value = parse_json(found->second);
  return value.is_discarded() ? json(found->second) : value;
}

/// `unset` is told where there is none.
std::string told(const json& value, const std::string& unset) {
  if (value.is_null() || value == "") return unset;
  const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  return text.size() <= kMostOfValue ? text : text.substr(0, kMostOfValue) + "...";
}

/// Of what a hash stands for.
std::string given(const json& hash) {
  if (!hash.is_string() || hash == "") return "unset";
  return "sha256 " + hash.get<std::string>().substr(0, kOfHash);
}

std::string field(std::string name) {
  std::ranges::replace(name, '-', '_');
  return marked(name);
}

/// What is not told of a setting is its default.
std::string default_of(const std::string& name) {
  if (name == "precision") return "float32";
  if (name == "validate") return "sampled";
  return "unset";
}

/// Of what is told as a whole, the part that differs.
ToldSetting in_parts(const std::string& name, const json& stored, const json& here) {
  if (!stored.is_object() || !here.is_object())
    return {.name = field(name), .stored = told(stored, "unset"), .here = told(here, "unset")};
  std::set<std::string> keys;
  for (const auto& [key, value] : stored.items()) keys.insert(key);
  for (const auto& [key, value] : here.items()) keys.insert(key);
  for (const std::string& key : keys) {
    const json a = stored.value(key, json()), b = here.value(key, json());
    if (a == b) continue;
    if (a.is_object() || b.is_object()) return in_parts(key, a, b);
    const std::string unset = a.is_boolean() || b.is_boolean() ? "false" : "unset";
    return {.name = field(key), .stored = told(a, unset), .here = told(b, unset)};
  }
  return {.name = field(name), .stored = told(stored, "unset"), .here = told(here, "unset")};
}

/// Who trains on which seeds, or which these are.
ToldSetting of_seeds(const Settings& stored, const Settings& here) {
  const json a = value_of(stored, "seeds.sha256"), b = value_of(here, "seeds.sha256");
  if (a == kSeedsOfPartition || b == kSeedsOfPartition) {
    const auto deal = [](const json& seeds) { return seeds == kSeedsOfPartition ? "local" : "even"; };
    return {.name = marked("deal"), .stored = deal(a), .here = deal(b)};
  }
  return {.name = marked("seeds"), .stored = given(a), .here = given(b)};
}

ToldSetting named(const std::string& name, const Settings& stored, const Settings& here) {
  const json a = value_of(stored, name), b = value_of(here, name);
  if (name == "seeds.sha256") return of_seeds(stored, here);
  if (name == "batch.dataset_ids") {  // which owners' rows go by
    const auto has = [](const json& ids) { return ids == true ? "set" : "unset"; };
    return {.name = marked("owners"), .stored = has(a), .here = has(b)};
  }
  if (name == "batch.link") return in_parts("link", a, b);
  if (name == "hash of the test links")
    return {.name = marked("test_links"), .stored = given(a), .here = given(b)};
  const std::string unset = a.is_boolean() || b.is_boolean() ? "false" : default_of(name);
  return {.name = field(name), .stored = told(a, unset), .here = told(b, unset)};
}

bool same(const Settings& stored, const Settings& here, const std::string& name) {
  const auto a = stored.find(name), b = here.find(name);
  return a == stored.end() || b == here.end() ? a == stored.end() && b == here.end() : a->second == b->second;
}

}  // namespace

std::optional<ToldSetting> first_difference(const Settings& stored, const Settings& here) {
  Settings all = stored;
  all.insert(here.begin(), here.end());
  // A hash says more than the name of the split in whose place it stands.
  if (!same(stored, here, "seeds.sha256")) return named("seeds.sha256", stored, here);
  for (const auto& [name, value] : all)
    if (!same(stored, here, name)) return named(name, stored, here);
  return {};
}

}  // namespace hopfeed
