// See batch_spec.h.
#include "core/batch/batch_spec.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/field_json.h"
#include "core/base/json_fields.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

using nlohmann::json;

/// Keys of the batch that a spec has null for where they are not set.
std::vector<std::string> null_keys() {
  BatchOptions any;
  return keys_in_json([&any](FieldVisitor& fields) { any.visit(fields); }, InJson::kOrNull);
}

json json_of(const BatchSpec& spec) {
  json seeds{{"node_type", spec.seeds.node_type}, {"split", spec.seeds.split}, {"sha256", spec.seeds.sha256}};
  json batch = parse_json(spec.batch.to_json());
  for (const std::string& key : null_keys())
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

}  // namespace

std::string BatchSpec::to_json() const { return json_text(json_of(*this)); }

BatchSpec BatchSpec::from_json(const std::string& text) {
  constexpr const char* what = "the batch spec";
  const json whole = parse_json(text);
  if (whole.is_discarded())
    throw Error(ErrorCode::kInvalid, fmt::format("{} is no JSON: {}", what, json_complaint(text)));
  const JsonFields in(whole, what);
  const std::string repeated = repeated_key(text);
  require_valid(repeated.empty(), fmt::format("{} has the key '{}' twice", what, repeated));
  if (!is_whole(whole.value("version", json()), kVersion, kVersion))
    throw Error(ErrorCode::kVersion,
                fmt::format("{} is of version {}, and this hopfeed reads {}; use one version on both sides",
                            what, json_shown(whole.value("version", json())), kVersion));
  in.only(
      {"version", "rules", "dataset", "fingerprint", "batch", "seeds", "shuffle", "seed", "sampler_sha256"});
  const JsonFields seeds(in.at("seeds"), fmt::format("'seeds' of {}", what));
  seeds.only({"node_type", "split", "sha256"});
  BatchSpec spec;
  spec.rules = static_cast<int>(in.whole("rules", 0, INT32_MAX));
  spec.dataset = in.text("dataset");
  spec.fingerprint = in.text("fingerprint");
  spec.shuffle = in.flag("shuffle");
  spec.seed = in.unsigned_whole("seed");
  spec.sampler_sha256 = in.text("sampler_sha256");
  spec.seeds = {
      .node_type = seeds.text("node_type"), .split = seeds.text("split"), .sha256 = seeds.text("sha256")};
  json batch = in.at("batch");
  require_valid(batch.is_object(), "'batch' of the batch spec is no JSON object");
  for (const std::string& optional : null_keys()) {
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
