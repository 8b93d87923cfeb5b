// See worker_room.h.
#include "gpu/device/worker_room.h"

#include "core/base/error.h"
#include "gpu/device/cuda_engine.h"
#ifdef HOPFEED_FAILPOINTS
#include "gpu/device/fake_room.h"
#endif

namespace hopfeed::gpu {

std::shared_ptr<DeviceRoom> room_named(const std::string& name, int device) {
  if (name == kCudaRoom) return make_cuda_room(device);
#ifdef HOPFEED_FAILPOINTS
  require_device(device, kFakeDevices);
  if (std::shared_ptr<DeviceRoom> room = make_fake_room(name)) return room;
#endif
  throw Error(ErrorCode::kInvalid,
              "a worker knows no device '" + name + "'; install loader and hopfeed-worker together");
}

}  // namespace hopfeed::gpu
