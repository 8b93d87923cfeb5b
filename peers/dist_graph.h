// A DistGraph is a graph in partitions on several machines as one: sizes, where nodes lie, degrees, and
// features of any nodes wherever these are. DGL has the like by this name. It is for code around training;
// batches come from a loader.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "peers/peer_options.h"

namespace hopfeed {

class DistGraph {
 public:
  /// Opens a folder with some partitions, or with all where `options` names no others. Throws what Dataset
  /// throws, and where a partition has no server (PeerNetwork::wait_until_known).
  explicit DistGraph(const std::filesystem::path& folder, const PeerOptions& options = {});

  const DatasetMeta& meta() const { return dataset_->meta(); }
  const Dataset& dataset() const { return *dataset_; }
  std::int64_t num_nodes(int node_type = 0) const { return dataset_->num_nodes(node_type); }
  std::int64_t num_edges(int edge_type = 0) const;
  /// Returns the partitions on this machine.
  std::vector<int> partitions() const { return dataset_->partitions(); }
  /// Returns [n] the partition of each node (original ids). Throws kInvalid for an id that is none, as all
  /// functions below.
  std::vector<int> partition_of(int node_type, std::span<const std::int64_t> nodes) const;
  /// Returns [n] edges of the type into each node. Throws what PartitionPeers throws, as features().
  std::vector<std::int64_t> in_degrees(int edge_type, std::span<const std::int64_t> nodes) const;
  /// Returns [n, row_bytes] rows of an attribute, as they are stored (AttrMeta has type and shape).
  std::vector<std::byte> features(int node_type, const std::string& name,
                                  std::span<const std::int64_t> nodes) const;

 private:
  std::vector<std::int64_t> dataset_ids(int node_type, std::span<const std::int64_t> nodes) const;
  std::unique_ptr<const Dataset> dataset_;
};

}  // namespace hopfeed
