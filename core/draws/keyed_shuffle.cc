// See keyed_shuffle.h.
#include "core/draws/keyed_shuffle.h"

#include <bit>
#include <numeric>

#include "core/draws/keyed_random.h"
#include "core/draws/vector_draws.h"

namespace hopfeed {

KeyedShuffle::KeyedShuffle(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
    : size_(static_cast<std::uint64_t>(size)),
      key_(node_stream({.purpose = Purpose::kShuffle, .seed = seed, .epoch = epoch, .hop = 0}).key),
      rounds_(kBaseRounds + kRoundsPerBit * std::bit_width(size_)) {
  const NodeStream partners =
      node_stream({.purpose = Purpose::kShuffle, .seed = seed, .epoch = epoch, .hop = 1});
  for (int round = 0; round < rounds_; ++round)
    partner_[static_cast<std::size_t>(round)] =
        draw_below_wide(partners, static_cast<std::uint32_t>(round), size_);
}

void KeyedShuffle::positions(std::int64_t first, std::span<std::int64_t> out) const {
  std::iota(out.begin(), out.end(), first);
  const std::span<std::uint64_t> positions(reinterpret_cast<std::uint64_t*>(out.data()), out.size());
  shuffle_positions(
      {.partners = {partner_.data(), static_cast<std::size_t>(rounds_)}, .size = size_, .key = key_},
      positions);
}

}  // namespace hopfeed
