// Stands in for gpu_made_graph.cu where hopfeed-bench is built without CUDA.
#include "bench/core/gpu_made_graph.h"
#include "core/base/error.h"

namespace hopfeed::bench {

MadeGraphRates measure_made_graph(const MadeGraphOptions&) {
  throw Error(ErrorCode::kUnsupported,
              "this hopfeed-bench was built without CUDA; configure with -DHOPFEED_CUDA=ON where nvcc is, or "
              "give --host");
}

}  // namespace hopfeed::bench
