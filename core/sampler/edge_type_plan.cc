// See edge_type_plan.h.
#include "core/sampler/edge_type_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The fanouts of each edge type, hop by hop.
std::vector<std::vector<std::int64_t>> edge_type_fanouts(const Dataset& data, const BatchOptions& options) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(data.num_edge_types()),
                                             options.fanouts);
  std::vector<bool> named(all.size());
  for (const auto& [name, fanouts] : options.edge_fanouts) {
    const auto type = static_cast<std::size_t>(data.meta().edge_type(name));
    if (named[type])
      throw Error(ErrorCode::kInvalid, marked("edge_fanouts") + " names edge type '" + name + "' twice");
    named[type] = true;
    all[type] = fanouts;
  }
  return all;
}

/// Throws where the edges have the attribute to draw by, or their sources the time, but no tables of it:
/// neighbours would come in disregard of what was asked for, later than their seed, say.
void require_tables(const Dataset& data, int type, const BatchOptions& options) {
  const EdgeTypeMeta& edge = data.meta().edge_types[type];
  const auto require = [&](const std::vector<std::string>& tables, const std::string& name,
                           const char* what) {
    require_valid(contains(tables, name), fmt::format("edge type '{}' of {} was imported without '{}' as its "
                                                      "{}, though that attribute is there; import it "
                                                      "so, or leave the type out by edge fanouts of 0",
                                                      edge.folder(), data.folder().string(), name, what));
  };
  if (find_attr(edge.attrs, options.weight)) require(edge.weights, options.weight, "weight");
  const NodeTypeMeta& sources = data.meta().node_types[data.csc(type).src_type];
  if (find_attr(edge.attrs, options.time) || find_attr(sources.attrs, options.time))
    require(edge.times, options.time, "time");
}

}  // namespace

std::vector<EdgeTypePlan> plan_edge_types(const Dataset& data, const BatchOptions& options) {
  std::vector<EdgeTypePlan> plans;
  const std::vector<std::vector<std::int64_t>> fanouts = edge_type_fanouts(data, options);
  bool has_weight = options.weight.empty(), has_time = options.time.empty();
  for (int t = 0; t < data.num_edge_types(); ++t) {
    const EdgeTypeMeta& edge = data.meta().edge_types[t];
    EdgeTypePlan plan{.csc = data.csc(t), .fanouts = fanouts[t], .weight = {}, .weights = {}, .time = {}};
    if (options.edge_ids && !plan.csc.has_edge_ids) {
      throw Error(ErrorCode::kUnsupported,
                  data.folder().string() + " stores no edge ids; import the graph without --no-edge-ids");
    }
    if (std::ranges::any_of(plan.fanouts, [](std::int64_t fanout) { return fanout != 0; }))
      require_tables(data, t, options);
    if (contains(edge.weights, options.weight)) {
      plan.weight = data.weight(t, options.weight), has_weight = true;
      plan.weights = data.edge_attr(t, options.weight);
    }
    if (contains(edge.times, options.time)) {
      plan.time = data.time(t, options.time), has_time = true;
    }
    for (const AttrMeta& attr : edge.attrs) plan.positions |= contains(options.edge_attrs, attr.name);
    plans.push_back(std::move(plan));
  }
  // None has it: let the dataset say what there is.
  if (!has_weight && !plans.empty()) data.weight(0, options.weight);
  if (!has_time && !plans.empty()) data.time(0, options.time);
  return plans;
}

}  // namespace hopfeed
