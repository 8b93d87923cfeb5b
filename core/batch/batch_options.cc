// See batch_options.h.
#include "core/batch/batch_options.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {

namespace {

void check_fanouts(const std::vector<std::int64_t>& fanouts, const char* field) {
  if (static_cast<std::int64_t>(fanouts.size()) > kMaxHops) {
    throw Error(ErrorCode::kInvalid, fmt::format("{} hops are asked for ({}); at most {} are sampled",
                                                 fanouts.size(), marked(field), kMaxHops));
  }
  for (std::int64_t fanout : fanouts) {
    if (fanout >= -1 && fanout <= kMaxFanout) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("fanout {} ({}) is not between 0 and {}; use -1 for all neighbours", fanout,
                            marked(field), kMaxFanout));
  }
}

void check_walk(const WalkOptions& walk) {
  if (walk.length < 1 || walk.length > kMaxWalkLength)
    throw Error(ErrorCode::kInvalid, fmt::format("{} is {}; choose 1 to {} steps", marked("walk.length"),
                                                 walk.length, kMaxWalkLength));
  if (walk.per_seed < 1 || walk.per_seed > kMaxWalksPerSeed)
    throw Error(ErrorCode::kInvalid, fmt::format("{} is {}; choose 1 to {}", marked("walk.per_seed"),
                                                 walk.per_seed, kMaxWalksPerSeed));
  for (const auto& [parameter, field] : {std::pair{walk.p, "walk.p"}, {walk.q, "walk.q"}}) {
    if (parameter > 0 && std::isfinite(parameter) && std::isfinite(1 / parameter)) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} is {}; choose a number above zero, whose inverse is one too", marked(field),
                            parameter));
  }
}

/// Options that only some samplers know.
void check_sampler(const BatchOptions& o) {
  const bool neighbor = o.sampler == BatchOptions::kNeighborSampler,
             walk = o.sampler == BatchOptions::kWalkSampler,
             cluster = o.sampler == BatchOptions::kClusterSampler;
  const auto refuse = [&](bool given, const char* option) {
    if (given)
      throw Error(ErrorCode::kInvalid, fmt::format("sampler '{}' knows no {}; leave it out or choose another",
                                                   o.sampler, marked(option)));
  };
  refuse(!walk && o.walk.length != 0, "walk.length");
  refuse(!walk && o.walk.per_seed != 1, "walk.per_seed");
  refuse(!walk && o.walk.p != 1, "walk.p");
  refuse(!walk && o.walk.q != 1, "walk.q");
  refuse(!walk && !o.walk.metapath.empty(), "walk.metapath");
  refuse(!cluster && !o.cluster.empty(), "cluster");
  refuse((neighbor || walk || cluster) && !o.sampler_options.empty(), "sampler_options");
  const bool fanouts = !neighbor && o.fanouts != BatchOptions{}.fanouts;
  refuse(fanouts && o.subgraph != Subgraph::kInduced, "fanouts");
  if (fanouts && std::ranges::any_of(o.fanouts, [](std::int64_t fanout) { return fanout != -1; }))
    throw Error(ErrorCode::kInvalid,
                fmt::format("sampler '{}' draws nothing by {}; of an induced subgraph they count a model's "
                            "layers, each over all edges: give -1 for each",
                            o.sampler, marked("fanouts")));
  refuse(!neighbor && !o.edge_fanouts.empty(), "edge_fanouts");
  refuse(!neighbor && o.replace, "replace");
  refuse(!neighbor && !o.weight.empty(), "weight");
  refuse(!neighbor && o.disjoint, "disjoint");
  refuse(!neighbor && o.labor, "labor");
  refuse(!neighbor && !o.time.empty(), "time");
  if (walk) check_walk(o.walk);
  if (cluster && o.subgraph != Subgraph::kInduced)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "sampler 'cluster' draws no edges of its own; ask for those between its nodes ({} induced)",
            marked("subgraph")));
  if (cluster && o.cluster.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("sampler 'cluster' needs the node attribute that numbers clusters ({})",
                            marked("cluster")));
}

void check_named_once(const char* option, const std::vector<std::string>& names) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw Error(ErrorCode::kInvalid, fmt::format("{} names '{}' twice", marked(option), *name));
}

}  // namespace

const char* to_string(TemporalStrategy strategy) {
  return strategy == TemporalStrategy::kUniform ? "uniform" : "last";
}

TemporalStrategy temporal_strategy_from(const std::string& name) {
  for (TemporalStrategy strategy : {TemporalStrategy::kUniform, TemporalStrategy::kLast})
    if (name == to_string(strategy)) return strategy;
  throw Error(ErrorCode::kInvalid, fmt::format("temporal strategy '{}' is neither uniform nor last", name));
}

const char* to_string(Subgraph subgraph) {
  switch (subgraph) {
    case Subgraph::kDirectional:
      return "directional";
    case Subgraph::kBidirectional:
      return "bidirectional";
    case Subgraph::kInduced:
      break;
  }
  return "induced";
}

Subgraph subgraph_from(const std::string& name) {
  for (Subgraph subgraph : {Subgraph::kDirectional, Subgraph::kBidirectional, Subgraph::kInduced})
    if (name == to_string(subgraph)) return subgraph;
  throw Error(ErrorCode::kInvalid,
              fmt::format("subgraph '{}' is none of directional, bidirectional and induced", name));
}

bool BatchOptions::bounded() const {
  if (subgraph == Subgraph::kInduced) return false;
  if (sampler != kNeighborSampler) return sampler != kClusterSampler;
  if (labor) return false;
  const auto none_is_all = [](const std::vector<std::int64_t>& hops) {
    return std::find(hops.begin(), hops.end(), -1) == hops.end();
  };
  return none_is_all(fanouts) && std::all_of(edge_fanouts.begin(), edge_fanouts.end(),
                                             [&](const auto& type) { return none_is_all(type.second); });
}

void BatchOptions::validate() const {
  check_sampler(*this);
  check_fanouts(fanouts, "fanouts");
  for (const auto& [type, hops] : edge_fanouts) {
    check_fanouts(hops, "edge_fanouts");
    if (hops.size() == fanouts.size()) continue;
    throw Error(ErrorCode::kInvalid,
                fmt::format("edge type '{}' has {} fanouts and the others {} ({}, {}); give one per hop",
                            type, hops.size(), fanouts.size(), marked("edge_fanouts"), marked("fanouts")));
  }
  check_named_once("attrs", attrs.value_or(std::vector<std::string>{}));
  check_named_once("edge_attrs", edge_attrs);
  if (subgraph == Subgraph::kInduced && trees())
    throw Error(ErrorCode::kInvalid,
                fmt::format("the induced subgraph has all edges between nodes, so it excludes {} and {}",
                            marked("disjoint"), marked("time")));
  require_valid(!keep_orig_edges || subgraph == Subgraph::kBidirectional,
                marked("keep_orig_edges") +
                    " keeps the edges that a bidirectional subgraph replaces; choose that, or leave it out");
  if (labor && (replace || !weight.empty() || trees()))
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} excludes {}, {}, {} and {}: its seeds share what is drawn", marked("labor"),
                            marked("replace"), marked("weight"), marked("time"), marked("disjoint")));
  if (labor_seeds < 0 || (labor_seeds > 0 && !labor))
    throw Error(ErrorCode::kInvalid, fmt::format("{} is {}; give 0 or more, and more only with {}",
                                                 marked("labor_seeds"), labor_seeds, marked("labor")));
  if (!weight.empty() && !time.empty())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} and {} exclude each other: draws among neighbours of the past are uniform",
                            marked("weight"), marked("time")));
  if (time.empty() && temporal_strategy == TemporalStrategy::kLast)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("the strategy last needs times: say which attribute is the time ({})", marked("time")));
  if (time.empty() && (!seed_time.empty() || time_window != 0))
    throw Error(ErrorCode::kInvalid, fmt::format("{} and {} need times: say which attribute is the time ({})",
                                                 marked("seed_time"), marked("time_window"), marked("time")));
  link.validate();
  require_valid(
      !link.on() || seed_time.empty(),
      fmt::format("links have times of their own, so {} is not read; leave it out", marked("seed_time")));
  require_valid(!time.empty() || !time_start,
                fmt::format("{} needs times: say which attribute is the time ({})", marked("time_start"),
                            marked("time")));
  if (time_window < 0)
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} is {}; give 0 (no limit) or more", marked("time_window"), time_window));
  if (temporal_strategy == TemporalStrategy::kLast && replace)
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("the strategy last draws nothing, so {} has no meaning for it", marked("replace")));
}

std::uint64_t BatchOptions::hash() const {
  const std::string text = to_json();
  return XXH3_64bits(text.data(), text.size());
}

std::vector<std::int64_t> parse_fanouts(const std::string& text, std::string_view field) {
  std::vector<std::int64_t> fanouts;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error == std::errc::result_out_of_range)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("fanout {} ({}) is not between 0 and {}; use -1 for all neighbours", part,
                              marked(field), kMaxFanout));
    if (error != std::errc{} || end != part.data() + part.size()) {
      throw Error(ErrorCode::kInvalid, fmt::format("'{}' in {} '{}' is no number; write them like 15,10,5",
                                                   part, marked(field), text));
    }
    fanouts.push_back(value);
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
    if (rest.empty())
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} '{}' ends with a comma; write them like 15,10,5", marked(field), text));
  }
  return fanouts;
}

std::map<std::string, std::vector<std::int64_t>> parse_edge_fanouts(const std::string& text) {
  std::map<std::string, std::vector<std::int64_t>> fanouts;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      throw Error(ErrorCode::kInvalid,
                  fmt::format("'{}' in {} '{}' is no TYPE=FANOUTS; write them like depends=15,10;tagged=5,5",
                              part, marked("edge_fanouts"), text));
    }
    const std::string type(part.substr(0, equals));
    if (!fanouts.emplace(type, parse_fanouts(std::string(part.substr(equals + 1)), "edge_fanouts")).second)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("{} '{}' names edge type '{}' twice", marked("edge_fanouts"), text, type));
  }
  return fanouts;
}

std::vector<std::string> parse_names(const std::string& text, std::string_view field) {
  std::vector<std::string> names;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view part = rest.substr(0, rest.find(','));
    if (part.empty() || part.size() + 1 == rest.size())
      throw Error(ErrorCode::kInvalid, fmt::format("{} '{}' has an empty name; write names like weight,time",
                                                   marked(field), text));
    names.emplace_back(part);
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
  return names;
}

}  // namespace hopfeed
