// A HeldShare says which feature rows a consumer of batches holds itself, so that they need not travel: of
// each partition of each node type the first ones. Rows lie in the one order, the hottest first, so "is this
// row held?" is a compare and no lookup.
#pragma once
#include <cstdint>

namespace hopfeed {

/// It is one number, so that it fits into a request; every side rounds it alike.
struct HeldShare {
  static constexpr std::uint32_t kAll = 1'000'000;
  std::uint32_t millionths = 0;  // of the rows, at most kAll

  /// Returns how many of a partition's `count` nodes of a type are held, rounded down. Counts are at most
  /// 2^40.
  std::int64_t rows(std::int64_t count) const {
    return count / kAll * millionths + count % kAll * millionths / kAll;
  }
  bool any() const { return millionths > 0; }
  double ratio() const { return static_cast<double>(millionths) / kAll; }
  friend bool operator==(HeldShare, HeldShare) = default;
};

}  // namespace hopfeed
