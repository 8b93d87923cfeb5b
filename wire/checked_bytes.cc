// See checked_bytes.h.
#include "wire/checked_bytes.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "wire/crc32c.h"

namespace hopfeed::wire {

std::uint32_t checksum_of(std::uint64_t request, std::span<const std::byte> bytes) {
  return crc32c(crc32c(0, std::as_bytes(std::span(&request, 1))), bytes);
}

void require_checksum(std::span<const std::byte> bytes, std::uint64_t request, const char* peer) {
  if (bytes.size() < kCheckedTail)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has sent {} bytes, too few for a checksum", peer, bytes.size()));
  std::uint32_t tail[2];
  const std::span<const std::byte> checked = bytes.first(bytes.size() - kCheckedTail);
  std::memcpy(tail, checked.data() + checked.size(), kCheckedTail);
  const std::uint32_t found = checksum_of(request, checked);
  if (found == tail[0] && tail[1] == 0) return;
  throw Error(ErrorCode::kCorrupt,
              fmt::format("the bytes that {} has sent have checksum {:08x}, and it says {:08x}; "
                          "look at the network between",
                          peer, found, tail[0]));
}

}  // namespace hopfeed::wire
