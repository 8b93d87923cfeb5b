// A worker program for tests: hopfeed-worker that also knows the devices of fake_room.h.
#include <memory>
#include <string>

#include "core/base/error.h"
#include "gpu/device/worker_room.h"
#include "tests/gpu/fake_room.h"
#include "worker_mode/program/run_worker.h"

namespace hopfeed {
namespace {

std::shared_ptr<gpu::DeviceRoom> room_named(const std::string& name, int device) {
  std::shared_ptr<gpu::DeviceRoom> fake = gpu::make_fake_room(name);
  if (fake && device >= gpu::kFakeDevices)
    throw Error(ErrorCode::kNotFound, "there is no GPU " + std::to_string(device) + ", only " +
                                          std::to_string(gpu::kFakeDevices) +
                                          " counted from 0; change worker_devices or CUDA_VISIBLE_DEVICES");
  return fake ? fake : gpu::room_named(name, device);
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) { return hopfeed::run_worker(argc, argv, hopfeed::room_named); }
