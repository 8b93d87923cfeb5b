// The random numbers of docs/formats.md, "Random numbers", are written down here a second time from its
// tables. serial_sampler.h says why nothing here is the core's.
#pragma once
#include <cstdint>

namespace hopfeed::bench {

/// SerialName names a stream.
struct SerialName {
  std::uint32_t purpose = 0, hop = 0, edge_type = 0;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, first = 0;
};

class SerialStream {
 public:
  explicit SerialStream(const SerialName& name);
  /// Returns the stream of a node (its original id), and in a disjoint batch of a tree.
  SerialStream of(std::int64_t node, std::int64_t tree) const;

  std::uint32_t word(std::uint64_t number) const;
  /// Returns draw number `draw` from [0, bound), which begins with that word; 1 <= bound < 2^32.
  std::uint64_t below(std::uint64_t draw, std::uint64_t word_number, std::uint64_t bound) const;
  /// Returns draw number `draw` from [0, bound) for any bound: it has a block of words of its own.
  std::uint64_t below_wide(std::uint64_t draw, std::uint64_t bound) const;

 private:
  std::uint64_t draws_, retries_;  // keys
  std::uint64_t node_ = 0;
  std::uint32_t tree_ = 0;
};

}  // namespace hopfeed::bench
