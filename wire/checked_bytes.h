// The checksum at the end of questions and answers between machines that have partitions: crc32c of the
// request's number and of all before it, and four zeros, so that their length stays a multiple of 8.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace hopfeed::wire {

inline constexpr std::size_t kCheckedTail = 8;

std::uint32_t checksum_of(std::uint64_t request, std::span<const std::byte> bytes);
/// Throws kCorrupt naming `peer` where the last bytes are not the checksum of the others.
void require_checksum(std::span<const std::byte> bytes, std::uint64_t request, const char* peer);

/// Bytes that have room for it are not moved.
template <class Bytes>
void add_checksum(Bytes& bytes, std::uint64_t request) {
  const std::uint32_t tail[2] = {checksum_of(request, bytes), 0};
  const std::size_t at = bytes.size();
  bytes.resize(at + kCheckedTail);
  std::memcpy(bytes.data() + at, tail, kCheckedTail);
}
/// Checks it, and takes it off.
template <class Bytes>
void take_checksum(Bytes& bytes, std::uint64_t request, const char* peer) {
  require_checksum(bytes, request, peer);
  bytes.resize(bytes.size() - kCheckedTail);
}

}  // namespace hopfeed::wire
