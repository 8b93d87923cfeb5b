// NeighbourRows are the in-neighbours of a graph's nodes for passes that read them row after row: held in
// memory, or made anew by each pass, so that a graph which is a function of its seed never lies in memory.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/parallel_ranges.h"

namespace hopfeed {

/// Fills `out` (as long as the row) with the in-neighbours of `row`. Called from several threads, in any
/// order.
template <class Id>
using MakeRow = std::function<void(std::int64_t row, std::span<Id> out)>;

/// They are node ids of either width: all rows one behind the other, or what makes one.
using NeighbourRows = std::variant<std::span<const std::int32_t>, std::span<const std::int64_t>,
                                   MakeRow<std::int32_t>, MakeRow<std::int64_t>>;

/// A pass holds so much of a graph: consecutive rows, where they begin told by `indptr`.
inline constexpr std::int64_t kRowBlockEdges = 1 << 20, kRowBlockRows = 1 << 16;

/// Calls body(first, last, ids) for blocks of rows that tile all rows in order; row r of a block is
/// ids[indptr[r] - indptr[first]) and on. A block has at most kRowBlockEdges edges, or one row. Rows that are
/// not wanted(r) are not made.
template <class Wanted, class Body>
void for_row_blocks(std::span<const std::int64_t> indptr, const NeighbourRows& rows, int threads,
                    const Wanted& wanted, const Body& body) {
  const std::int64_t num_rows = std::ssize(indptr) - 1;
  const auto block_end = [&](std::int64_t first) {
    const auto begin = indptr.begin() + first + 1,
               end = indptr.begin() + std::min(num_rows, first + kRowBlockRows) + 1;
    return first +
           std::max<std::int64_t>(1, std::upper_bound(begin, end, indptr[first] + kRowBlockEdges) - begin);
  };
  const auto pass = [&](auto read) {
    for (std::int64_t first = 0, last; first < num_rows; first = last) {
      last = block_end(first);
      body(first, last, read(first, last));
    }
  };
  std::visit(
      [&]<class Rows>(const Rows& source) {
        if constexpr (requires { source.data(); }) {
          pass([&](std::int64_t first, std::int64_t last) {
            return source.subspan(indptr[first], indptr[last] - indptr[first]);
          });
        } else {
          using Id =
              std::conditional_t<std::is_same_v<Rows, MakeRow<std::int32_t>>, std::int32_t, std::int64_t>;
          std::vector<Id> block;
          pass([&](std::int64_t first, std::int64_t last) {
            block.resize(indptr[last] - indptr[first]);
            parallel_ranges(threads, last - first, [&](int, std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = first + begin; row < first + end; ++row) {
                if (!wanted(row)) continue;
                source(row,
                       std::span(block).subspan(indptr[row] - indptr[first], indptr[row + 1] - indptr[row]));
              }
            });
            return std::span<const Id>(block);
          });
        }
      },
      rows);
}

}  // namespace hopfeed
