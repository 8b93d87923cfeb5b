// EdgeMembership tells whether an edge of a type joins two nodes: what strict negatives must not be. A long
// row is searched by the order of source ids where the dataset has it (row_order.h); others are read.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/dataset/damaged_row.h"
#include "core/dataset/dataset.h"
#include "core/sampler/row_reader.h"

namespace hopfeed {

class EdgeMembership {
 public:
  /// `dataset` must outlive it.
  EdgeMembership(const Dataset& dataset, int edge_type) : dataset_(dataset), reader_(dataset, edge_type) {}
  /// Returns whether the edge is there; ids are dataset ids in range. O(log degree) where the order is
  /// stored, else O(degree). Throws kCorrupt naming file and row, or the node, where the destination's row is
  /// damaged.
  bool contains(std::int64_t source, std::int64_t destination) const {
    constexpr std::uint64_t kShortRow =
        256;  // read faster than searched: each step of a search waits for memory
    const Row row = reader_.row(destination);
    const ByIdView by_id = dataset_.by_id(reader_.edge_type());
    if (by_id.order.empty() || row.degree <= kShortRow) {
      for (std::uint64_t i = 0; i < row.degree; ++i)
        if (row.neighbor(i) == source) return true;
      return false;
    }
    const CscView& csc = reader_.csc();
    const auto part = static_cast<std::size_t>(partition_of(csc.partition_offsets, destination));
    const std::uint32_t* order = by_id.order[part] + (row.position(0) - csc.parts[part].first_edge);
    std::int64_t wanted = 0;
    dataset_.find_original_ids(csc.src_type, {&source, 1}, &wanted);
    if (wanted < 0) return false;  // with sharded ids the sources of all rows here are known
    std::uint64_t lo = 0, hi = row.degree;
    while (lo < hi) {
      const std::uint64_t mid = (lo + hi) / 2;
      if (order[mid] >= row.degree)
        throw damage_error(dataset_, reader_.edge_type(),
                           {DamagedRow::What::kPosition, 0, 0, row.original_id});
      const std::int64_t node = reader_.neighbor(row, order[mid]);
      if (node == source) return true;
      if (dataset_.original_id(csc.src_type, node) < wanted)
        lo = mid + 1;
      else
        hi = mid;
    }
    return false;
  }
  struct Edge {
    std::int64_t source = 0, destination = 0;  // dataset ids in range
  };
  /// Writes whether each edge is there, as contains() says one by one, with the reads of many under way at
  /// once.
  void contains(std::span<const Edge> edges, char* out) const {
    for (std::size_t i = 0; i < 2 * kAhead; ++i) look_ahead(edges, i);
    for (std::size_t i = 0; i < edges.size(); ++i) {
      look_ahead(edges, i + 2 * kAhead);
      out[i] = contains(edges[i].source, edges[i].destination);
    }
  }
  const RowReader& reader() const { return reader_; }

 private:
  static constexpr std::size_t kAhead = 16;

  /// Has the record of edge i's row fetched, and the beginning of the row whose record was fetched kAhead
  /// edges ago.
  void look_ahead(std::span<const Edge> edges, std::size_t i) const {
    if (i < edges.size()) reader_.prefetch(edges[i].destination);
    if (i < kAhead || i - kAhead >= edges.size()) return;
    constexpr std::uint64_t kLine = 64, kLines = 4;
    const Row row = reader_.row(edges[i - kAhead].destination);
    const std::uint64_t each = kLine / element_bytes(reader_.csc().index_type);
    for (std::uint64_t j = 0; j < std::min(row.degree, kLines * each); j += each) row.prefetch(j);
  }

  const Dataset& dataset_;
  RowReader reader_;
};

}  // namespace hopfeed
