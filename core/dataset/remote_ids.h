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

  /// Returns the place of an id of [0, limit); -1 where it has none. Damaged buckets find nothing, and no
  /// memory that is not the view's.
  std::int64_t find(std::int64_t id) const {
    return type == ElementType::kInt32 ? find_in<std::int32_t>(id) : find_in<std::int64_t>(id);
  }

  // For many look-ups, by callers that have asked what `type` is. There must be entries.

  /// Brings what find_in() begins with closer: first the bucket, then, some look-ups later, its entry.
  void prefetch_bucket(std::int64_t id) const { prefetch_line(buckets.data() + id_bucket(id, scale)); }
  template <class Id>
  void prefetch_entry(std::int64_t id) const {
    const Span span = span_of(id);
    prefetch_line(reinterpret_cast<const Id*>(entries) + 2 * span.guess);
  }
  template <class Id>
  std::int64_t find_in(std::int64_t id) const {
    if (count == 0) return -1;
    const Id* const all = reinterpret_cast<const Id*>(entries);
    auto [begin, end, guess] = span_of(id);
    if (begin == end) return -1;
    if (all[2 * guess] == id) return guess;
    // Away from the guess by steps that double, for it is near; then by halves.
    std::int64_t step = 1;
    if (all[2 * guess] < id) {
      for (begin = guess; begin + step < end && all[2 * (begin + step)] < id; step *= 2) begin += step;
      end = std::min(end, begin + step + 1);
    } else {
      for (end = guess; end - step >= begin && all[2 * (end - step)] > id; step *= 2) end -= step;
      begin = std::max(begin, end - step);
    }
    while (begin < end) {
      const std::int64_t middle = begin + (end - begin) / 2;
      if (all[2 * middle] == id) return middle;
      (all[2 * middle] < id ? begin : end) = middle + (all[2 * middle] < id);
    }
    return -1;
  }

 private:
  struct Span {
    std::int64_t begin, end;  // of its bucket
    std::int64_t guess;       // where it is, if the bucket's ids lie evenly
  };
  Span span_of(std::int64_t id) const {
    const unsigned __int128 place = static_cast<unsigned __int128>(id) * scale;
    const auto bucket = static_cast<std::size_t>(place >> 64);
    const std::int64_t begin = std::clamp<std::int64_t>(buckets[bucket], 0, count),
                       end = std::clamp<std::int64_t>(buckets[bucket + 1], begin, count);
    const auto share = static_cast<std::uint64_t>(place);  // of the bucket's width, in 2^-64
    return {.begin = begin,
            .end = end,
            .guess = begin + static_cast<std::int64_t>(static_cast<unsigned __int128>(share) *
                                                           static_cast<std::uint64_t>(end - begin) >>
                                                       64)};
  }
  std::int64_t number(std::int64_t i) const {
    return type == ElementType::kInt32 ? reinterpret_cast<const std::int32_t*>(entries)[i]
                                       : reinterpret_cast<const std::int64_t*>(entries)[i];
  }
};

}  // namespace hopfeed
