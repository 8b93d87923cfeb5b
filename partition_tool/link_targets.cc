// See link_targets.h.
#include "partition_tool/link_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.h"

namespace hopfeed {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::kInvalid, message); }

/// Where nothing says so, a type that leads back may hold the same edges the other way round.
void require_known_reverse(const DatasetMeta& meta, int type) {
  const EdgeTypeMeta& edge = meta.edge_types[type];
  for (int t = 0; t < static_cast<int>(meta.edge_types.size()); ++t) {
    const EdgeTypeMeta& other = meta.edge_types[t];
    if (t == type || other.src != edge.dst || other.dst != edge.src || meta.reverse_edge_type(t) >= 0)
      continue;
    if (edge.src != edge.dst || other.rel == "rev_" + edge.rel || edge.rel == "rev_" + other.rel)
      refuse(fmt::format(
          "edge type {} leads back along {} and would give away held-out links if it is the reverse: "
          "name it, or none, by --rev-edge-types",
          other.folder(), edge.folder()));
  }
}

int named_reverse(const DatasetMeta& meta, int type, const std::string& name) {
  const EdgeTypeMeta& edge = meta.edge_types[type];
  const int known = meta.reverse_edge_type(type);
  if (name == "none") {
    if (known >= 0)
      refuse(fmt::format(
          "--rev-edge-types none: the reverse of {} is {}, which would give away held-out links; name it",
          edge.folder(), meta.edge_types[known].folder()));
    return -1;
  }
  const int reverse = meta.edge_type(name);
  const EdgeTypeMeta& back = meta.edge_types[reverse];
  if (back.src != edge.dst || back.dst != edge.src || reverse == type)
    refuse(fmt::format("--rev-edge-types: {} does not lead back along {}", back.folder(), edge.folder()));
  if (known >= 0 && known != reverse)
    refuse(fmt::format("--rev-edge-types: the reverse of {} is {}", edge.folder(),
                       meta.edge_types[known].folder()));
  if (const int other = meta.reverse_edge_type(reverse); other >= 0 && other != type)
    refuse(fmt::format("--rev-edge-types: {} is the reverse of {}", back.folder(),
                       meta.edge_types[other].folder()));
  return reverse;
}

}  // namespace

std::vector<LinkTarget> link_targets(const DatasetMeta& meta, const LinkSplitOptions& options) {
  std::vector<LinkTarget> targets;
  for (const std::string& name : options.edge_types) targets.push_back({.type = meta.edge_type(name)});
  if (targets.empty()) {
    std::string known;
    for (int t = 0; t < static_cast<int>(meta.edge_types.size()); ++t) {
      if (!meta.edge_types[t].rev_of.empty()) continue;
      known += (known.empty() ? "" : ", ") + meta.edge_types[t].folder();
      targets.push_back({.type = t});
    }
    if (targets.size() != 1) refuse("there are several edge types; say which by --edge-types: " + known);
  }
  if (!options.rev_edge_types.empty() && options.rev_edge_types.size() != targets.size())
    refuse(fmt::format("--rev-edge-types names {} types for {} of --edge-types",
                       options.rev_edge_types.size(), targets.size()));
  std::vector<int> taken;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    LinkTarget& target = targets[i];
    if (options.rev_edge_types.empty()) {
      target.reverse = meta.reverse_edge_type(target.type);
      if (target.reverse < 0) require_known_reverse(meta, target.type);
    } else {
      target.reverse = named_reverse(meta, target.type, options.rev_edge_types[i]);
    }
    const EdgeTypeMeta& edge = meta.edge_types[target.type];
    if (options.is_undirected && (edge.src != edge.dst || target.reverse >= 0))
      refuse(fmt::format("--is-undirected is for edge types that hold both ways themselves; {} {}",
                         edge.folder(),
                         edge.src != edge.dst ? "has ends of two node types" : "has a reverse type"));
    for (const int type : {target.type, target.reverse}) {
      if (type >= 0 && std::ranges::find(taken, type) != taken.end())
        refuse(fmt::format("edge type {} would be split twice", meta.edge_types[type].folder()));
      if (type >= 0) taken.push_back(type);
    }
  }
  return targets;
}

std::string link_time(const EdgeTypeMeta& edge, const LinkSplitOptions& options) {
  const auto fits = [&](const std::string& name) { return has_time(edge.attrs, name); };
  if (!options.time.empty()) {
    if (!fits(options.time))
      refuse(fmt::format("--time {}: edge type {} has no int64 attribute of that name with one number each",
                         options.time, edge.folder()));
    return options.time;
  }
  std::vector<std::string> times;
  std::ranges::copy_if(edge.times, std::back_inserter(times), fits);
  if (times.size() == 1) return times[0];
  if (times.empty() && fits("time")) return "time";
  if (options.by == SplitBy::kTime)
    refuse(fmt::format("edge type {} has {} attribute that tells the time; name one by --time", edge.folder(),
                       times.empty() ? "no" : "more than one"));
  return "";
}

}  // namespace hopfeed
