// A packed block is a batch without the rows that its consumer holds (held_share.h). It is laid out as the
// block of the whole batch (batch_layout.h), with three differences: its magic; node attributes of a type
// carry the rows that the consumer lacks alone; and two arrays per such type come last in the table:
//
//   .held_bits   uint8 [ceil(nodes / 8)]   bit i % 8 of byte i / 8: node i's rows are held
//   .held_rows   uint32 [held nodes]       for each of them which of the held rows of the type, numbered
//                                          through the partitions
//
// It lives between who makes a batch and who holds the rows, and is never stored or hashed.
// HeldRows::complete (cache/held_rows.h) gives the block of the whole batch, byte for byte.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/batch/batch_layout.h"

namespace hopfeed {

inline constexpr std::uint64_t kPackedMagic = 0x314B434150504F48;  // "HOPPACK1"

/// A node type has at most so many held rows, since .held_rows has 32 bits for each.
inline constexpr std::int64_t kMaxHeldRows = std::int64_t{1} << 32;

// No attribute can have such a name: they are names of files.
inline constexpr std::string_view kHeldBits = ".held_bits", kHeldRows = ".held_rows";

/// Returns whether an array of a sampler's own would be taken for one of the two.
constexpr bool is_packing_field(std::string_view name) { return name == kHeldBits || name == kHeldRows; }

/// Returns what both arrays of a type add to a block at most, their entries and gaps included.
constexpr std::size_t packed_overhead(std::size_t nodes, std::size_t held) {
  return 2 * sizeof(BlockEntry) + nodes / 8 + 1 + 4 * held + 4 * kBlockAlignment;
}

/// Returns whether bytes that begin a block begin a packed one.
inline bool is_packed(std::span<const std::byte> block) {
  std::uint64_t magic = 0;
  if (block.size() >= sizeof magic) std::memcpy(&magic, block.data(), sizeof magic);
  return magic == kPackedMagic;
}

}  // namespace hopfeed
