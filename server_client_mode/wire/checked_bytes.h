// The checksum at the end of questions and answers between machines that have partitions: crc32c of all
// before it, and four zeros, so that their length stays a multiple of 8.
#pragma once
#include <cstddef>
#include <vector>

namespace hopfeed::wire {

inline constexpr std::size_t kCheckedTail = 8;

void add_checksum(std::vector<std::byte>& bytes);
/// Takes it off. Throws kCorrupt naming `peer` where it is not that of the bytes.
void take_checksum(std::vector<std::byte>& bytes, const char* peer);

}  // namespace hopfeed::wire
