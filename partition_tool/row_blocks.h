// Gives the rows of a partition in the order on disk, block by block, to the writers of the arrays beside
// them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/dataset/graph_view.h"
#include "partition_tool/node_order.h"

namespace hopfeed {

struct RowBlock {
  std::vector<RowRecord> rows;  // consecutive ones
  std::int64_t first_edge = 0, end_edge = 0;
  std::int64_t num_edges() const { return end_edge - first_edge; }
  /// Returns where row i ends, as an offset in the partition.
  std::int64_t end_of(std::int64_t i) const {
    return i + 1 < std::ssize(rows) ? rows[i + 1].offset : end_edge;
  }
};

/// Calls body(block) for blocks that tile the partition in order. A block ends behind the row that reaches
/// `block_edges`, so that it holds less than one row more than that.
template <class Body>
void for_blocks_in_order(std::span<const std::int64_t> indptr, const NodeOrder& order, int partition,
                         std::int64_t block_edges, const Body& body) {
  constexpr std::int64_t kBlockRows = 1 << 16;
  RowBlock block;
  const std::int64_t end = order.partition_offsets[partition + 1];
  for (std::int64_t next = order.partition_offsets[partition]; next < end;) {
    block.rows.clear();
    block.first_edge = block.end_edge;
    while (next < end && std::ssize(block.rows) < kBlockRows && block.num_edges() < block_edges) {
      const std::int64_t original = order.original[next++];
      block.rows.push_back({block.end_edge, original});
      block.end_edge += indptr[original + 1] - indptr[original];
    }
    body(block);
  }
}

}  // namespace hopfeed
