// IdRanges deal out numbers 0 to count - 1 in stretches, one for each partition: with sharded ids partition p
// stores what belongs to the original ids of range p, and to the entries of range p of a split. Ranges are
// even whatever the cut, so that who has a number is known without a table.
#pragma once
#include <cstdint>

namespace hopfeed {

struct IdRanges {
  std::int64_t count = 0;
  int partitions = 1;

  /// Returns the first number of a partition's range; of `partitions`, count.
  std::int64_t begin(int partition) const {
    return static_cast<std::int64_t>(static_cast<__int128>(count) * partition / partitions);
  }
  std::int64_t size(int partition) const { return begin(partition + 1) - begin(partition); }
  /// Returns the partition whose range has the number, which is one of them.
  int owner(std::int64_t number) const {
    // Of begin(p) <= number < begin(p + 1): the division rounds down by less than one.
    int p = static_cast<int>(static_cast<__int128>(number) * partitions / count);
    while (number >= begin(p + 1)) ++p;
    return p;
  }
};

}  // namespace hopfeed
