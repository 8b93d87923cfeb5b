// See gpu_gather.h: on the first card.
#include "bench/core/gpu_gather.h"

#include "bench/core/gpu_check.cuh"
#include "bench/core/gpu_gather_on.h"
#include "gpu/device/cuda_backend.cuh"
#include "gpu/device/cuda_engine.h"

namespace hopfeed::bench {

GpuGatherRates measure_gpu_gathers(const GpuGatherOptions& options) {
  if (const std::string why = gpu::why_no_gpu(); !why.empty())
    throw Error(ErrorCode::kNotFound,
                "no CUDA card here; gather without --gpu measures this machine's own memory");
  cudaDeviceProp properties{};
  HOPFEED_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  GpuGatherRates rates = GpuGatherMeter<gpu::CudaBackend>(options, {}).measure();
  rates.card = properties.name;
  return rates;
}

}  // namespace hopfeed::bench
