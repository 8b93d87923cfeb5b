// How many rows a cache holds. It changes speed and memory, and no byte of a batch.
#pragma once
#include <cstddef>
#include <string_view>

namespace hopfeed {

/// A share of the rows, as many as fit into so many bytes, or as many as its reader finds to fit. Which rows
/// these are the cache says: the hottest.
struct CacheSize {
  bool automatic = false;  // as many as fit into a part of what is free, into `bytes` at most where given
  double ratio = 0;        // of the rows, 0 to 1; not read with `automatic` or `bytes`
  std::size_t bytes = 0;   // that the rows may take; 0: no such bound

  bool any() const { return automatic || ratio > 0 || bytes > 0; }
  /// `room`, of which the rows take no more than `bytes`.
  std::size_t within(std::size_t room) const;
  /// Throws kInvalid, naming the field that has this size, for a ratio that is none.
  void validate(std::string_view field) const;
};

}  // namespace hopfeed
