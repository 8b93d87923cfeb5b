// Batches of whole clusters (Chiang et al., "Cluster-GCN", KDD 2019) have all nodes of the seeds' clusters;
// subgraph = induced, which is asked for, gives every edge between them. A cluster is named by any of its
// nodes as a seed; an epoch over cluster_seeds() gives each cluster once, shuffled anew each epoch. Clusters
// are an int64 attribute of the seeds' type, made once, imported and independent of the cut; another type may
// number clusters of its own by the same name. Nodes follow the seeds in the order of their clusters and of
// their original ids.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/sampler/custom_sampler.h"
#include "core/sampler/peer_rows.h"

namespace hopfeed {

/// A ClusterIndex has the nodes of one type by cluster. It holds 8 bytes per node and per cluster.
class ClusterIndex {
 public:
  /// Throws kNotFound where the attribute is not there, kInvalid where it is not one int64 per node or a
  /// value is not in [0, number of nodes).
  ClusterIndex(const Dataset& dataset, int node_type, const std::string& attribute);
  std::int64_t size() const { return static_cast<std::int64_t>(begin_.size()) - 1; }
  std::int64_t cluster_of(std::int64_t dataset_id) const;
  /// Returns dataset ids in the order of original ids; none for a number that no node has.
  std::span<const std::int64_t> nodes(std::int64_t cluster) const {
    return std::span(nodes_).subspan(static_cast<std::size_t>(begin_[cluster]),
                                     static_cast<std::size_t>(begin_[cluster + 1] - begin_[cluster]));
  }
  std::size_t bytes() const { return (begin_.size() + nodes_.size()) * sizeof(std::int64_t); }
  /// Returns the nodes of the `count` largest clusters together.
  std::int64_t largest(std::int64_t count) const;

 private:
  WholeNodeAttr attr_;
  std::vector<std::int64_t> begin_;  // [clusters + 1]
  std::vector<std::int64_t> nodes_;
};

/// Returns original ids: the first node of each cluster that has one, in the order of the clusters.
std::vector<std::int64_t> cluster_seeds(const Dataset& dataset, int node_type, const std::string& attribute);

class ClusterSampler : public CustomSampler {
 public:
  /// Throws kNotFound where no node type has the attribute.
  ClusterSampler(const Dataset& dataset, const BatchOptions& options);
  void sample(const SampleRequest& request, SampleBuilder& out) override;
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t scratch_bytes() const override;

 private:
  /// Returns the index of a type, which is made when it is first asked for: the request says of which type
  /// seeds are. Throws kInvalid for a type without the attribute, and what ClusterIndex throws.
  const ClusterIndex& clusters_of(int seed_type) const;
  const Dataset& dataset_;
  const std::string attribute_;
  mutable std::vector<std::unique_ptr<const ClusterIndex>> indices_;  // by node type
};

}  // namespace hopfeed
