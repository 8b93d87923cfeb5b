// A RowTable finds rows of all nodes of a type that lie in several arrays, as files of a dataset's partitions
// and of layers' shards do: rows are copied by their ids, or reduced over in-edges.
//
// A reduction reads a row for each edge, at places that no cache knows: rows are asked for some edges before
// they are added, as sampling does (core/sampler/row_pipeline.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/element_type.h"
#include "core/base/ranked_set.h"

namespace hopfeed {

/// RowTable is a view: array s has the rows [starts[s], starts[s + 1]), `stride` bytes apart. Of rows that no
/// array has (address 0), some lie together elsewhere, by rising id.
struct RowTable {
  std::span<const std::int64_t> starts;   // rising, one more than arrays
  std::span<const std::uint64_t> arrays;  // addresses
  std::size_t stride = 0;
  const RankedSet* elsewhere = nullptr;  // ids of those; null: each array has an address
  const std::byte* elsewhere_rows = nullptr;
  std::size_t elsewhere_stride = 0;
};

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
