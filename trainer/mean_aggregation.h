// Mean over in-neighbours as a segment reduction over compressed rows: row d of the result is the mean of
// x[col[k]] for k in [rowptr[d], rowptr[d + 1]), zero where the row is empty. PyG writes the same as
// index_select and scatter_reduce, which stores every message; here each message is read once and added in
// registers or L1.
//
// Sums are taken in the order of the edges, whatever the number of threads: forward over the rows, backward
// over the rows of the transposed matrix, which a stable counting sort makes. No atomics, so a resumed run
// gives the same bits.
#pragma once
#include <torch/torch.h>

#include <cstdint>

namespace hopfeed {

/// The edges of a batch, grouped by destination. A layer uses a prefix of the rows.
struct CompressedRows {
  torch::Tensor rowptr;  // int64 [rows + 1]
  torch::Tensor col;     // int64 [edges]: local source of each edge, in the order of the rows

  std::int64_t num_rows() const { return rowptr.size(0) - 1; }
  /// The first `rows` rows; shares memory.
  CompressedRows prefix(std::int64_t rows) const;
};

/// From PyG's edge_index (int64 [2, E]: row 0 sources, row 1 destinations, non-decreasing), for destinations
/// 0 .. num_rows - 1 and sources below num_sources. `col` is a view of edge_index. Throws kCorrupt where an
/// id is out of range or destinations fall.
CompressedRows compress_rows(const torch::Tensor& edge_index, std::int64_t num_rows,
                             std::int64_t num_sources);

/// x [sources, F], float32 or float64 -> [rows, F]. Differentiable in x.
torch::Tensor mean_aggregate(const torch::Tensor& x, const CompressedRows& rows);

}  // namespace hopfeed
