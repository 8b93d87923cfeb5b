// See worker_room.h.
#include "gpu/device/worker_room.h"

#include "core/base/error.h"
#include "gpu/device/cuda_engine.h"

namespace hopfeed::gpu {

std::shared_ptr<DeviceRoom> room_named(const std::string& name, int device) {
  if (name == kCudaRoom) return make_cuda_room(device);
  throw Error(ErrorCode::kInvalid,
              "a worker knows no device '" + name + "'; install loader and hopfeed-worker together");
}

}  // namespace hopfeed::gpu
