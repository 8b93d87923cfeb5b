// A SharedRange is memory of a device that other processes import.
#pragma once
#include <cstddef>

#include "core/base/owned_fd.h"

namespace hopfeed::gpu {

struct SharedRange {
  std::byte* at = nullptr;  // on the device
  OwnedFd fd;               // what they inherit
};

}  // namespace hopfeed::gpu
