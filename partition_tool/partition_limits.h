// What numbers of 32 bits hold of a partition, asked where a graph is cut, so that no later reader finds out:
//
//   rows of a node type in a partition   machines ask each other for rows by 4 bytes
//   nodes of a halo                      likewise
//   rows that a partition ranks          of others: ranks have 4 bytes (cache/remote_ranks.h)
//   edges of a row                       with weights, times or an order by id: positions in the row have 4
//                                        bytes, and alias tables hold half as many (row_tables.h)
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "partition_tool/raw_graph.h"

namespace hopfeed {

inline constexpr std::int64_t kMaxPartitionRows = (std::int64_t{1} << 32) - 1;

/// Throws kUnsupported where so many partitions of `count` nodes of a type must have too many rows, naming
/// how many it takes.
void require_enough_parts(const std::string& node_type, std::int64_t count, std::int64_t parts);
/// Throws kUnsupported where a partition of a cut has too many rows of a type. `partition_of` as of
/// order_nodes().
void require_rows_fit(const RawGraph& graph, std::span<const std::int32_t> partition_of, int parts);
/// The same of one type, by the nodes in each partition.
void require_rows_fit(const std::string& node_type, std::span<const std::int64_t> rows);

/// No machine that holds one partition has memory for many times as many rows of others, and the lists of all
/// partitions together stay small beside the features.
inline constexpr std::int64_t kRemoteRowsPerOwn = 4;
/// Returns how many of the rows of other partitions that a partition reads it ranks: at most
/// kRemoteRowsPerOwn for each of its own, and as many as ranks number.
std::int64_t ranked_rows(std::int64_t read, std::int64_t own);

/// Returns a line for each limit that the cut passes and a reader of the partitions may meet: nodes of a type
/// in a batch, and rows of others that a partition ranks. `rows`: nodes of the type in each partition.
std::vector<std::string> limits_ahead(const std::string& node_type, std::span<const std::int64_t> rows);

/// RowTables say what an edge type keeps of the edges of a row by their positions.
struct RowTables {
  std::span<const std::string> weights, times;
  bool by_id = false;
};
/// Throws kUnsupported where a node has more in-edges than such tables can number.
void require_row_length(std::int64_t node, std::int64_t degree, const RowTables& tables);

}  // namespace hopfeed
