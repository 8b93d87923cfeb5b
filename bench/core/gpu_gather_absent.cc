// Stands in for gpu_gather.cu where hopfeed-bench is built without CUDA.
#include "bench/core/gpu_gather.h"
#include "core/base/error.h"

namespace hopfeed::bench {

GpuGatherRates measure_gpu_gathers(const GpuGatherOptions&) {
  throw Error(ErrorCode::kUnsupported,
              "this hopfeed-bench was built without CUDA; configure with -DHOPFEED_CUDA=ON where nvcc is");
}

}  // namespace hopfeed::bench
