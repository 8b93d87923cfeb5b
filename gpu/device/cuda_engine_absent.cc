// Stands in for cuda_engine.cu where hopfeed is built without CUDA.
#include "core/base/error.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/memory/registered_memory.h"

namespace hopfeed::gpu {

std::string why_no_gpu(int /*device*/) {
  return "this hopfeed was built without CUDA; configure with -DHOPFEED_CUDA=ON where nvcc is, or take graph "
         "mode cpu";
}

UsableGpu usable_gpu(int device) { throw Error(ErrorCode::kNotFound, why_no_gpu(device)); }

std::unique_ptr<HopEngine> make_cuda_engine(const EnginePlan& /*plan*/) {
  throw Error(ErrorCode::kNotFound, why_no_gpu());
}

void pin_memory(void* /*at*/, std::size_t /*bytes*/) { throw Error(ErrorCode::kNotFound, why_no_gpu()); }
void unpin_memory(void* /*at*/) noexcept {}
std::unique_ptr<const StreamMark> mark_stream(GpuStream /*stream*/) {
  throw Error(ErrorCode::kNotFound, why_no_gpu());
}
std::optional<int> memory_node_of_gpu(int /*device*/) { return {}; }

std::shared_ptr<DeviceRoom> make_cuda_room(int /*device*/) {
  throw Error(ErrorCode::kNotFound, why_no_gpu());
}

}  // namespace hopfeed::gpu
