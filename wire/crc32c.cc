// See crc32c.h. ISA-L computes it, and leaves out the two complements that the standard has.
#include "wire/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace hopfeed::wire {

std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;  // its length is an int
  std::uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kLargest));
    // It only reads, and lacks the const.
    auto* const data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    crc = crc32_iscsi(data, static_cast<int>(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace hopfeed::wire
