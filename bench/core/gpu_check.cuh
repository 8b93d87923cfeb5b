// Checks each CUDA call: a failure becomes an Error that names the call.
#pragma once
#include <cuda_runtime.h>

#include <string>

#include "core/base/error.h"

namespace hopfeed::bench {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw Error(ErrorCode::kIo, std::string(call) + ": " + cudaGetErrorString(status));
}

}  // namespace hopfeed::bench

#define HOPFEED_CUDA_CHECK(call) ::hopfeed::bench::check((call), #call)
