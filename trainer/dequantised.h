// Reads rows with a scale (core/base/quantised_rows.h) as a float32 tensor.
#pragma once
#include <torch/torch.h>

#include "core/base/quantised_rows.h"

namespace hopfeed {

/// Returns the values of rows of a batch, in memory of the pool (tensor_pool.h), by as many threads as Torch
/// computes with. `shape` has rows.count * rows.elements elements.
torch::Tensor dequantised(const QuantisedRows& rows, c10::IntArrayRef shape);
/// Returns the values of rows on any device, by Torch's operations and to the same bits: `rows` is uint8
/// [count, row bytes].
torch::Tensor dequantised(ElementType type, const torch::Tensor& rows, c10::IntArrayRef shape);

}  // namespace hopfeed
