// An AliasEntry is an entry of an alias table (alias_table.h), as files have it and as host and device draw
// by it (weighted_rule.h).
#pragma once
#include <cstdint>

#include "core/base/host_device.h"

namespace hopfeed {

inline constexpr std::uint64_t kColumn = std::uint64_t{1} << 32;  // what a column is in all

/// It is one edge's column of its row's alias table (Walker 1977, Vose 1991; alias_table.h). What its
/// threshold says of 2^32 is its own, the rest the alias's: the position in the row of another edge.
struct AliasEntry {
  std::uint32_t threshold;  // 0: the edge's weight is zero
  std::uint32_t alias;      // its own position where all of the column is its own
};
static_assert(sizeof(AliasEntry) == 8);

/// Returns what of column `i` is its own edge's, and what its alias's: the integers that the weights of a row
/// became are the sums of these.
HOPFEED_HOST_DEVICE inline std::uint64_t own_of_column(const AliasEntry& entry, std::uint64_t i) {
  if (entry.alias == i) return entry.threshold > 0 ? kColumn : 0;
  return entry.threshold;
}
HOPFEED_HOST_DEVICE inline std::uint64_t alias_of_column(const AliasEntry& entry, std::uint64_t i) {
  return entry.alias == i ? 0 : kColumn - entry.threshold;
}

inline bool operator==(const AliasEntry& a, const AliasEntry& b) {
  return a.threshold == b.threshold && a.alias == b.alias;
}

}  // namespace hopfeed
