// See batch_spec.h.
#include "core/maker/batch_spec.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

using nlohmann::json;

json json_of(const BatchSpec& spec) {
  json seeds{{"node_type", spec.seeds.node_type}, {"split", spec.seeds.split}, {"sha256", spec.seeds.sha256}};
  json batch = parse_json(spec.batch.to_json());
  for (const std::string& key :
       BatchOptions::kToldWhereSet)  // here all are told: a key that is lost is missed
    if (!batch.contains(key)) batch[key] = nullptr;
  return {{"version", BatchSpec::kVersion},
          {"rules", spec.rules},
          {"dataset", spec.dataset},
          {"fingerprint", spec.fingerprint},
          {"batch", std::move(batch)},
          {"seeds", std::move(seeds)},
          {"shuffle", spec.shuffle},
          {"seed", spec.seed},
          {"sampler_sha256", spec.sampler_sha256}};
}

void require_keys(const json& object, const char* what, const std::set<std::string>& keys) {
  require_valid(object.is_object(), fmt::format("{} is no JSON object", what));
  for (const auto& [key, value] : object.items())
    require_valid(keys.contains(key), fmt::format("{} has the unknown key '{}'", what, key));
  for (const std::string& key : keys)
    require_valid(object.contains(key), fmt::format("{} lacks the key '{}'", what, key));
}

}  // namespace

std::string BatchSpec::to_json() const { return json_text(json_of(*this)); }

BatchSpec BatchSpec::from_json(const std::string& text) {
  constexpr const char* what = "the batch spec";
  const json whole = parse_json(text);
  require_valid(whole.is_object(), fmt::format("{} is no JSON object", what));
  const std::string repeated = repeated_key(text);
  require_valid(repeated.empty(), fmt::format("{} has the key '{}' twice", what, repeated));
  if (json_text(whole.value("version", json())) != std::to_string(kVersion))
    throw Error(ErrorCode::kVersion,
                fmt::format("{} is of version {}, and this hopfeed reads {}; use one version on both sides",
                            what, json_text(whole.value("version", json())), kVersion));
  require_keys(
      whole, what,
      {"version", "rules", "dataset", "fingerprint", "batch", "seeds", "shuffle", "seed", "sampler_sha256"});
  require_keys(whole.at("seeds"), "'seeds' of the batch spec", {"node_type", "split", "sha256"});
  BatchSpec spec;
  const char* key = "";
  try {
    const auto read = [&](const json& from, const char* name, auto& to) {
      key = name;
      from.at(name).get_to(to);
    };
    require_valid(whole.at("rules").is_number_integer() &&
                      json_text(whole.at("rules")) == std::to_string(whole.at("rules").get<int>()),
                  "'rules' of the batch spec is no whole number");
    read(whole, "rules", spec.rules);
    read(whole, "dataset", spec.dataset);
    read(whole, "fingerprint", spec.fingerprint);
    read(whole, "shuffle", spec.shuffle);
    require_valid(whole.at("seed").is_number_unsigned(), "'seed' of the batch spec is no number from 0 on");
    read(whole, "seed", spec.seed);
    read(whole, "sampler_sha256", spec.sampler_sha256);
    read(whole.at("seeds"), "node_type", spec.seeds.node_type);
    read(whole.at("seeds"), "split", spec.seeds.split);
    read(whole.at("seeds"), "sha256", spec.seeds.sha256);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("'{}' of the batch spec cannot be read: {}", key, error.what()));
  }
  json batch = whole.at("batch");
  require_valid(batch.is_object(), "'batch' of the batch spec is no JSON object");
  for (const std::string& optional : BatchOptions::kToldWhereSet) {
    require_valid(batch.contains(optional),
                  fmt::format("'batch' of the batch spec lacks the key '{}'", optional));
    if (batch.at(optional).is_null()) batch.erase(optional);
  }
  spec.batch = BatchOptions::from_json(json_text(batch));
  require_valid(spec.seeds.split.empty() != spec.seeds.sha256.empty(),
                "'seeds' of the batch spec name a split or a hash of what is given, one of the two");
  require_valid(
      spec.batch.link.on() == spec.seeds.node_type.empty(),
      "'seeds' of the batch spec name a node type where they are nodes, and none where they are links");
  return spec;
}

std::map<std::string, std::string> BatchSpec::parts() const {
  std::map<std::string, std::string> parts;
  const json whole = json_of(*this);
  for (const auto& [name, value] : whole.items()) {
    if (!value.is_object())
      parts[name] = json_text(value);
    else
      for (const auto& [inner, part] : value.items())
        if (!part.is_null() || inner == "attrs") parts[fmt::format("{}.{}", name, inner)] = json_text(part);
  }
  parts.erase("version");
  return parts;
}

void BatchSpec::require_rules() const {
  if (rules == kRules) return;
  throw Error(ErrorCode::kVersion,
              fmt::format("the batches are of rules {}, and this hopfeed makes them by rules {}: their bytes "
                          "differ; use one version everywhere",
                          rules, kRules));
}

bool operator==(const BatchSpec& a, const BatchSpec& b) { return a.to_json() == b.to_json(); }

}  // namespace hopfeed
