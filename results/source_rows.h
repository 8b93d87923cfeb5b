// SourceRows are the rows that edges lead to: of all nodes of a type in this machine's partitions, where they
// are mapped, and of the nodes elsewhere that edges of these partitions come from (the boundary), one behind
// the other by rising id.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/ranked_set.h"
#include "core/dataset/graph_view.h"
#include "core/dataset/row_places.h"

namespace hopfeed {

/// SourceRows is a view.
struct SourceRows {
  ElementType type = ElementType::kFloat32;
  std::int64_t width = 0;  // elements of a row
  RowTable table;          // its arrays are the partitions, and what lies elsewhere is the boundary
};

/// RowsOfPart are the rows [begin, end) of a partition whose means are wanted.
struct RowsOfPart {
  int part = 0;
  std::int64_t begin = 0, end = 0;
};

/// Adds to `boundary` the sources of a partition's edges that are in partitions that are not `here`. Throws
/// kCorrupt naming the rows where an edge comes from no node.
void add_boundary(const CscView& csc, int part, const std::vector<bool>& here,
                  const std::vector<std::int64_t>& source_offsets, RankedSet& boundary);

/// Writes the mean of each row's sources, float32, to out + i * out_stride (elements): summed in the order of
/// the edges, 0 where there are none. Throws kCorrupt naming the rows where offsets or ids are outside the
/// graph.
void mean_of_sources(const SourceRows& sources, const CscView& csc, const RowsOfPart& rows, float* out,
                     std::int64_t out_stride);

/// Writes a stored row as float32.
void decode_row(ElementType type, std::int64_t width, const std::byte* row, float* out);

}  // namespace hopfeed
