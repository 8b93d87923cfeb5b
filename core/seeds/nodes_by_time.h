// NodesByTime has the nodes of a type in the order of the times that they begin to exist at: those that exist
// at some time are the first of them.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dataset/dataset.h"
#include "core/dataset/graph_view.h"
#include "core/sampler/peer_rows.h"

namespace hopfeed {

/// Returns an attribute that is a time of nodes. Throws kNotFound, and kInvalid where it is not one int64 per
/// node.
AttrView node_times(const Dataset& dataset, int node_type, const std::string& time);

class NodesByTime {
 public:
  /// Orders by an attribute that node_times() takes. `dataset` must outlive it. Throws kCorrupt naming file
  /// and row of an original id that is none, and what WholeNodeAttr throws.
  NodesByTime(const Dataset& dataset, int node_type, const std::string& time);

  /// Returns how many exist at `time`: those whose time is no later.
  std::int64_t count_until(std::int64_t time) const;
  /// Returns the original id of the i-th; equal times are ordered by original id.
  std::int64_t node(std::int64_t i) const { return nodes_[static_cast<std::size_t>(i)].id; }
  /// Returns whether a node (original id) exists at `time`.
  bool exists(std::int64_t node, std::int64_t time) const;
  std::size_t bytes() const { return nodes_.capacity() * sizeof(Node) + times_.bytes(); }

 private:
  struct Node {
    std::int64_t time, id;
    friend auto operator<=>(const Node&, const Node&) = default;
  };
  const Dataset& dataset_;
  const int node_type_;
  const WholeNodeAttr times_;
  std::vector<Node> nodes_;  // [N]
};

/// Orders by attribute `time`; null where its nodes know none: they have no such attribute, or it is
/// something else, since rows at the type are in the order of the edges' own `time` and none in that of
/// nodes'. Throws what node_times and NodesByTime throw.
std::shared_ptr<const NodesByTime> nodes_by_time(const Dataset& dataset, int node_type,
                                                 const std::string& time);

}  // namespace hopfeed
