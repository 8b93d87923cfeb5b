// Where rows of all nodes of a type lie: in several arrays, as files of a dataset's partitions and of layers'
// shards do, or behind one another by rising id, as those that were fetched from other machines.
//
// Whoever reads a row for each edge reads at places that no cache knows: rows are asked for some edges before
// they are read, as sampling does (core/sampler/row_pipeline.h).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/prefetch.h"
#include "core/base/ranked_set.h"

namespace hopfeed {

/// RowTable is a view: array s has the rows [starts[s], starts[s + 1]), `stride` bytes apart. Of rows that no
/// array has (address 0), some lie together elsewhere, by rising id.
struct RowTable {
  std::span<const std::int64_t> starts;   // rising, one more than arrays
  std::span<const std::uint64_t> arrays;  // addresses
  std::size_t stride = 0;
  const RankedSet* elsewhere = nullptr;  // ids of those, its limit starts.back(); null: there are none
  const std::byte* elsewhere_rows = nullptr;
  std::size_t elsewhere_stride = 0;

  /// Returns the rows of an array; null where they are not here.
  const std::byte* rows_of(std::size_t array) const {
    return reinterpret_cast<const std::byte*>(arrays[array]);
  }
  std::int64_t height(std::size_t array) const { return starts[array + 1] - starts[array]; }
};

/// Returns whether all ids are of rows in [starts.front(), starts.back()).
template <class Id>
bool are_rows(const RowTable& table, std::span<const Id> ids) {
  const std::int64_t first = table.starts.front(), last = table.starts.back();
  return std::all_of(ids.begin(), ids.end(), [&](Id id) { return id >= first && id < last; });
}

/// PlaceFinder says where a row lies, at once where that is the array of the last one.
class PlaceFinder {
 public:
  explicit PlaceFinder(const RowTable& table) : table_(table) {}

  /// Of an id that are_rows() takes. Throws kCorrupt naming a row that lies nowhere.
  [[gnu::always_inline]] const std::byte* find(std::int64_t id) {
    if (id >= begin_ && id < end_) return rows_ + static_cast<std::size_t>(id - begin_) * table_.stride;
    return look_up(id);
  }

 private:
  /// Of any array, and of those elsewhere.
  const std::byte* look_up(std::int64_t id);

  const RowTable& table_;
  std::int64_t begin_ = 0, end_ = 0;  // of the array that the last row was found in
  const std::byte* rows_ = nullptr;
};

/// PlacesAhead gives the places of rows in their order, and has asked for the next ones. What it is made of
/// must outlive it.
template <class Id>
class PlacesAhead {
 public:
  /// Of ids that are_rows() takes, `bytes` of each row. Throws kCorrupt, as next() does, naming a row that
  /// lies nowhere.
  [[gnu::always_inline]] PlacesAhead(const RowTable& table, std::span<const Id> ids, std::size_t bytes)
      : finder_(table), ids_(ids), lines_(std::min((bytes + kLineBytes - 1) / kLineBytes, kMostLines)) {
    for (std::size_t i = 0; i < std::min(kRowsAhead, ids_.size()); ++i) places_[i] = ask(i);
  }
  /// There is a next one.
  [[gnu::always_inline]] const std::byte* next() {
    const std::byte*& place = places_[given_ % kRowsAhead];
    const std::byte* const row = place;
    const std::size_t later = given_++ + kRowsAhead;
    if (later < ids_.size()) place = ask(later);
    return row;
  }

 private:
  static constexpr std::size_t kRowsAhead = 16, kLineBytes = 64, kMostLines = 8;

  [[gnu::always_inline]] const std::byte* ask(std::size_t i) {
    const std::byte* const row = finder_.find(static_cast<std::int64_t>(ids_[i]));
    for (std::size_t line = 0; line < lines_; ++line) prefetch_line(row + line * kLineBytes);
    return row;
  }

  PlaceFinder finder_;
  std::span<const Id> ids_;
  std::size_t lines_, given_ = 0;
  const std::byte* places_[kRowsAhead] = {};
};

}  // namespace hopfeed
