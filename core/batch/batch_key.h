// A BatchKey names a batch. Random numbers are keyed by it (keyed_random.h), and the header of a block holds
// it.
#pragma once
#include <cstdint>

namespace hopfeed {

/// It covers positions [first, first + count) of the epoch's shuffled seed list.
struct BatchKey {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const BatchKey&, const BatchKey&) = default;
};

}  // namespace hopfeed
