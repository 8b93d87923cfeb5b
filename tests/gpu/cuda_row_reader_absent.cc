// Stands in for cuda_row_reader.cu where hopfeed is built without CUDA.
#include "core/base/error.h"
#include "tests/gpu/row_reader.h"

namespace hopfeed::testing {

std::unique_ptr<RowReader> make_cuda_row_reader(const gpu::RowsPlan&) {
  throw Error(ErrorCode::kNotFound, "built without CUDA");
}

}  // namespace hopfeed::testing
