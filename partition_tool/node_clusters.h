// Makes clusters of the nodes of one type, for batches of whole clusters (core/sampler/cluster_sampler.h):
// once, of the imported graph, so that they depend on no cut, and stored as an attribute of the nodes.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// Returns the graph that is to be clustered: the nodes of one type with the edges between them, which are
/// all that a batch of clusters holds. Splits and attributes stay behind. Throws kInvalid where the type has
/// no such edges.
RawGraph graph_of_node_type(const RawGraph& graph, int node_type);

struct NodeClusters {
  std::vector<std::int64_t> cluster_of;  // [N] by imported id
  std::vector<std::int64_t> sizes;       // of each cluster, none of them 0
  std::int64_t edges_cut = 0;            // between clusters: those that no batch of one cluster has
};

/// Numbers the filled ones of `partitions` parts in the order of their first nodes.
NodeClusters make_clusters(const RawGraph& graph_of_type, std::span<const std::int32_t> partition_of,
                           int partitions);

/// Adds the int64 attribute `name`, which the type must not have yet.
void add_cluster_attr(RawGraph& graph, int node_type, const std::string& name,
                      std::vector<std::int64_t> cluster_of);

}  // namespace hopfeed
