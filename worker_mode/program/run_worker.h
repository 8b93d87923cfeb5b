// Runs a sampling worker from its command line to its end: hopfeed-worker, but for the devices that it knows.
#pragma once
#include <memory>
#include <string>

#include "gpu/batches/device_room.h"

namespace hopfeed {

/// Finds the DeviceRoom of that name, on the device of this number. Throws kInvalid for an unknown name.
using RoomNamed = std::shared_ptr<gpu::DeviceRoom> (*)(const std::string& name, int device);

/// Runs the worker, and returns what main() returns. main() calls it first; it may end the process itself.
int run_worker(int argc, char** argv, RoomNamed room_named);

}  // namespace hopfeed
