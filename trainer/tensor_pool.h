// The tensor pool uses memory of large tensors again. A training step makes the same few tensors of a hundred
// megabytes each time; from Torch's allocator they come as fresh 4 KiB pages, and their page faults cost as
// much as the arithmetic (measured: half of a GraphSAGE step). Here a tensor's memory, on 2 MiB pages where
// the machine gives them, goes to the next one when it is gone.
#pragma once
#include <torch/torch.h>

#include <cstddef>

namespace hopfeed {

/// Returns a dense tensor on the CPU, its content undefined: whatever was there before. Small ones come from
/// Torch. Any thread may ask for one and drop it.
torch::Tensor pooled_tensor(c10::IntArrayRef shape, torch::Dtype dtype);

struct TensorPoolStats {
  std::size_t used_bytes = 0;  // held by tensors now
  std::size_t free_bytes =
      0;  // kept for the next ones; with the used never more than 1.5 times what was used at once
  std::size_t peak_bytes = 0;  // most used at once since the start or the last release
};
TensorPoolStats tensor_pool_stats();

/// Gives what is kept for the next tensors back to the system, before something that needs the memory for
/// itself. What tensors hold stays theirs.
void release_tensor_pool();

}  // namespace hopfeed
