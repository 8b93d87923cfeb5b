// See row_reader.h.
#include "gpu/device/cuda_backend.cuh"
#include "tests/gpu/row_reader.h"

namespace hopfeed::testing {

std::unique_ptr<RowReader> make_cuda_row_reader(const gpu::RowsPlan& plan) {
  return std::make_unique<RowReaderOn<gpu::CudaBackend>>(plan, gpu::CudaBackend::Options{});
}

}  // namespace hopfeed::testing
