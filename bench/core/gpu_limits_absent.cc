// Stands in for gpu_limits.cu where hopfeed-bench is built without CUDA.
#include "bench/core/gpu_limits.h"
#include "core/base/error.h"

namespace hopfeed::bench {

GpuLimits measure_gpu_limits(const GpuLimitOptions&) {
  throw Error(ErrorCode::kUnsupported,
              "this hopfeed-bench was built without CUDA; configure with -DHOPFEED_CUDA=ON where nvcc is");
}

}  // namespace hopfeed::bench
