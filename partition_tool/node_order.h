// Makes the one order of a dataset: by partition, inside a partition by falling hotness as seen by that
// partition's own training nodes (all of them where it has none), ties by smaller imported id. Each node type
// has an order of its own; the hotness is that of the whole graph.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "partition_tool/hotness/hotness.h"
#include "partition_tool/progress.h"
#include "partition_tool/raw_graph.h"

namespace hopfeed {

/// A NodeOrder says how the nodes of one type are ordered and cut.
struct NodeOrder {
  std::vector<std::int64_t> partition_offsets;  // [P + 1]
  std::vector<std::int64_t> original;           // [N] dataset id -> imported id
  IdArray new_ids;                              // [N] imported id -> dataset id
  std::vector<double> hotness;                  // [N] by dataset id
  /// [P] has imported ids of rows of other partitions, as the partition's own training nodes read them: the
  /// hottest first, ties by smaller imported id, those that are never read left out, and at most
  /// ranked_rows() (partition_limits.h). It is empty where there are no others or no rows
  /// (attributes).
  std::vector<IdArray> remote_rows = {};
};

/// Returns an order for each node type. `partition_of` holds the partition of each node, numbered through all
/// types, and is empty for one partition. The hotness is computed in the imported numbering, so the order
/// does not depend on how the input was cut.
std::vector<NodeOrder> order_nodes(const RawGraph& graph, std::span<const std::int32_t> partition_of,
                                   int partitions, const HotnessOptions& options, const Progress& progress);

/// Orders by how many edges leave a node, in one partition: for a dataset that is read once or twice and
/// whose order may not cost much.
std::vector<NodeOrder> order_nodes_by_degree(const RawGraph& graph, const Progress& progress);

/// Returns how hot every node is [N] for some training nodes (empty: all nodes are), both numbered through
/// all types by imported id. Tells how far it is.
using HotnessOf = std::function<std::vector<double>(
    std::span<const std::int64_t> train, const std::function<void(std::int64_t, std::int64_t)>& progress)>;

/// Orders the nodes as order_nodes() does, by any other hotness (partition_tool/hotness/hotness_policy.h).
std::vector<NodeOrder> order_nodes_by(const RawGraph& graph, std::span<const std::int32_t> partition_of,
                                      int partitions, const HotnessOf& hotness_of, const Progress& progress);

}  // namespace hopfeed
