// This is the rule of layer-dependent sampling, LABOR-0 (Balin & Catalyurek, "Layer-Neighbor Sampling --
// Defusing Neighborhood Explosion in GNNs", NeurIPS 2023): all destinations of a hop look at one variate of
// each source, so that they take the same sources where they can. Host and device compile this same text.
//
// A destination of degree d takes the edge from t where variate(t) < k / d: each of its edges with
// probability k / d, about k in all, at most d. Both sides are integers, in units of 2^-63.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"
#include "core/draws/keyed_random.h"

namespace hopfeed {

/// So many hops have their variates from one run of the generator: what hashes all nodes hashes them once for
/// all of these. The hop in the stream's key is hop / kLaborHops.
inline constexpr std::uint32_t kLaborHops = 4;

/// Returns the variate in a hop of the stream's node, the source by its original id.
HOPFEED_HOST_DEVICE inline std::uint64_t labor_variate(const NodeStream& stream, std::uint32_t hop) {
  const std::uint32_t word = hop % kLaborHops;
  return static_cast<std::uint64_t>(stream.words(0).word[word]) << 31 | stream.words(1).word[word] >> 1;
}

/// Returns floor(2^63 * fanout / degree) for 0 <= fanout < degree.
HOPFEED_HOST_DEVICE inline std::uint64_t labor_threshold(std::uint64_t fanout, std::uint64_t degree) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(fanout) << 63) / degree);
}

}  // namespace hopfeed
