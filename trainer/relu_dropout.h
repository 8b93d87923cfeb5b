// Does ReLU and dropout in one pass. Torch's dropout draws its random numbers one by one, which took a third
// of a training step; here Torch's generator gives one key per call and each unit hashes its own place, so
// what is dropped is still a function of the generator's state (a checkpoint keeps it), whatever the number
// of threads.
#pragma once
#include <torch/torch.h>

#include "trainer/cpu_kernels.h"

namespace hopfeed {

/// Returns which units a call drops, each with probability `drop`; takes a key from Torch's generator unless
/// that is 0.
DropRule next_drop_rule(double drop);

/// Returns max(x, 0) with each unit dropped with probability `drop` and the rest scaled by 1 / (1 - drop),
/// for x [rows, width]; it is differentiable. Where x is not float32 or float64 on the CPU, or under
/// autocast, it uses Torch's own operations and the generator of x's device.
torch::Tensor relu_dropout(const torch::Tensor& x, double drop);

}  // namespace hopfeed
