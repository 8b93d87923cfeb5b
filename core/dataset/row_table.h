// Rows of a RowTable are copied by their ids, or reduced over in-edges.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/element_type.h"
#include "core/dataset/row_places.h"

namespace hopfeed {

/// Copies the rows of `ids` to `out`, `bytes` of each. Throws kCorrupt where there is no such row.
void gather_rows(const RowTable& table, std::span<const std::int64_t> ids, std::size_t bytes, std::byte* out);

/// What a row's neighbours become.
enum class Reduction : std::uint8_t { kSum, kMax, kMin };

/// InEdges are those of consecutive rows: row r's are the edges [offsets[r], offsets[r + 1]).
struct InEdges {
  std::span<const std::int64_t> offsets;
  const void* sources = nullptr;           // of edge 0
  std::int64_t count = 0;                  // that lie there
  ElementType type = ElementType::kInt32;  // or kInt64
  std::string path = {};                   // names them in errors
};

/// Reduces the rows of each row's sources, `width` numbers each, into what `out` has of it. `weights` are of
/// the edges from offsets.front() on, or null. What it gives does not depend on `threads`. Throws kCorrupt
/// naming edges that are outside the graph, or the first row that lies nowhere. Number is float or double.
template <class Number>
void reduce_rows(const RowTable& table, const InEdges& edges, const Number* weights, Reduction reduction,
                 std::size_t width, Number* out, std::size_t threads);

}  // namespace hopfeed
