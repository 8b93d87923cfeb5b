// RemoteIds are the nodes of other partitions that the rows of one have edges from, by rising dataset id, and
// the original id of each: with sharded ids nobody has those of all nodes. Buckets of equal width say where
// to begin, so that a look-up reads two places of memory whatever the number of nodes.
//
//   part-0000/ids/<type>/remote.npy    [r, 2] dataset id, original id
//   part-0000/ids/<type>/buckets.npy   [num_id_buckets(r) + 1] how many entries come before each bucket
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/element_type.h"
#include "core/base/prefetch.h"

namespace hopfeed {

/// Returns how many buckets so many entries are in: about eight in each, where they lie evenly.
constexpr std::int64_t num_id_buckets(std::int64_t entries) { return entries / 8 + 1; }
/// Returns what id_bucket() multiplies by, for numbers of [0, limit): 2^64 * buckets / limit, rounded down.
constexpr std::uint64_t id_bucket_scale(std::int64_t limit, std::int64_t buckets) {
  constexpr auto kMost = static_cast<unsigned __int128>(UINT64_MAX);
  const unsigned __int128 scale =
      (static_cast<unsigned __int128>(buckets) << 64) / static_cast<unsigned __int128>(limit > 0 ? limit : 1);
  return static_cast<std::uint64_t>(scale < kMost ? scale : kMost);
}
/// Returns the bucket of a number.
constexpr std::int64_t id_bucket(std::int64_t id, std::uint64_t scale) {
  return static_cast<std::int64_t>(static_cast<unsigned __int128>(id) * scale >> 64);
}

/// A view; the files' owner is Dataset.
struct RemoteIds {
  const std::byte* entries = nullptr;  // [count, 2] int32 or int64 (type)
  ElementType type = ElementType::kInt32;
  std::int64_t count = 0;
  std::uint64_t scale = 0;                     // id_bucket_scale() of the number of nodes
  std::span<const std::int64_t> buckets = {};  // [num_id_buckets(count) + 1], rising from 0 to count

  std::int64_t id(std::int64_t i) const { return number(2 * i); }
  std::int64_t original_id(std::int64_t i) const { return number(2 * i + 1); }

  /// Brings what find() begins with closer: first the bucket, then, some look-ups later, its entries.
  void prefetch_bucket(std::int64_t id) const { prefetch_line(buckets.data() + bucket(id)); }
  void prefetch_entries(std::int64_t id) const {
    const std::int64_t at = buckets[static_cast<std::size_t>(bucket(id))];
    const std::byte* const first = entries + static_cast<std::size_t>(at) * 2 * element_bytes(type);
    prefetch_line(first);  // about eight entries lie in two lines
    prefetch_line(first + 64);
  }
  /// Returns the place of an id of [0, limit); -1 where it has none. Damaged buckets find nothing, and no
  /// memory that is not the view's.
  std::int64_t find(std::int64_t id) const {
    if (count == 0) return -1;
    const std::int64_t b = bucket(id);
    std::int64_t lo = std::clamp<std::int64_t>(buckets[static_cast<std::size_t>(b)], 0, count),
                 hi = std::clamp<std::int64_t>(buckets[static_cast<std::size_t>(b) + 1], lo, count);
    const std::int64_t end = hi;
    while (lo < hi) {
      const std::int64_t mid = lo + (hi - lo) / 2;
      if (this->id(mid) < id)
        lo = mid + 1;
      else
        hi = mid;
    }
    return lo < end && this->id(lo) == id ? lo : -1;
  }

 private:
  std::int64_t bucket(std::int64_t id) const { return id_bucket(id, scale); }
  std::int64_t number(std::int64_t i) const {
    return type == ElementType::kInt32 ? reinterpret_cast<const std::int32_t*>(entries)[i]
                                       : reinterpret_cast<const std::int64_t*>(entries)[i];
  }
};

}  // namespace hopfeed
