// See vector_draws.h. This file is compiled once per instruction set (Highway's foreach_target) and chosen at
// run time.
//
// Philox in lanes: each 64-bit lane holds one 32-bit word of the counter in its lower half. A round is two
// widening multiplications of lower halves; what the upper halves hold never matters, so nothing is masked
// before the end.
#include "core/draws/vector_draws.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/draws/vector_draws.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hopfeed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes64 = hn::ScalableTag<std::uint64_t>;
using Lanes32 = hn::Repartition<std::uint32_t, Lanes64>;
using Signed64 = hn::RebindToSigned<Lanes64>;
using Vector = hn::Vec<Lanes64>;
using Mask = hn::Mask<Lanes64>;

struct Words {
  Vector word[4];
};

HWY_INLINE Vector multiply_low_halves(Vector a, Vector b) {
  const Lanes32 halves;
  return hn::MulEven(hn::BitCast(halves, a), hn::BitCast(halves, b));
}

// Philox4x32-10, as Random123 has it, of several vectors in step: a round waits for the one before.
template <std::size_t kSets>
HWY_INLINE void philox_in_step(Words (&c)[kSets], std::uint64_t key) {
  const Lanes64 d;
  const Vector m0 = hn::Set(d, 0xD2511F53), m1 = hn::Set(d, 0xCD9E8D57);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Vector key0 = hn::Set(d, k0), key1 = hn::Set(d, k1);
#pragma GCC unroll 8
    for (Words& words : c) {
      Vector(&word)[4] = words.word;
      const Vector p0 = multiply_low_halves(word[0], m0), p1 = multiply_low_halves(word[2], m1);
      word[0] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), word[1]), key0);
      word[1] = p1;
      word[2] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), word[3]), key1);
      word[3] = p0;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}
HWY_INLINE Words philox_lanes(const Words& counter, std::uint64_t key) {
  Words c[1] = {counter};
  philox_in_step(c, key);
  return c[0];
}

// Lanes where a < b, of values below 2^63: AVX2 and SSE4 compare signed numbers only.
HWY_INLINE Mask less(Vector a, Vector b) {
  const Lanes64 d;
  const Signed64 s;
  return hn::RebindMask(d, hn::Lt(hn::BitCast(s, a), hn::BitCast(s, b)));
}

// The bits of a mask of up to 8 lanes.
template <class Lanes>
HWY_INLINE std::uint32_t bits_of(Lanes d, hn::Mask<Lanes> mask) {
  alignas(8) std::uint8_t bits[8] = {};
  hn::StoreMaskBits(d, mask, bits);
  return bits[0];
}

// compress_store stores the lanes that a mask has, side by side, and returns how many. Of the lanes behind
// them it may store anything.
#if HWY_TARGET == HWY_AVX2
// g++ copies the table of 1 KB in Highway 1.0's Compress to the stack at each call. The same table where it
// lies: for each mask of 8 lanes the numbers of those set, 4 bits each.
struct LanesOfMask {
  std::uint32_t packed[256];
};
constexpr LanesOfMask lanes_of_masks() {
  LanesOfMask lanes{};
  for (std::uint32_t mask = 0; mask < 256; ++mask) {
    int shift = 0;
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) == 0) continue;
      lanes.packed[mask] |= lane << shift;
      shift += 4;
    }
  }
  return lanes;
}
constexpr LanesOfMask kLanesOfMask = lanes_of_masks();

HWY_INLINE hn::Vec<Lanes32> compressed(hn::Vec<Lanes32> v, std::uint32_t mask) {
  const Lanes32 d;
  alignas(32) static constexpr std::uint32_t kShifts[] = {0, 4, 8, 12, 16, 20, 24, 28};
  const auto lanes =
      hn::And(hn::Shr(hn::Set(d, kLanesOfMask.packed[mask]), hn::Load(d, kShifts)), hn::Set(d, 7));
  return hn::TableLookupLanes(v, hn::IndicesFromVec(d, lanes));
}
HWY_INLINE std::size_t compress_store(Lanes32 d, hn::Vec<Lanes32> v, hn::Mask<Lanes32> mask,
                                      std::uint32_t* out) {
  const std::uint32_t bits = bits_of(d, mask);
  hn::StoreU(compressed(v, bits), d, out);
  return static_cast<std::size_t>(std::popcount(bits));
}
HWY_INLINE std::size_t compress_store(Lanes64 d, Vector v, Mask mask, std::uint64_t* out) {
  const Lanes32 halves;
  const hn::Mask<Lanes32> both = hn::MaskFromVec(hn::BitCast(halves, hn::VecFromMask(d, mask)));
  return compress_store(halves, hn::BitCast(halves, v), both, reinterpret_cast<std::uint32_t*>(out)) / 2;
}
#else
template <class Lanes>
HWY_INLINE std::size_t compress_store(Lanes d, hn::Vec<Lanes> v, hn::Mask<Lanes> mask,
                                      hn::TFromD<Lanes>* out) {
  hn::StoreU(hn::Compress(v, mask), d, out);
  return hn::CountTrue(d, mask);
}
#endif

template <Replacement kReplacement>
std::uint32_t draw(DrawRows& rows, std::uint32_t k, const NodeStream& keys, DrawPicks& picks) {
  const Lanes64 d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector low_half = hn::Set(d, 0xFFFFFFFF), one = hn::Set(d, 1);
  std::uint32_t again = 0;
  for (std::size_t i = 0; i < rows.count; i += lanes) {
    const Vector node = hn::Load(d, rows.node + i), degree = hn::Load(d, rows.degree + i),
                 tree = hn::Load(d, rows.tree + i);
    Vector bound = kReplacement == Replacement::kWith ? degree : hn::Sub(degree, hn::Set(d, k - 1));
    Mask doubtful = hn::MaskFromVec(hn::Zero(d));
    for (std::uint32_t j = 0; j < k;) {
      const Words words = philox_lanes({{node, hn::ShiftRight<32>(node), tree, hn::Set(d, j / 4)}}, keys.key);
      for (std::uint32_t word = 0; word < 4 && j < k; ++word, ++j) {
        const Vector product = multiply_low_halves(words.word[word], bound);
        doubtful = hn::Or(doubtful, less(hn::And(product, low_half), bound));
        Vector pick = hn::ShiftRight<32>(product);
        if constexpr (kReplacement == Replacement::kWithout) {
          // Floyd: a repeat becomes the largest position that this draw could give, which no earlier draw
          // could.
          Mask repeat = hn::MaskFromVec(hn::Zero(d));
          for (std::uint32_t earlier = 0; earlier < j; ++earlier)
            repeat = hn::Or(repeat, hn::Eq(pick, hn::Load(d, picks.pick + earlier * DrawRows::kRows + i)));
          pick = hn::IfThenElse(repeat, hn::Sub(bound, one), pick);
          bound = hn::Add(bound, one);
        }
        hn::Store(pick, d, picks.pick + j * DrawRows::kRows + i);
      }
    }
    again |= bits_of(d, doubtful) << i;
  }
  return again & ((1u << rows.count) - 1);
}

std::uint32_t draw_without(DrawRows& rows, std::uint32_t k, const NodeStream& keys, DrawPicks& picks) {
  return draw<Replacement::kWithout>(rows, k, keys, picks);
}
std::uint32_t draw_with(DrawRows& rows, std::uint32_t k, const NodeStream& keys, DrawPicks& picks) {
  return draw<Replacement::kWith>(rows, k, keys, picks);
}

// Two words for each draw: the column and the place in it.
std::uint32_t draw_alias(const DrawRows& rows, std::uint32_t k, const NodeStream& keys, DrawPicks& picks) {
  const Lanes64 d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector low_half = hn::Set(d, 0xFFFFFFFF);
  std::uint32_t again = 0;
  for (std::size_t i = 0; i < rows.count; i += lanes) {
    const Vector node = hn::Load(d, rows.node + i), degree = hn::Load(d, rows.degree + i),
                 tree = hn::Load(d, rows.tree + i);
    Mask doubtful = hn::MaskFromVec(hn::Zero(d));
    for (std::uint32_t t = 0; t < k;) {
      const Words words = philox_lanes({{node, hn::ShiftRight<32>(node), tree, hn::Set(d, t / 2)}}, keys.key);
      for (std::uint32_t word = 0; word < 4 && t < k; word += 2, ++t) {
        const Vector product = multiply_low_halves(words.word[word], degree);
        doubtful = hn::Or(doubtful, less(hn::And(product, low_half), degree));
        const Vector pick = hn::Or(hn::AndNot(low_half, product), hn::And(words.word[word + 1], low_half));
        hn::Store(pick, d, picks.pick + t * DrawRows::kRows + i);
      }
    }
    again |= bits_of(d, doubtful) << i;
  }
  return again & ((1u << rows.count) - 1);
}

// The upper half of a variate decides but for one in 2^32, which labor_rule.h decides.
std::size_t take_variates_below(std::span<const std::int64_t> nodes, const VariatesBelow& below,
                                std::uint64_t* out) {
  const Lanes64 d;
  const std::size_t lanes = hn::Lanes(d), word = below.hop % kLaborHops;
  const Vector low_half = hn::Set(d, 0xFFFFFFFF), limit = hn::Set(d, below.threshold >> 31);
  std::size_t taken = 0;
  for (std::size_t i = 0; i < nodes.size(); i += lanes) {
    const Vector node = hn::Load(d, reinterpret_cast<const std::uint64_t*>(nodes.data()) + i);
    const Words words = philox_lanes({{node, hn::ShiftRight<32>(node), hn::Zero(d), hn::Zero(d)}}, below.key);
    const Vector upper = hn::And(words.word[word], low_half);
    const Mask there = hn::FirstN(d, nodes.size() - i);
    if (HWY_LIKELY(hn::AllFalse(d, hn::And(there, hn::Eq(upper, limit))))) {
      taken += compress_store(d, hn::Iota(d, i), hn::And(there, less(upper, limit)), out + taken);
      continue;
    }
    for (std::size_t j = i; j < std::min(nodes.size(), i + lanes); ++j) {
      out[taken] = j;
      taken +=
          labor_variate({below.key, 0, static_cast<std::uint64_t>(nodes[j]), 0}, below.hop) < below.threshold;
    }
  }
  return taken;
}

void make_upper_variates(const OriginalIds& nodes, std::uint64_t key, std::size_t at,
                         const VariateWords& out) {
  const Lanes64 d;
  const hn::Rebind<std::uint16_t, Lanes64> uppers;
  constexpr std::int64_t kSets = 4;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto nodes_from = [&](std::int64_t i) HWY_ATTR {
    const auto* first = reinterpret_cast<const std::uint64_t*>(nodes.first + i * nodes.stride);
    return nodes.stride == 1 ? hn::LoadU(d, first)
                             : hn::ConcatEven(d, hn::LoadU(d, first + lanes), hn::LoadU(d, first));
  };
  std::int64_t i = 0;
  for (; i + kSets * lanes < nodes.count; i += kSets * lanes) {
    Words words[kSets];
    for (std::int64_t set = 0; set < kSets; ++set) {
      const Vector node = nodes_from(i + set * lanes);
      words[set] = {{node, hn::ShiftRight<32>(node), hn::Zero(d), hn::Zero(d)}};
    }
    philox_in_step(words, key);
    for (std::size_t word = 0; word < out.size(); ++word) {
      if (!out[word]) continue;
      for (std::int64_t set = 0; set < kSets; ++set)
        hn::StoreU(hn::TruncateTo(uppers, hn::ShiftRight<16>(words[set].word[word])), uppers,
                   out[word] + at + i + set * lanes);
    }
  }
  for (; i < nodes.count; ++i) {
    const auto node = static_cast<std::uint64_t>(nodes.first[i * nodes.stride]);
    const RandomWords words =
        philox(static_cast<std::uint32_t>(node), static_cast<std::uint32_t>(node >> 32), 0, 0, key);
    for (std::size_t word = 0; word < out.size(); ++word)
      if (out[word])
        out[word][at + static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(words.word[word] >> 16);
  }
}

void mark_uppers_below(const std::uint16_t* uppers, std::size_t count, std::uint16_t limit,
                       std::uint8_t* out) {
  const hn::CappedTag<std::uint16_t, kMarkedTogether> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreMaskBits(d, hn::Lt(hn::LoadU(d, uppers + i), hn::Set(d, limit)), out + i / 8);
}

// Functions and no lambdas: g++ does not inline a lambda with the attributes of an instruction set, and a
// call passes its vectors through memory.
using NodeVector = hn::Vec<Lanes32>;
using NodeMask = hn::Mask<Lanes32>;

HWY_INLINE NodeMask is_marked(const std::uint8_t* bits, NodeVector node) {
  const Lanes32 d;
  const hn::RebindToSigned<Lanes32> s;
  const auto words = reinterpret_cast<const std::uint32_t*>(bits);
  const NodeVector word = hn::GatherIndex(d, words, hn::BitCast(s, hn::ShiftRight<5>(node)));
  return hn::Ne(hn::And(word, hn::Shl(hn::Set(d, 1), hn::And(node, hn::Set(d, 31)))), hn::Zero(d));
}

// Stores of whole vectors: what is read behind a masked one waits until that has left for the cache.
struct TakenNodes {
  std::uint32_t* nodes;
  std::uint32_t* places;
};
HWY_INLINE std::size_t take(NodeVector node, NodeVector places, NodeMask mask, TakenNodes out) {
  const Lanes32 d;
  compress_store(d, node, mask, out.nodes);
  return compress_store(d, places, mask, out.places);
}

// The last vector of a row comes a second time in part: nothing behind the row is read, and nothing copied.
std::size_t take_marked_nodes(std::span<const std::int32_t> nodes, std::uint32_t num_nodes,
                              const std::uint8_t* bits, const MarkedNodes& out) {
  const Lanes32 d;
  alignas(64) static constexpr std::uint32_t kPlaces[] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                          8, 9, 10, 11, 12, 13, 14, 15};
  static_assert(sizeof kPlaces >= HWY_MAX_BYTES);
  const std::size_t lanes = hn::Lanes(d), count = nodes.size();
  const auto all = reinterpret_cast<const std::uint32_t*>(nodes.data());
  const TakenNodes to{reinterpret_cast<std::uint32_t*>(out.nodes), out.places};
  const NodeVector first = hn::Load(d, kPlaces), end = hn::Set(d, num_nodes),
                   step = hn::Set(d, static_cast<std::uint32_t>(lanes));
  std::size_t taken = 0, i = 0;
  const auto behind = [&] { return TakenNodes{to.nodes + taken, to.places + taken}; };
  for (NodeVector places = first; i + lanes <= count; i += lanes, places = hn::Add(places, step)) {
    const NodeVector node = hn::LoadU(d, all + i);
    if (!hn::AllTrue(d, hn::Lt(node, end))) return kNoNode;
    taken += take(node, places, is_marked(bits, node), behind());
  }
  if (i == count) return taken;
  if (count < lanes) {
    for (; i < count; ++i) {
      if (all[i] >= num_nodes) return kNoNode;
      to.nodes[taken] = all[i];
      to.places[taken] = static_cast<std::uint32_t>(i);
      taken += bits[all[i] / 8] >> all[i] % 8 & 1;
    }
    return taken;
  }
  const NodeVector node = hn::LoadU(d, all + count - lanes),
                   places = hn::Add(first, hn::Set(d, static_cast<std::uint32_t>(count - lanes)));
  if (!hn::AllTrue(d, hn::Lt(node, end))) return kNoNode;
  const NodeMask seen = hn::Lt(places, hn::Set(d, static_cast<std::uint32_t>(i)));
  return taken + take(node, places, hn::AndNot(seen, is_marked(bits, node)), behind());
}

// Vectors of positions through all rounds: several in step, since a round waits for the one before.
template <std::size_t kSets>
HWY_INLINE void shuffle_in_step(const Shuffle& shuffle, std::uint64_t* positions) {
  const Lanes64 d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector size = hn::Set(d, shuffle.size), one = hn::Set(d, 1);
  Vector here[kSets];
#pragma GCC unroll 8
  for (std::size_t set = 0; set < kSets; ++set) here[set] = hn::LoadU(d, positions + set * lanes);
  for (std::size_t round = 0; round < shuffle.partners.size(); ++round) {
    const Vector partner = hn::Set(d, shuffle.partners[round]), number = hn::Set(d, round);
    Vector there[kSets];
    Words words[kSets];
#pragma GCC unroll 8
    for (std::size_t set = 0; set < kSets; ++set) {
      there[set] = hn::Sub(partner, here[set]);
      there[set] = hn::IfThenElse(less(partner, here[set]), hn::Add(there[set], size), there[set]);
      const Vector larger = hn::IfThenElse(less(here[set], there[set]), there[set], here[set]);
      words[set] = {{larger, hn::ShiftRight<32>(larger), number, hn::Zero(d)}};
    }
    philox_in_step(words, shuffle.key);
#pragma GCC unroll 8
    for (std::size_t set = 0; set < kSets; ++set)
      here[set] =
          hn::IfThenElse(hn::Eq(hn::And(words[set].word[0], one), hn::Zero(d)), here[set], there[set]);
  }
#pragma GCC unroll 8
  for (std::size_t set = 0; set < kSets; ++set) hn::StoreU(here[set], d, positions + set * lanes);
}

void shuffle_all(const Shuffle& shuffle, std::uint64_t* positions, std::size_t count) {
  constexpr std::size_t kSets = 4;
  const std::size_t lanes = hn::Lanes(Lanes64());
  std::size_t i = 0;
  for (; i + kSets * lanes <= count; i += kSets * lanes) shuffle_in_step<kSets>(shuffle, positions + i);
  for (; i + lanes <= count; i += lanes) shuffle_in_step<1>(shuffle, positions + i);
  if (i == count) return;
  alignas(64) std::uint64_t rest[HWY_MAX_BYTES / sizeof(std::uint64_t)] = {};
  std::copy(positions + i, positions + count, rest);
  shuffle_in_step<1>(shuffle, rest);
  std::copy_n(rest, count - i, positions + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace hopfeed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hopfeed {

HWY_EXPORT(draw_without);
HWY_EXPORT(draw_with);
HWY_EXPORT(draw_alias);
HWY_EXPORT(take_variates_below);
HWY_EXPORT(make_upper_variates);
HWY_EXPORT(mark_uppers_below);
HWY_EXPORT(take_marked_nodes);
HWY_EXPORT(shuffle_all);

std::uint32_t draw_rows(DrawRows& rows, std::uint32_t k, Replacement replacement, const NodeStream& keys,
                        DrawPicks& picks) {
  return replacement == Replacement::kWith ? HWY_DYNAMIC_DISPATCH(draw_with)(rows, k, keys, picks)
                                           : HWY_DYNAMIC_DISPATCH(draw_without)(rows, k, keys, picks);
}

std::uint32_t draw_alias_rows(const DrawRows& rows, std::uint32_t k, const NodeStream& keys,
                              DrawPicks& picks) {
  return HWY_DYNAMIC_DISPATCH(draw_alias)(rows, k, keys, picks);
}

std::size_t take_below(std::span<const std::int64_t> nodes, const VariatesBelow& below, std::uint64_t* out) {
  return HWY_DYNAMIC_DISPATCH(take_variates_below)(nodes, below, out);
}

void upper_variates(const OriginalIds& nodes, std::uint64_t key, std::size_t at, const VariateWords& out) {
  HWY_DYNAMIC_DISPATCH(make_upper_variates)(nodes, key, at, out);
}

void mark_below(const std::uint16_t* uppers, std::size_t count, std::uint16_t limit, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(mark_uppers_below)(uppers, count, limit, out);
}

std::size_t take_marked(std::span<const std::int32_t> nodes, std::uint32_t num_nodes,
                        const std::uint8_t* bits, const MarkedNodes& out) {
  return HWY_DYNAMIC_DISPATCH(take_marked_nodes)(nodes, num_nodes, bits, out);
}

void shuffle_positions(const Shuffle& shuffle, std::span<std::uint64_t> positions) {
  HWY_DYNAMIC_DISPATCH(shuffle_all)(shuffle, positions.data(), positions.size());
}

}  // namespace hopfeed
#endif  // HWY_ONCE
