// See gpu_made_graph.h: on the first card.
#include "bench/core/gpu_made_graph.h"

#include "bench/core/gpu_check.cuh"
#include "bench/core/gpu_made_graph_on.h"
#include "gpu/device/cuda_backend.cuh"
#include "gpu/device/cuda_engine.h"

namespace hopfeed::bench {

MadeGraphRates measure_made_graph(const MadeGraphOptions& options) {
  if (const std::string why = gpu::why_no_gpu(); !why.empty())
    throw Error(ErrorCode::kNotFound, why + "; --host tries it without a card");
  cudaDeviceProp properties{};
  HOPFEED_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  MadeGraphOptions sized = options;
  std::size_t free = 0, all = 0;
  HOPFEED_CUDA_CHECK(cudaMemGetInfo(&free, &all));
  if (sized.hot_bytes < 0) sized.hot_bytes = static_cast<std::int64_t>(free / gpu::kHotShare);
  MadeGraphRates rates = MadeGraphMeter<gpu::CudaBackend>(sized, {}).measure();
  rates.card = properties.name;
  return rates;
}

}  // namespace hopfeed::bench
