// The one sampling rule says which neighbours of a row are drawn. Host and device compile this same text; the
// CPU sampler wraps it in a pipeline that hides memory latency, the CUDA sampler in kernels, and both give
// the same positions.
//
// Without replacement it is Floyd's algorithm (Bentley & Floyd, "A Sample of Brilliance", CACM 1987): draw j
// picks c from [0, degree - k + j]; a repeat becomes degree - k + j. Each neighbour is taken with probability
// k / degree, exactly.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {

/// Returns how many neighbours a row of `degree` gives for `fanout` (-1: all).
HOPFEED_HOST_DEVICE inline std::uint64_t num_drawn(std::uint64_t degree, std::int64_t fanout, bool replace) {
  if (fanout < 0 || degree == 0) return degree;
  const std::uint64_t k = static_cast<std::uint64_t>(fanout);
  return replace || k < degree ? k : degree;
}

/// LinearSeen looks at every earlier pick: it is best for the small fanouts of GNNs, and needs no memory.
struct LinearSeen {
  template <class Pick>
  HOPFEED_HOST_DEVICE bool add(const Pick* picks, std::uint32_t count, Pick candidate) const {
    bool repeated = false;
    for (std::uint32_t i = 0; i < count; ++i)
      repeated |= picks[i] == candidate;  // no early exit: it fills vector lanes
    return repeated;
  }
  template <class Pick>
  HOPFEED_HOST_DEVICE void add_replacement(Pick) const {}
};

/// Draws candidate j of a row with fewer than 2^32 neighbours, before repeats are replaced: exact on [0,
/// bound_of_first + j). Fills candidates[0 .. k); an array of k rounded up to a multiple of 4 must fit.
HOPFEED_HOST_DEVICE inline void draw_candidates(const NodeStream& stream, std::uint32_t first_bound,
                                                std::uint32_t bound_step, std::uint32_t k,
                                                std::uint32_t* candidates) {
  bool rejected = false;
  for (std::uint32_t block = 0; block * 4 < k; ++block) {
    const RandomWords words = stream.words(block);
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      const std::uint32_t j = block * 4 + lane;
      const Bounded result = bounded(words.word[lane], first_bound + j * bound_step);
      candidates[j] = result.value;
      rejected |= result.rejected && j < k;
    }
  }
  if (!rejected) return;
  for (std::uint32_t j = 0; j < k; ++j) {
    candidates[j] = draw_below(stream, j, stream.words(j / 4).word[j % 4], first_bound + j * bound_step);
  }
}

/// Picks the first `count` of k distinct positions of a row of `degree`, 1 <= count <= k < degree < 2^32, in
/// the order of the draws. `picks` has room for `count` rounded up to a multiple of 4.
template <class Seen>
HOPFEED_HOST_DEVICE inline void pick_first_without_replacement(const NodeStream& stream, std::uint32_t degree,
                                                               std::uint32_t k, std::uint32_t count,
                                                               std::uint32_t* picks, Seen& seen) {
  draw_candidates(stream, degree - k + 1, 1, count, picks);
  for (std::uint32_t j = 0; j < count; ++j) {
    if (seen.add(picks, j, picks[j])) {
      picks[j] = degree - k + j;  // larger than every earlier pick
      seen.add_replacement(picks[j]);
    }
  }
}

/// Picks all k of them.
template <class Seen>
HOPFEED_HOST_DEVICE inline void pick_without_replacement(const NodeStream& stream, std::uint32_t degree,
                                                         std::uint32_t k, std::uint32_t* picks, Seen& seen) {
  pick_first_without_replacement(stream, degree, k, k, picks, seen);
}

/// Picks k positions of a row of `degree`, 1 <= degree < 2^32, each uniform and independent.
HOPFEED_HOST_DEVICE inline void pick_with_replacement(const NodeStream& stream, std::uint32_t degree,
                                                      std::uint32_t k, std::uint32_t* picks) {
  draw_candidates(stream, degree, 0, k, picks);
}

/// Picks by the rules above for rows of 2^32 neighbours and more: draw j has a 64-bit word of its own.
template <class Seen>
HOPFEED_HOST_DEVICE inline void pick_without_replacement_wide(const NodeStream& stream, std::uint64_t degree,
                                                              std::uint32_t k, std::uint64_t* picks,
                                                              Seen& seen) {
  for (std::uint32_t j = 0; j < k; ++j) {
    picks[j] = draw_below_wide(stream, j, degree - k + j + 1);
    if (seen.add(picks, j, picks[j])) {
      picks[j] = degree - k + j;
      seen.add_replacement(picks[j]);
    }
  }
}

HOPFEED_HOST_DEVICE inline void pick_with_replacement_wide(const NodeStream& stream, std::uint64_t degree,
                                                           std::uint32_t k, std::uint64_t* picks) {
  for (std::uint32_t j = 0; j < k; ++j) picks[j] = draw_below_wide(stream, j, degree);
}

}  // namespace hopfeed
