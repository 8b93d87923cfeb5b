// See serial_random.h.
#include "bench/core/serial_random.h"

#include <Random123/philox.h>

namespace hopfeed::bench {
namespace {

using Whole = unsigned __int128;
using Words = r123::Philox4x32::ctr_type;

std::uint32_t low(std::uint64_t number) { return static_cast<std::uint32_t>(number); }
std::uint32_t high(std::uint64_t number) { return static_cast<std::uint32_t>(number >> 32); }
std::uint64_t joined(const Words& words) { return std::uint64_t{words.v[1]} << 32 | words.v[0]; }

Words philox(const Words& counter, std::uint64_t key) {
  return r123::Philox4x32()(counter, {{low(key), high(key)}});
}

std::uint64_t key_of(const SerialName& name, std::uint32_t attempt) {
  const std::uint64_t inner = joined(philox({{name.purpose, name.hop, name.edge_type, attempt}}, name.seed));
  const auto epoch = static_cast<std::uint64_t>(name.epoch), first = static_cast<std::uint64_t>(name.first);
  return joined(philox({{low(epoch), high(epoch), low(first), high(first)}}, inner));
}

}  // namespace

SerialStream::SerialStream(const SerialName& name) : draws_(key_of(name, 0)), retries_(key_of(name, 1)) {}

SerialStream SerialStream::of(std::int64_t node, std::int64_t tree) const {
  SerialStream stream = *this;
  stream.node_ = static_cast<std::uint64_t>(node);
  stream.tree_ = static_cast<std::uint32_t>(tree);
  return stream;
}

std::uint32_t SerialStream::word(std::uint64_t number) const {
  return philox({{low(node_), high(node_), tree_, low(number / 4)}}, draws_).v[number % 4];
}

// floor(2^32 / bound) of all 2^32 words give each number, and the 2^32 mod bound that are over are drawn
// again.
std::uint64_t SerialStream::below(std::uint64_t draw, std::uint64_t word_number, std::uint64_t bound) const {
  constexpr std::uint64_t kWords = std::uint64_t{1} << 32;
  std::uint64_t product = word(word_number) * bound;
  for (std::uint64_t candidate = 0; product % kWords < kWords % bound; ++candidate) {
    const std::uint64_t attempt = 1 + candidate / 4;
    product =
        philox({{low(node_), high(node_), tree_, low(attempt << 16 | draw)}}, retries_).v[candidate % 4] *
        bound;
  }
  return product / kWords;
}

std::uint64_t SerialStream::below_wide(std::uint64_t draw, std::uint64_t bound) const {
  constexpr Whole kWords = Whole{1} << 64;
  Whole product = Whole{joined(philox({{low(node_), high(node_), tree_, low(draw)}}, draws_))} * bound;
  for (std::uint64_t attempt = 1; product % kWords < kWords % bound; ++attempt)
    product = Whole{joined(philox({{low(node_), high(node_), tree_, low(attempt << 16 | draw)}}, retries_))} *
              bound;
  return static_cast<std::uint64_t>(product / kWords);
}

}  // namespace hopfeed::bench
