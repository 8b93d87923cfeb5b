// Keyed random numbers: Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC'11;
// Random123). Every number is a pure function of (purpose, seed, epoch, first, hop, edge type, node, tree,
// draw):
//
//   inner key  = Philox(counter {purpose, hop, edge type, try}, key = seed)
//   stream key = Philox(counter {epoch, first}, key = inner key)
//   words      = Philox(counter {node low, node high, tree, block}, key = stream key): four 32-bit words,
//                draws 4 * block to 4 * block + 3
//
// A draw below a bound is multiply-shift with rejection (Lemire, "Fast Random Integer Generation in an
// Interval", 2019), so it is exact. A rejected draw goes on in the stream of the same name whose `try` is 1,
// so it moves no other draw and meets no other use: docs/formats.md has what each purpose names its
// streams by.
#pragma once
#include <Random123/philox.h>

#include <cstdint>

#include "core/base/host_device.h"

namespace hopfeed {

enum class Purpose : std::uint32_t {
  kNeighbors = 1,
  kWalks = 2,
  kNegatives = 3,
  kShuffle = 5,
  kGenerate = 6,
  kPartition = 7,
  kLabor = 8,
  kSeeds = 9,
  kPlugin = 10  // samplers that users add
};
inline constexpr Purpose kLastPurpose = Purpose::kPlugin;

struct RandomWords {
  std::uint32_t word[4];
};

/// Runs the generator itself: Philox4x32-10.
HOPFEED_HOST_DEVICE inline RandomWords philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                              std::uint32_t c3, std::uint64_t key) {
  const r123::Philox4x32::ctr_type counter = {{c0, c1, c2, c3}};
  const r123::Philox4x32::key_type k = {
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
  const r123::Philox4x32::ctr_type out = r123::Philox4x32()(counter, k);
  return {{out.v[0], out.v[1], out.v[2], out.v[3]}};
}

struct StreamOptions {
  Purpose purpose = Purpose::kNeighbors;
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t first = 0;
  std::uint32_t hop = 0;
  std::uint32_t edge_type = 0;
};

/// Try tells two streams of one name apart: that of first draws, and that of draws that were rejected.
enum class Try : std::uint32_t { kFirst = 0, kAgain = 1 };

/// Returns the 64-bit key of one stream; node_stream() below is the one way to come by it.
HOPFEED_HOST_DEVICE inline std::uint64_t stream_key(const StreamOptions& o, Try which) {
  const RandomWords outer = philox(static_cast<std::uint32_t>(o.purpose), o.hop, o.edge_type,
                                   static_cast<std::uint32_t>(which), o.seed);
  const std::uint64_t middle = static_cast<std::uint64_t>(outer.word[1]) << 32 | outer.word[0];
  const std::uint64_t e = static_cast<std::uint64_t>(o.epoch), f = static_cast<std::uint64_t>(o.first);
  const RandomWords inner =
      philox(static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(e >> 32),
             static_cast<std::uint32_t>(f), static_cast<std::uint32_t>(f >> 32), middle);
  return static_cast<std::uint64_t>(inner.word[1]) << 32 | inner.word[0];
}

/// A NodeStream has the draws of one node (its original id) in one stream.
struct NodeStream {
  std::uint64_t key;        // of the draws
  std::uint64_t retry_key;  // of draws that were rejected
  std::uint64_t node;
  std::uint32_t tree;  // position of the seed in a disjoint batch, else 0

  /// Returns the stream of another node under the same keys.
  HOPFEED_HOST_DEVICE NodeStream of(std::uint64_t other, std::uint32_t other_tree = 0) const {
    return {key, retry_key, other, other_tree};
  }
  HOPFEED_HOST_DEVICE RandomWords words(std::uint32_t block) const {
    return philox(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(node >> 32), tree, block, key);
  }
  /// Returns candidates for draw `draw` (below 2^16) after a rejection, attempt 1, 2, ...
  HOPFEED_HOST_DEVICE RandomWords retry_words(std::uint32_t draw, std::uint32_t attempt) const {
    return philox(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(node >> 32), tree,
                  attempt << 16 | draw, retry_key);
  }
};

/// Returns both keys of what `options` name, of node 0. They are computed once per batch, hop and edge type;
/// of() gives the nodes'.
HOPFEED_HOST_DEVICE inline NodeStream node_stream(const StreamOptions& options) {
  return {stream_key(options, Try::kFirst), stream_key(options, Try::kAgain), 0, 0};
}

/// A Bounded is floor(word * bound / 2^32), or a rejection where the word falls into the biased remainder.
struct Bounded {
  std::uint32_t value;
  bool rejected;
};

HOPFEED_HOST_DEVICE inline Bounded bounded(std::uint32_t word, std::uint32_t bound) {
  const std::uint64_t wide = static_cast<std::uint64_t>(word) * bound;
  const std::uint32_t low = static_cast<std::uint32_t>(wide);
  // The threshold (2^32 mod bound) is below bound: the division is rarely reached.
  return {static_cast<std::uint32_t>(wide >> 32), low < bound && low < (0u - bound) % bound};
}

/// Returns an exact draw from [0, bound), 1 <= bound < 2^32, that begins with `word`, the stream's word for
/// `draw`.
HOPFEED_HOST_DEVICE inline std::uint32_t draw_below(const NodeStream& stream, std::uint32_t draw,
                                                    std::uint32_t word, std::uint32_t bound) {
  Bounded result = bounded(word, bound);
  for (std::uint32_t attempt = 1; result.rejected; ++attempt) {
    const RandomWords more = stream.retry_words(draw, attempt);
    for (int i = 0; i < 4 && result.rejected; ++i) result = bounded(more.word[i], bound);
  }
  return result.value;
}

/// Returns a draw below a bound of 2^32 or more: 64 bits from two words. Rejection has a chance below 2^-16
/// for bounds below 2^48.
HOPFEED_HOST_DEVICE inline std::uint64_t draw_below_wide(const NodeStream& stream, std::uint32_t draw,
                                                         std::uint64_t bound) {
  RandomWords words = stream.words(draw);  // a block of its own for each draw
  for (std::uint32_t attempt = 1;; ++attempt) {
    const std::uint64_t word = static_cast<std::uint64_t>(words.word[1]) << 32 | words.word[0];
    const unsigned __int128 wide = static_cast<unsigned __int128>(word) * bound;
    const std::uint64_t low = static_cast<std::uint64_t>(wide);
    if (low >= bound || low >= (0 - bound) % bound) return static_cast<std::uint64_t>(wide >> 64);
    words = stream.retry_words(draw, attempt);
  }
}

}  // namespace hopfeed
