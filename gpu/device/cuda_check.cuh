// Turns what a call of CUDA has come to into an Error of ours.
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "core/base/error.h"
#include "gpu/memory/found_gpus.h"

namespace hopfeed::gpu {

/// Returns whether the device of this thread may be used by one process at a time.
inline bool is_exclusive() {
  int device = 0, mode = cudaComputeModeDefault;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, device) == cudaSuccess &&
         mode == cudaComputeModeExclusiveProcess;
}

/// Throws what a call of CUDA has come to. `bytes` is what it was to take, where memory may be short.
inline void check_cuda(cudaError_t status, const std::string& call, std::size_t bytes = 0) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not meet it again
  std::string message = call + (bytes == 0 ? "" : " of " + std::to_string(bytes) + " bytes") + ": " +
                        cudaGetErrorString(status);
  if (status == cudaErrorDevicesUnavailable)
    throw Error(ErrorCode::kNotFound,
                is_exclusive() ? taken_by_another()
                               : message + "; see what runs there (nvidia-smi), or take graph mode cpu");
  if (status == cudaErrorNoKernelImageForDevice)
    throw Error(ErrorCode::kNotFound, message +
                                          "; build hopfeed for this GPU "
                                          "(-DCMAKE_CUDA_ARCHITECTURES=native), or take graph mode cpu");
  if (status != cudaErrorMemoryAllocation) {
    // If every later call has the error too, it is one of the process.
    if (cudaDeviceSynchronize() == cudaSuccess) throw Error(ErrorCode::kIo, message);
    throw BrokenProcess(ErrorCode::kIo, message + "; this process cannot use the GPU any more");
  }
  std::size_t free = 0, all = 0;
  if (cudaMemGetInfo(&free, &all) == cudaSuccess)
    message += " (" + std::to_string(free) + " of " + std::to_string(all) + " bytes are free)";
  throw Error(ErrorCode::kNoSpace, message + "; lower " + marked("batch_size") +
                                       " or the fanouts, or take graph mode uva in place of cuda, or cpu");
}
#define HOPFEED_CUDA(call) ::hopfeed::gpu::check_cuda(call, #call)

}  // namespace hopfeed::gpu
