// BatchOptions <-> their line of JSON, which workers, servers, other machines and checkpoints read.
#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <vector>

#include "core/base/json_fields.h"
#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/batch/batch_options.h"

namespace hopfeed {

std::string BatchOptions::to_json() const {
  nlohmann::json json = {{"fanouts", fanouts},
                         {"edge_fanouts", nlohmann::json::object()},
                         {"replace", replace},
                         {"weight", weight},
                         {"time", time},
                         {"seed_time", seed_time},
                         {"temporal_strategy", to_string(temporal_strategy)},
                         {"time_window", time_window},
                         {"disjoint", trees()},
                         {"edge_ids", edge_ids},
                         {"dataset_ids", dataset_ids},
                         {"attrs", nullptr},
                         {"edge_attrs", edge_attrs}};
  for (const auto& [type, hops] : edge_fanouts) json["edge_fanouts"][type] = hops;
  if (attrs) json["attrs"] = *attrs;
  // Younger options are told only where they are set, so that the text of older ones, and with it a batch's
  // bytes, stays.
  if (labor) json["labor"] = labor;
  if (labor_seeds != 0) json["labor_seeds"] = labor_seeds;
  if (subgraph != Subgraph::kDirectional) json["subgraph"] = to_string(subgraph);
  if (keep_orig_edges) json["keep_orig_edges"] = keep_orig_edges;
  if (sampler != kNeighborSampler) json["sampler"] = sampler;
  if (!sampler_options.empty()) json["sampler_options"] = sampler_options;
  if (!cluster.empty()) json["cluster"] = cluster;
  if (walk.length != 0)
    json["walk"] = {{"length", walk.length},
                    {"per_seed", walk.per_seed},
                    {"p", walk.p},
                    {"q", walk.q},
                    {"metapath", walk.metapath}};
  if (link.on())
    json["link"] = {{"edge_type", link.edge_type},
                    {"negatives", to_string(link.negatives.mode)},
                    {"amount", link.negatives.amount},
                    {"strict", link.negatives.strict},
                    {"src_weight", link.negatives.src_weight},
                    {"dst_weight", link.negatives.dst_weight},
                    {"exclude", to_string(link.exclude)}};
  return json_text(json);  // keys sorted, no spaces: one text per value
}

namespace {

constexpr const char* kWhat = "the batch";  // it is that of a spec, or what another machine tells

WalkOptions walk_from(const nlohmann::json& json) {
  const JsonFields in(json, fmt::format("'walk' of {}", kWhat));
  in.only({"length", "per_seed", "p", "q", "metapath"});
  return {.length = in.whole("length", 1, kMaxWalkLength),
          .per_seed = in.whole("per_seed", 1, kMaxWalksPerSeed),
          .p = in.real("p"),
          .q = in.real("q"),
          .metapath = in.texts("metapath")};
}

LinkOptions link_from(const nlohmann::json& json) {
  const JsonFields in(json, fmt::format("'link' of {}", kWhat));
  in.only({"edge_type", "negatives", "amount", "strict", "src_weight", "dst_weight", "exclude"});
  return {.edge_type = in.text("edge_type"),
          .negatives = {.mode = negative_mode_from(in.text("negatives")),
                        .amount = in.real("amount"),
                        .strict = in.flag("strict"),
                        .src_weight = in.text("src_weight"),
                        .dst_weight = in.text("dst_weight")},
          .exclude = exclude_from(in.text("exclude"))};
}

std::vector<std::int64_t> fanouts_from(const JsonFields& in, const char* key) {
  return in.wholes(key, -1, kMaxFanout);
}

constexpr std::string_view kTold[] = {
    "fanouts",     "edge_fanouts", "replace",  "weight",      "time",  "seed_time", "temporal_strategy",
    "time_window", "disjoint",     "edge_ids", "dataset_ids", "attrs", "edge_attrs"};

}  // namespace

const std::vector<std::string> BatchOptions::kToldWhereSet{
    "cluster", "keep_orig_edges", "labor",    "labor_seeds", "link",
    "sampler", "sampler_options", "subgraph", "walk"};

BatchOptions BatchOptions::from_json(const std::string& text) {
  const nlohmann::json json = parse_json(text);
  const JsonFields in(json, kWhat);
  std::vector<std::string_view> known(std::begin(kTold), std::end(kTold));
  known.insert(known.end(), kToldWhereSet.begin(), kToldWhereSet.end());
  in.only(known);
  BatchOptions options;
  options.fanouts = fanouts_from(in, "fanouts");
  const nlohmann::json& types = in.at("edge_fanouts");
  const JsonFields of_types(types, fmt::format("'edge_fanouts' of {}", kWhat));
  for (const auto& [type, hops] : types.items())
    options.edge_fanouts[type] = fanouts_from(of_types, type.c_str());
  options.replace = in.flag("replace");
  options.weight = in.text("weight");
  options.time = in.text("time");
  options.seed_time = in.text("seed_time");
  options.temporal_strategy = temporal_strategy_from(in.text("temporal_strategy"));
  options.time_window = in.whole("time_window", 0, INT64_MAX);
  options.disjoint = in.flag("disjoint");
  options.edge_ids = in.flag("edge_ids");
  options.dataset_ids = in.flag("dataset_ids");
  if (!in.at("attrs").is_null()) options.attrs = in.texts("attrs");
  options.edge_attrs = in.texts("edge_attrs");
  if (in.has("labor")) options.labor = in.flag("labor");
  if (in.has("labor_seeds")) options.labor_seeds = in.whole("labor_seeds", 0, INT64_MAX);
  if (in.has("subgraph")) options.subgraph = subgraph_from(in.text("subgraph"));
  if (in.has("keep_orig_edges")) options.keep_orig_edges = in.flag("keep_orig_edges");
  if (in.has("sampler")) options.sampler = in.text("sampler");
  if (in.has("sampler_options")) options.sampler_options = in.text("sampler_options");
  if (in.has("cluster")) options.cluster = in.text("cluster");
  if (in.has("walk")) options.walk = walk_from(in.at("walk"));
  if (in.has("link")) options.link = link_from(in.at("link"));
  options.validate();
  return options;
}

}  // namespace hopfeed
