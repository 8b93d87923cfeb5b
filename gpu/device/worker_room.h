// Finds the device that a worker makes batches on, by the name that its loader's DeviceRoom has
// (DeviceRoom::name).
#pragma once
#include <memory>
#include <string>

#include "gpu/batches/device_room.h"

namespace hopfeed::gpu {

/// Returns the DeviceRoom of that name, on the device of this number. Throws kInvalid for an unknown name,
/// and what make_cuda_room() throws.
std::shared_ptr<DeviceRoom> room_named(const std::string& name, int device);

}  // namespace hopfeed::gpu
