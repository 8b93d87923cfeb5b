// See nccl_module.h.
#include "trainer/nccl_module.h"

#include <c10/cuda/CUDAFunctions.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "core/base/error.h"

extern "C" c10::intrusive_ptr<c10d::Backend> hopfeed_make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, int gpu,
    std::chrono::milliseconds timeout) {
  const int gpus = c10::cuda::device_count();
  if (gpus == 0)
    throw hopfeed::Error(hopfeed::ErrorCode::kUnsupported,
                         "backend nccl: no GPUs found on this machine; use --backend gloo");
  if (gpu >= gpus) {
    throw hopfeed::Error(hopfeed::ErrorCode::kInvalid, "backend nccl: " + std::to_string(gpus) +
                                                           " GPUs, but this trainer would take number " +
                                                           std::to_string(gpu) +
                                                           "; start at most one trainer per GPU");
  }
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}
