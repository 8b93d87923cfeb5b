// A HeldSplit splits a batch's nodes of one type into those whose rows the consumer holds and those whose
// rows it lacks (core/batch/packed_block.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/held_share.h"

namespace hopfeed {

class HeldSplit {
 public:
  /// Splits `ids`, dataset ids that were checked; `partition_offsets` [P + 1] are of their type. Steady
  /// states allocate nothing.
  void split(std::span<const std::int64_t> ids, std::span<const std::int64_t> partition_offsets,
             HeldShare share);
  std::span<const std::int64_t> lacking() const { return lacking_; }  // dataset ids, in the order of `ids`
  std::span<const std::uint8_t> bits() const { return bits_; }
  std::span<const std::uint32_t> held() const { return held_; }  // rows, numbered through the partitions

  /// Returns the memory that it has, and the most that it has where no split is of more ids.
  std::size_t bytes() const;
  static std::size_t max_bytes(std::size_t ids, std::size_t partitions);

 private:
  std::vector<std::int64_t> lacking_;
  std::vector<std::uint8_t> bits_;
  std::vector<std::uint32_t> held_;
  std::vector<std::int64_t> first_held_;  // [P] number of each partition's first held row
};

}  // namespace hopfeed
