// KeyedShuffle is the epoch's shuffle: a keyed bijection of [0, n), evaluated per position, never a shuffled
// array. It is swap-or-not (Hoang, Morris, Rogaway, "An Enciphering Scheme Based on a Card Shuffle", CRYPTO
// 2012): in each round position x and its partner K - x (mod n) change places or not, by one keyed bit of the
// larger of the two. It works for any n, small ones too, where Feistel networks with cycle walking fail the
// chi-square of ordered pairs.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace hopfeed {

class KeyedShuffle {
 public:
  /// Makes the permutation of [0, size) that belongs to (seed, epoch). 1 <= size <= kMaxNodes.
  KeyedShuffle(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

  /// Writes out[i] = permutation(first + i). The caller has checked 0 <= first, first + out.size() <= size.
  void positions(std::int64_t first, std::span<std::int64_t> out) const;

 private:
  std::uint64_t size_, key_;
  // The distance from uniform of any two positions falls by about 2^(-rounds/2) (Theorem 2 of the paper, q =
  // 2).
  static constexpr int kBaseRounds = 48, kRoundsPerBit = 2, kMaxRounds = kBaseRounds + kRoundsPerBit * 64;
  int rounds_;
  std::array<std::uint64_t, kMaxRounds> partner_;  // K of each round, below size
};

}  // namespace hopfeed
