// Makes devices for tests, whose memory is a memfd that workers inherit (host_backend.h). The program
// fake_room_worker, in place of hopfeed-worker, takes them by name:
//
//   "forward", "shuffled", "threads"   order of a kernel's items
//   "lingering MS"                     the kernels of a worker that is killed go on for so long
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/batches/device_room.h"

namespace hopfeed::gpu {

inline constexpr int kFakeDevices = 8;

inline AvailableMemory plenty_of_memory() { return {std::uint64_t{1} << 40, "a test"}; }

/// Returns the DeviceRoom of a name above, null for any other name. `available` is the memory that it says is
/// free.
std::shared_ptr<DeviceRoom> make_fake_room(const std::string& name,
                                           AvailableMemory (*available)() = plenty_of_memory);

}  // namespace hopfeed::gpu
