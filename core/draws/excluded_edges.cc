// See excluded_edges.h.
#include "core/draws/excluded_edges.h"

#include <algorithm>
#include <bit>

namespace hopfeed {
namespace {

constexpr std::size_t kWordBits = 64,
                      kBitsPerDestination = 16;  // so that one row in sixteen is asked about in vain

}  // namespace

void ExcludedEdges::begin(int num_edge_types) {
  types_.resize(static_cast<std::size_t>(num_edge_types));
  for (Type& type : types_) {
    type.pairs.clear();
    type.sources.clear();
    type.destinations.clear();
    type.first.clear();
  }
}

void ExcludedEdges::add(int edge_type, std::int64_t src, std::int64_t dst) {
  types_[static_cast<std::size_t>(edge_type)].pairs.push_back({dst, src});
}

void ExcludedEdges::finish() {
  for (Type& type : types_) {
    if (type.pairs.empty()) continue;
    std::ranges::sort(type.pairs);
    type.pairs.erase(std::ranges::unique(type.pairs).begin(), type.pairs.end());
    for (const Pair& pair : type.pairs) {
      if (type.destinations.empty() || type.destinations.back() != pair.dst) {
        type.destinations.push_back(pair.dst);
        type.first.push_back(type.sources.size());
      }
      type.sources.push_back(pair.src);
    }
    type.first.push_back(type.sources.size());
    const std::size_t bits =
        std::bit_ceil(std::max(kWordBits, type.destinations.size() * kBitsPerDestination));
    type.filter_bits = std::countr_zero(bits);
    type.filter.assign(bits / kWordBits, 0);
    for (const std::int64_t dst : type.destinations) {
      const std::uint64_t bit = type.bit_of(dst);
      type.filter[bit / kWordBits] |= std::uint64_t{1} << bit % kWordBits;
    }
  }
}

std::span<const std::int64_t> ExcludedEdges::sources_of(int edge_type, std::int64_t dst) const {
  const Type& type = types_[static_cast<std::size_t>(edge_type)];
  if (type.sources.empty()) return {};
  const std::uint64_t bit = type.bit_of(dst);
  if ((type.filter[bit / kWordBits] >> bit % kWordBits & 1) == 0) return {};
  const auto found = std::ranges::lower_bound(type.destinations, dst);
  if (found == type.destinations.end() || *found != dst) return {};
  const auto number = static_cast<std::size_t>(found - type.destinations.begin());
  return std::span(type.sources).subspan(type.first[number], type.first[number + 1] - type.first[number]);
}

bool ExcludedEdges::contains(int edge_type, std::int64_t src, std::int64_t dst) const {
  return std::ranges::binary_search(sources_of(edge_type, dst), src);
}

std::size_t ExcludedEdges::bytes() const {
  std::size_t bytes = types_.capacity() * sizeof(Type);
  for (const Type& type : types_)
    bytes += type.pairs.capacity() * sizeof(Pair) +
             (type.sources.capacity() + type.destinations.capacity()) * sizeof(std::int64_t) +
             type.first.capacity() * sizeof(std::size_t) + type.filter.capacity() * sizeof(std::uint64_t);
  return bytes;
}

std::size_t ExcludedEdges::max_bytes(int num_edge_types, std::size_t pairs) {
  const std::size_t filter = 2 * pairs * kBitsPerDestination / 8,  // of which finish() makes a power of two
      lists = pairs * (sizeof(Pair) + 2 * sizeof(std::int64_t) + sizeof(std::size_t)),
                    of_a_type = sizeof(Type) + 2 * (sizeof(std::size_t) + kWordBits / 8);
  return 2 * (lists + filter) + static_cast<std::size_t>(num_edge_types) * of_a_type;  // lists that grew
}

}  // namespace hopfeed
