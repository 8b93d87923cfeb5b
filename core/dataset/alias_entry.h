// An AliasEntry is an entry of an alias table (alias_table.h), as files have it and as host and device draw
// by it (weighted_rule.h).
#pragma once
#include <cstdint>

namespace hopfeed {

/// It is one edge's column of its row's alias table (Walker 1977, Vose 1991; alias_table.h). What its
/// threshold says of 2^32 is its own, the rest the alias's: the position in the row of another edge.
struct AliasEntry {
  std::uint32_t threshold;  // 0: the edge's weight is zero
  std::uint32_t alias;      // its own position where all of the column is its own
};
static_assert(sizeof(AliasEntry) == 8);

inline bool operator==(const AliasEntry& a, const AliasEntry& b) {
  return a.threshold == b.threshold && a.alias == b.alias;
}

}  // namespace hopfeed
