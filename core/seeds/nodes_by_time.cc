// See nodes_by_time.h.
#include "core/seeds/nodes_by_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/dataset/attr_value.h"
#include "core/sampler/peer_ids.h"

namespace hopfeed {
namespace {

/// Whether rows at a node type are in the order of the edges' own time, and none in that of nodes'.
bool is_time_of_edges(const DatasetMeta& meta, int node_type, const std::string& time) {
  bool of_edges = false, of_nodes = false;
  for (const EdgeTypeMeta& edge : meta.edge_types) {
    if (meta.edge_src_type(edge) != node_type && meta.edge_dst_type(edge) != node_type) continue;
    if (std::ranges::find(edge.times, time) == edge.times.end()) continue;
    (find_attr(edge.attrs, time) ? of_edges : of_nodes) = true;
  }
  return of_edges && !of_nodes;
}

}  // namespace

AttrView node_times(const Dataset& dataset, int node_type, const std::string& time) {
  const AttrView times = dataset.attr(node_type, time);
  require_valid(times.type == ElementType::kInt64 && is_scalar(times),
                fmt::format("attribute '{}' of node type '{}' is no time: it is not one int64 per node", time,
                            dataset.meta().node_types[static_cast<std::size_t>(node_type)].name));
  return times;
}

// Front to back in the dataset's order, which nothing has to look up.
NodesByTime::NodesByTime(const Dataset& dataset, int node_type, const std::string& time)
    : dataset_(dataset), node_type_(node_type), times_(dataset, node_type, time, sizeof(Node)) {
  const std::int64_t count = dataset.num_nodes(node_type);
  nodes_.reserve(static_cast<std::size_t>(count));
  for_all_original_ids(dataset, node_type, [&](std::int64_t first, std::span<const std::int64_t> originals) {
    for (std::size_t i = 0; i < originals.size(); ++i) {
      std::int64_t id = originals[i];
      const std::int64_t dataset_id = first + static_cast<std::int64_t>(i);
      if (id < 0 || id >= count) id = dataset.checked_original_id(node_type, dataset_id);  // throws
      nodes_.push_back({.time = attr_value<std::int64_t>(times_.view(), dataset_id), .id = id});
    }
  });
  std::ranges::sort(nodes_);
}

std::int64_t NodesByTime::count_until(std::int64_t time) const {
  return std::ranges::upper_bound(nodes_, time, {}, &Node::time) - nodes_.begin();
}

bool NodesByTime::exists(std::int64_t node, std::int64_t time) const {
  return attr_value<std::int64_t>(times_.view(), dataset_.dataset_id(node_type_, node)) <= time;
}

std::shared_ptr<const NodesByTime> nodes_by_time(const Dataset& dataset, int node_type,
                                                 const std::string& time) {
  const NodeTypeMeta& node = dataset.meta().node_types[static_cast<std::size_t>(node_type)];
  if (time.empty() || !find_attr(node.attrs, time) || is_time_of_edges(dataset.meta(), node_type, time))
    return {};
  node_times(dataset, node_type, time);  // throws where it is none
  return std::make_shared<const NodesByTime>(dataset, node_type, time);
}

}  // namespace hopfeed
