// The mean over in-neighbours is a segment reduction over compressed rows: row d of the result is the mean of
// x[col[k]] for k in [rowptr[d], rowptr[d + 1]), zero where the row is empty. PyG writes the same as
// index_select and scatter_reduce, which stores every message; here each message is read once and added in
// registers or L1.
//
// Sums are taken in the order of the edges, whatever the number of threads: forward over the rows, backward
// over the rows of the transposed matrix. No atomics, so a resumed run gives the same bits.
#pragma once
#include <torch/torch.h>

#include "trainer/compressed_rows.h"

namespace hopfeed {

/// Returns the means: x [sources, F] -> [rows, F]. It is differentiable in x, and for layers of one's own
/// (sage_layer.h has GraphSAGE's in one piece). What is said of sums holds for float32 and float64 on the
/// CPU; elsewhere, and under autocast, it is composed_mean().
torch::Tensor mean_aggregate(const torch::Tensor& x, const CompressedRows& rows);
/// Returns the means by Torch's own operations, on any device: every message is stored. Half floats are
/// summed in float32, which is then the result's type. On GPUs sums are taken in any order, unless Torch is
/// told to be deterministic (numerics.h).
torch::Tensor composed_mean(const torch::Tensor& x, const CompressedRows& rows);

}  // namespace hopfeed
