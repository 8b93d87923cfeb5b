// Samplers and kernels see a graph in memory as these plain views. The owner of the memory is Dataset
// (dataset.h). A compressed sparse column (CSC) matrix per edge type holds the in-neighbours of each
// destination node, in imported order.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/element_type.h"
#include "core/dataset/alias_entry.h"
#include "core/dataset/row_record.h"

namespace hopfeed {

/// A CscPart has the rows of one partition; null where it is not on this machine (Dataset::has_partition).
/// `indices` are source nodes as dataset ids (global over all partitions).
struct CscPart {
  const RowRecord* rows = nullptr;  // [num_rows + 1]
  const void* indices = nullptr;    // [num_edges] int32 or int64 (CscView::index_type)
  const void* edge_ids = nullptr;  // [num_edges] int32 or int64 (CscView::edge_id_type), or null: position of
                                   // the edge in the import
  std::int64_t num_rows = 0;
  std::int64_t num_edges = 0;
  std::int64_t first_edge = 0;  // edges of the partitions before it
};

/// OriginalIds are the original ids of the nodes of one type in one partition, in the dataset's order: node
/// i's is first[i * stride].
struct OriginalIds {
  const std::int64_t* first = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 1;  // in row records 2
};

/// A CscView is one edge type over all partitions. Halos, where there are some (Dataset::num_parts), are
/// partitions P and on here and in the views below, with ids behind those of all nodes, or edges.
struct CscView {
  std::span<const CscPart> parts;  // [P]
  std::span<const std::int64_t>
      partition_offsets;  // [P + 1], of the destination node type: the partition book
  std::int64_t num_src_nodes = 0;
  std::int64_t num_dst_nodes = 0;
  std::int64_t num_edges = 0;
  int src_type = 0, dst_type = 0;  // node type numbers
  ElementType index_type = ElementType::kInt32;
  ElementType edge_id_type = ElementType::kInt32;
  bool has_edge_ids = false;
};

/// Returns how far the entries of stored alias tables are apart. Behind each come two source nodes (indices
/// of so many bytes), so that a draw reads one place of memory and not two: the edge's own, and the alias's.
constexpr std::size_t alias_entry_bytes(std::size_t index_bytes) {
  return sizeof(AliasEntry) + 2 * index_bytes;
}

/// AliasTableView is a row's alias table.
struct AliasTableView {
  const std::byte* first = nullptr;
  std::size_t count = 0;
  std::size_t entry_bytes = sizeof(AliasEntry);  // or alias_entry_bytes

  const AliasEntry& operator[](std::size_t i) const {
    return *reinterpret_cast<const AliasEntry*>(first + i * entry_bytes);
  }
};

/// WeightView has the alias tables of one weight.
struct WeightView {
  std::span<const std::byte* const> parts;  // [P] entry of the partition's first edge
  std::size_t entry_bytes = sizeof(AliasEntry);

  /// Returns the table of a row of `count` edges that begins at edge `begin` of the partition.
  AliasTableView table(std::size_t part, std::int64_t begin, std::size_t count) const {
    return {.first = parts[part] + static_cast<std::size_t>(begin) * entry_bytes,
            .count = count,
            .entry_bytes = entry_bytes};
  }
};

/// TimeView has the rows of one edge type in the order of time: entry i of a row's stretch is the i-th
/// earliest edge.
struct TimeView {
  std::span<const std::int64_t> bounds;         // what codes count (time_codes.h)
  std::span<const std::int16_t* const> codes;   // [P] of the time of that edge
  std::span<const std::uint32_t* const> order;  // [P] position in the row; equal times in imported order
  std::span<const std::int64_t* const> times;   // [P] time of that edge, or of its source node
  std::span<const std::byte* const> indices;    // [P] source node of that edge; type as CscView::index_type
};

/// ByIdView has the rows of one edge type in the order of source ids (row_order.h).
struct ByIdView {
  std::span<const std::uint32_t* const> order;  // [P] position in the row; empty: it is not stored
};

/// AttrView is one attribute of nodes or edges over all partitions: row i of partition p lies at parts[p] + i
/// * stride_bytes.
struct AttrView {
  std::span<const std::byte* const> parts;          // [P]
  std::span<const std::int64_t> partition_offsets;  // [P + 1] of the nodes, or of the edges
  ElementType type = ElementType::kFloat32;
  std::int64_t row_bytes = 0;  // without padding
  std::int64_t stride_bytes = 0;
  std::int64_t row_elements = 0;
};

/// Returns which partition owns a node: the last p with offsets[p] <= id. O(log P); the caller has checked
/// the range.
inline int partition_of(std::span<const std::int64_t> offsets, std::int64_t id) {
  int lo = 0, hi = static_cast<int>(offsets.size()) - 1;
  while (hi - lo > 1) {
    const int mid = (lo + hi) / 2;
    (id >= offsets[mid] ? lo : hi) = mid;
  }
  return lo;
}

}  // namespace hopfeed
