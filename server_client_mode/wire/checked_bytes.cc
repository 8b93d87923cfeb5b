// See checked_bytes.h.
#include "server_client_mode/wire/checked_bytes.h"

#include <fmt/format.h>

#include <cstring>

#include "core/base/error.h"
#include "server_client_mode/wire/crc32c.h"

namespace hopfeed::wire {

void add_checksum(std::vector<std::byte>& bytes) {
  const std::uint32_t tail[2] = {crc32c(0, bytes), 0};
  const std::size_t at = bytes.size();
  bytes.resize(at + kCheckedTail);
  std::memcpy(bytes.data() + at, tail, kCheckedTail);
}

void take_checksum(std::vector<std::byte>& bytes, const char* peer) {
  if (bytes.size() < kCheckedTail)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has sent {} bytes, too few for a checksum", peer, bytes.size()));
  std::uint32_t tail[2];
  const std::size_t at = bytes.size() - kCheckedTail;
  std::memcpy(tail, bytes.data() + at, kCheckedTail);
  bytes.resize(at);
  const std::uint32_t found = crc32c(0, bytes);
  if (found == tail[0] && tail[1] == 0) return;
  throw Error(ErrorCode::kCorrupt,
              fmt::format("the bytes that {} has sent have checksum {:08x}, and it says {:08x}; "
                          "look at the network between",
                          peer, found, tail[0]));
}

}  // namespace hopfeed::wire
