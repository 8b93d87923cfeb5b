// See cluster_sampler.h.
#include "core/sampler/cluster_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/dataset/attr_value.h"
#include "core/sampler/peer_ids.h"

namespace hopfeed {
namespace {

/// "paper, author"
std::string types_with(const DatasetMeta& meta, const std::string& attribute) {
  std::string names;
  for (const NodeTypeMeta& type : meta.node_types)
    if (find_attr(type.attrs, attribute)) names += (names.empty() ? "" : ", ") + type.name;
  return names;
}

}  // namespace

ClusterIndex::ClusterIndex(const Dataset& dataset, int node_type, const std::string& attribute)
    : attr_(dataset, node_type, attribute, sizeof(std::int64_t)) {
  const std::string& type = dataset.meta().node_types[node_type].name;
  if (attr_.view().type != ElementType::kInt64 || !is_scalar(attr_.view()))
    throw Error(
        ErrorCode::kInvalid,
        fmt::format("attribute '{}' of node type '{}' numbers no clusters: it is not one int64 per node",
                    attribute, type));
  const std::int64_t count = dataset.num_nodes(node_type);
  std::int64_t clusters = 0;
  for (std::int64_t node = 0; node < count; ++node) {
    const std::int64_t cluster = cluster_of(node);
    if (cluster < 0 || cluster >= count)
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("attribute '{}' of node type '{}': cluster {} of node {} is not between 0 and {}",
                      attribute, type, cluster, original_ids_of_all(dataset, node_type, {&node, 1})[0],
                      count - 1));
    clusters = std::max(clusters, cluster + 1);
  }
  begin_.assign(static_cast<std::size_t>(clusters) + 1, 0);
  for (std::int64_t node = 0; node < count; ++node) ++begin_[cluster_of(node) + 1];
  for (std::int64_t c = 0; c < clusters; ++c) begin_[c + 1] += begin_[c];
  nodes_.resize(static_cast<std::size_t>(count));
  std::vector<std::int64_t> next(begin_.begin(), begin_.end() - 1);
  for_all_dataset_ids(dataset, node_type, [&](std::int64_t, std::span<const std::int64_t> nodes) {
    for (const std::int64_t node : nodes) {
      const std::int64_t cluster = cluster_of(node);
      if (next[cluster] == begin_[cluster + 1])  // ids that are there twice must not become a write elsewhere
        throw Error(ErrorCode::kCorrupt, fmt::format("'{}' gives a node twice; make the dataset again",
                                                     new_ids_path(dataset.meta().node_types[node_type])));
      nodes_[next[cluster]++] = node;
    }
  });
}

std::int64_t ClusterIndex::cluster_of(std::int64_t dataset_id) const {
  return attr_value<std::int64_t>(attr_.view(), dataset_id);
}

std::int64_t ClusterIndex::largest(std::int64_t count) const {
  std::vector<std::int64_t> sizes;
  for (std::int64_t c = 0; c < size(); ++c) sizes.push_back(begin_[c + 1] - begin_[c]);
  const auto kept = std::min(sizes.size(), static_cast<std::size_t>(count));
  std::partial_sort(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(kept), sizes.end(),
                    std::greater<>());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kept; ++i) sum += sizes[i];
  return sum;
}

std::vector<std::int64_t> cluster_seeds(const Dataset& dataset, int node_type, const std::string& attribute) {
  const ClusterIndex index(dataset, node_type, attribute);
  std::vector<std::int64_t> nodes;
  for (std::int64_t c = 0; c < index.size(); ++c)
    if (!index.nodes(c).empty()) nodes.push_back(index.nodes(c)[0]);
  return original_ids_of_all(dataset, node_type, nodes);
}

ClusterSampler::ClusterSampler(const Dataset& dataset, const BatchOptions& options)
    : dataset_(dataset),
      attribute_(options.cluster),
      indices_(static_cast<std::size_t>(dataset.num_node_types())) {
  if (types_with(dataset.meta(), attribute_).empty())
    dataset.attr(0, attribute_);  // throws kNotFound and lists what there is
}

const ClusterIndex& ClusterSampler::clusters_of(int seed_type) const {
  std::unique_ptr<const ClusterIndex>& index = indices_[seed_type];
  if (index) return *index;
  const NodeTypeMeta& type = dataset_.meta().node_types[seed_type];
  require_valid(
      find_attr(type.attrs, attribute_),
      fmt::format(
          "there are seeds of node type '{}', which has no attribute '{}' that numbers clusters; choose "
          "seeds of types that have it (of links both ends): {}",
          type.name, attribute_, types_with(dataset_.meta(), attribute_)));
  index = std::make_unique<const ClusterIndex>(dataset_, seed_type, attribute_);
  return *index;
}

std::size_t ClusterSampler::scratch_bytes() const {
  std::size_t bytes = 0;
  for (const auto& index : indices_) bytes += index ? index->bytes() : 0;
  return bytes;
}

SampleBounds ClusterSampler::bounds(SeedCounts seeds) const {
  SampleBounds bounds{
      .nodes = std::vector<std::int64_t>(static_cast<std::size_t>(dataset_.num_node_types()), 0),
      .edges = std::vector<std::int64_t>(static_cast<std::size_t>(dataset_.num_edge_types()), 0),
      .seeds = total_of(seeds),
      .arrays = {}};
  for (const SeedCount& entry : seeds)
    bounds.nodes[entry.node_type] = clusters_of(entry.node_type).largest(entry.count);
  return bounds;
}

void ClusterSampler::sample(const SampleRequest& request, SampleBuilder& out) {
  for (const TypedSeeds& entry : request.seeds) {
    const ClusterIndex& clusters = clusters_of(entry.node_type);
    for (const std::int64_t seed : entry.ids)
      for (const std::int64_t node : clusters.nodes(clusters.cluster_of(seed)))
        out.add_node(entry.node_type, node);
  }
  out.end_hop();
}

}  // namespace hopfeed
