// NegativeNodes are the nodes that one end of negatives is drawn from: all of a type, or those that exist at
// a time (nodes_by_time.h); uniformly, or in proportion to an attribute. The draws are those of
// negative_rule.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"
#include "core/draws/keyed_random.h"
#include "core/seeds/nodes_by_time.h"

namespace hopfeed {

struct NegativeNodesOptions {
  int node_type = 0;
  std::string weight = {};                          // attribute to draw by; empty: uniformly
  bool weighed = false;                             // weight() is going to be asked for
  std::shared_ptr<const NodesByTime> by_time = {};  // null: all exist at any time
};

/// Nodes go by number: in the order of their times where they have some, else by original id. Those that
/// exist at a time are the first. It holds 8 bytes per node to draw by weight, and 8 more where they are
/// weighed one by one.
class NegativeNodes {
 public:
  /// `dataset` must outlive it. Throws kNotFound and kInvalid for a weight that is not there or cannot be
  /// drawn by.
  NegativeNodes(const Dataset& dataset, const NegativeNodesOptions& options);

  int node_type() const { return node_type_; }
  std::int64_t count() const { return count_; }
  /// Returns how many nodes exist at a time.
  std::int64_t existing(std::optional<std::int64_t> time) const {
    return by_time_ && time ? by_time_->count_until(*time) : count_;
  }
  /// Returns the original id of node number i.
  std::int64_t node(std::int64_t i) const { return by_time_ ? by_time_->node(i) : i; }
  /// Returns what the first `existing` nodes weigh together; where it is 0, none of them can be drawn.
  std::uint64_t total(std::int64_t existing) const;
  /// Returns what a node (original id) weighs of the same whole; 0 where it does not exist at that time.
  std::uint64_t weight(std::int64_t node, std::optional<std::int64_t> time) const {
    return by_time_ && time && !by_time_->exists(node, *time) ? 0 : weight(node);
  }
  std::uint64_t weight(std::int64_t node) const {
    return weights_.empty() ? 1 : weights_[static_cast<std::size_t>(node)];
  }
  /// Draws one of the first `existing` nodes, which weigh something, and returns its original id.
  std::int64_t draw(const NodeStream& stream, std::uint32_t attempt, std::int64_t existing) const;
  /// Returns its memory without `by_time`, which several may share.
  std::size_t bytes() const;

 private:
  const int node_type_;
  const std::int64_t count_;
  const std::shared_ptr<const NodesByTime> by_time_;
  std::vector<AliasEntry> table_;       // [N] by weight, where all exist; by original id
  std::vector<std::uint64_t> sums_;     // [N + 1] by weight, where they have times: of the first i nodes
  std::vector<std::uint64_t> weights_;  // [N] where nodes of unequal weights are weighed; by original id
};

}  // namespace hopfeed
