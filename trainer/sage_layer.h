// This is a GraphSAGE layer (mean aggregation, two linear maps, ReLU, dropout) in one piece, forward and
// backward:
//
//   out_v = activation(W_l * mean(x_u, u in-neighbour of v) + b + W_r * x_v)
//
// Composed of Torch's operations it goes through memory a dozen times, matrices of a hundred megabytes each;
// here runs of rows that fit into the second-level cache go through all of it at once, the matrix products by
// Torch's BLAS. Which rows make a run, and the order in which runs are summed, depends on the layer's widths
// and rows alone: the same bits come out for any number of threads.
//
// That is for the CPU. On other devices, and under autocast, the layer is composed_sage_layer(), the same by
// Torch's operations.
#pragma once
#include <torch/torch.h>

#include "trainer/compressed_rows.h"

namespace hopfeed {

/// SageWeights are a layer's parameters, as in PyG's SAGEConv.
struct SageWeights {
  torch::Tensor neighbours;  // lin_l.weight [out, in]
  torch::Tensor bias;        // lin_l.bias [out]
  torch::Tensor self;        // lin_r.weight [out, in]
};

/// Activation is what follows a layer's linear maps.
struct Activation {
  bool relu = false;
  double drop = 0;  // with relu: share of units dropped, the rest scaled by 1 / (1 - drop)
};

/// Maps x [sources, in] -> [rows, out]; row i is node i. It is differentiable in x and the weights.
torch::Tensor sage_layer(const torch::Tensor& x, const CompressedRows& rows, const SageWeights& weights,
                         const Activation& activation);
torch::Tensor composed_sage_layer(const torch::Tensor& x, const CompressedRows& rows,
                                  const SageWeights& weights, const Activation& activation);

}  // namespace hopfeed
