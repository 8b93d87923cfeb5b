// See keyed_shuffle.h.
#include "core/keyed_shuffle.h"

#include <algorithm>
#include <bit>

#include "core/keyed_random.h"

namespace hopfeed {
namespace {

// The distance from uniform of any two positions falls by about 2^(-rounds/2) (Theorem 2 of the paper, q = 2).
constexpr int kBaseRounds = 48, kRoundsPerBit = 2;

}  // namespace

KeyedShuffle::KeyedShuffle(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
    : size_(static_cast<std::uint64_t>(size)),
      key_(stream_key({.purpose = Purpose::kShuffle, .seed = seed, .epoch = epoch, .hop = 0})) {
  const NodeStream partners{
      .key = stream_key({.purpose = Purpose::kShuffle, .seed = seed, .epoch = epoch, .hop = 1}),
      .retry_key = stream_key({.purpose = Purpose::kRetries, .seed = seed, .epoch = epoch, .hop = 1}),
      .node = 0,
      .tree = 0};
  const int rounds = kBaseRounds + kRoundsPerBit * std::bit_width(size_);
  for (int round = 0; round < rounds; ++round)
    partner_.push_back(draw_below_wide(partners, static_cast<std::uint32_t>(round), size_));
}

void KeyedShuffle::positions(std::int64_t first, std::span<std::int64_t> out) const {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = first + static_cast<std::int64_t>(i);
  for (std::uint32_t round = 0; round < partner_.size(); ++round) {
    const std::uint64_t partner = partner_[round];
    // Rounds outside, positions inside: the positions are independent, so their multiplications overlap.
    for (std::int64_t& x : out) {
      const std::uint64_t here = static_cast<std::uint64_t>(x);
      const std::uint64_t there = partner >= here ? partner - here : partner + size_ - here;
      const std::uint64_t larger = std::max(here, there);
      const std::uint32_t bit =
          philox(static_cast<std::uint32_t>(larger), static_cast<std::uint32_t>(larger >> 32), round, 0, key_)
              .word[0] &
          1;
      x = static_cast<std::int64_t>(bit ? there : here);
    }
  }
}

}  // namespace hopfeed
