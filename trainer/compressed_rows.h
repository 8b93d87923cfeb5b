// CompressedRows are the edges of a batch as compressed rows: row d holds the sources of the edges into node
// d, in the order of the batch.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <utility>

namespace hopfeed {

/// The edges are grouped by destination. A layer uses a prefix of the rows.
struct CompressedRows {
  torch::Tensor rowptr;  // int64 [rows + 1], in the host's memory wherever the edges are
  torch::Tensor col;     // int64 [edges]: local source of each edge, in the order of the rows
  torch::Tensor row =
      {};  // int64 [edges]: its row; undefined where nobody has it, then destinations() makes it

  std::int64_t num_rows() const { return rowptr.size(0) - 1; }
  /// Returns the first `rows` rows; they share memory.
  CompressedRows prefix(std::int64_t rows) const;
  /// Returns the row of each edge, beside `col`.
  torch::Tensor destinations() const;
  /// Returns for each source the destinations of its edges, in the order of the edges (stable counting sort).
  CompressedRows transposed(std::int64_t num_sources) const;
};

/// FilledRows are the rows that have edges, and which they are: few of all, where an edge type is rare.
struct FilledRows {
  CompressedRows rows;
  torch::Tensor ids;     // int64 [rows], rising, in the host's memory
  torch::Tensor places;  // the same beside the edges

  explicit FilledRows(const CompressedRows& all);
  /// Returns the filled rows below `end`; they share memory.
  FilledRows below(std::int64_t end) const;
  bool empty() const { return ids.size(0) == 0; }

 private:
  FilledRows(CompressedRows some, torch::Tensor which, torch::Tensor where)
      : rows(std::move(some)), ids(std::move(which)), places(std::move(where)) {}
};

/// Makes rows from PyG's edge_index (int64 [2, E], in the host's memory: row 0 sources, row 1 destinations,
/// non-decreasing), for destinations 0 .. num_rows - 1 and sources below num_sources. `col` and `row` are
/// views of edge_index. Throws kCorrupt where an id is out of range or destinations fall.
CompressedRows compress_rows(const torch::Tensor& edge_index, std::int64_t num_rows,
                             std::int64_t num_sources);

}  // namespace hopfeed
