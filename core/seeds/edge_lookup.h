// An EdgeLookup tells which of many pairs are edges, where rows lie on several machines: each owner is asked
// once for all of its own.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/seeds/edge_membership.h"

namespace hopfeed {

class EdgeLookup {
 public:
  /// Both must outlive it.
  EdgeLookup(const Dataset& dataset, const EdgeMembership& here) : dataset_(dataset), here_(here) {}
  struct Edge {
    std::int64_t source = 0, destination = 0;  // dataset ids in range
  };
  /// Returns whether each edge is there, in their order. Throws what PartitionPeers and EdgeMembership throw.
  std::vector<char> contain(std::span<const Edge> edges) const;

 private:
  const Dataset& dataset_;
  const EdgeMembership& here_;
};

}  // namespace hopfeed
