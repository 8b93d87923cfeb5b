// PickSet tells which positions one row has drawn, where the fanout is so large that looking at every earlier
// pick would be quadratic.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/base/scratch.h"

namespace hopfeed {

/// It fits the `Seen` of sampling_rule.h. A sampler has one; `begin` makes it ready for a row.
class PickSet {
 public:
  void begin(std::uint32_t picks) {
    bits_ = std::bit_width(picks) + 2;  // at most a quarter full
    table_.reserve(std::size_t{1} << bits_);
    std::memset(table_.data(), 0, sizeof(std::uint64_t) << bits_);
  }
  template <class Pick>
  bool add(const Pick* /*picks*/, std::uint32_t /*count*/, Pick candidate) {
    return !insert(candidate);
  }
  template <class Pick>
  void add_replacement(Pick pick) {
    insert(pick);
  }

  std::size_t bytes() const { return table_.bytes(); }
  /// Returns the most bytes for rows of that many picks.
  static std::size_t max_bytes(std::size_t picks) {
    return max_scratch_bytes(sizeof(std::uint64_t) << (std::bit_width(picks) + 2));
  }

 private:
  bool insert(std::uint64_t pick) {
    const std::size_t mask = (std::size_t{1} << bits_) - 1;
    const std::uint64_t entry = pick + 1;  // 0 is empty
    for (std::size_t at = entry * 0x9E3779B97F4A7C15u >> (64 - bits_);; at = (at + 1) & mask) {
      if (table_[at] == entry) return false;
      if (table_[at] == 0) {
        table_[at] = entry;
        return true;
      }
    }
  }

  int bits_ = 0;
  ScratchArray<std::uint64_t> table_;
};

}  // namespace hopfeed
