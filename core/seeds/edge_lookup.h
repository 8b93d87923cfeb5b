// An EdgeLookup tells which of many pairs are edges, where rows lie on several machines: each owner is asked
// once for all of its own.
#pragma once
#include <cstdint>
#include <span>

#include "core/dataset/dataset.h"
#include "core/seeds/edge_membership.h"

namespace hopfeed {

class EdgeLookup {
 public:
  /// Both must outlive it.
  EdgeLookup(const Dataset& dataset, const EdgeMembership& here) : dataset_(dataset), here_(here) {}
  using Edge = EdgeMembership::Edge;
  /// Writes whether each edge is there, in their order. Throws what PartitionPeers and EdgeMembership throw.
  void contain(std::span<const Edge> edges, char* out) const;

 private:
  const Dataset& dataset_;
  const EdgeMembership& here_;
};

}  // namespace hopfeed
