// CRC-32C (Castagnoli), as iSCSI, ext4 and leveldb have it: 0xE3069283 of "123456789".
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace hopfeed::wire {

/// The checksum of what `before` is the checksum of (0: of nothing), followed by `bytes`.
std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes);

}  // namespace hopfeed::wire
