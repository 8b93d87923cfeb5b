// Whether an edge joins two nodes: searched in a long row by the order of source ids where the dataset has it (by_id_order.h), read in
// others.
#pragma once
#include <cstdint>

#include "core/damaged_row.h"
#include "core/dataset.h"
#include "core/row_reader.h"

namespace hopfeed {

/// Whether an edge of the reader's type joins two nodes, dataset ids in range: O(log degree) where the order is stored, else
/// O(degree). Throws kCorrupt naming the file or the node where the destination's row is damaged.
inline bool has_edge(const Dataset& dataset, const RowReader& reader, std::int64_t source,
                     std::int64_t destination) {
  constexpr std::uint64_t kShortRow =
      256;  // read faster than searched: each step of a search waits for memory
  const Row row = reader.row(destination);
  const ByIdView by_id = dataset.by_id(reader.edge_type());
  if (by_id.order.empty() || row.degree <= kShortRow) {
    for (std::uint64_t i = 0; i < row.degree; ++i)
      if (row.neighbor(i) == source) return true;
    return false;
  }
  const CscView& csc = reader.csc();
  const auto part = static_cast<std::size_t>(partition_of(csc.partition_offsets, destination));
  const std::uint32_t* order = by_id.order[part] + (row.position(0) - csc.parts[part].first_edge);
  const std::int64_t wanted = dataset.original_id(csc.src_type, source);
  std::uint64_t lo = 0, hi = row.degree;
  while (lo < hi) {
    const std::uint64_t mid = (lo + hi) / 2;
    if (order[mid] >= row.degree)
      throw damage_error(dataset, reader.edge_type(), {DamagedRow::What::kPosition, 0, 0, row.original_id});
    const std::int64_t node = reader.neighbor(row, order[mid]);
    if (node == source) return true;
    if (dataset.original_id(csc.src_type, node) < wanted)
      lo = mid + 1;
    else
      hi = mid;
  }
  return false;
}

}  // namespace hopfeed
