// CacheTable has what a section knows of rows (CacheRow), and belongs to whoever has the section's mutex.
//
// Where the budget allows, each row of the attribute has its entry. Else entries are those of the rows that
// matter: that have a frame, or that an announced batch wants. A row may lie in any of the eight places of
// its bucket, and stays where it is; one that does not matter any more gives its place to the next row that
// wants it, so that nothing is ever moved or tidied up. What finds no place is not known: that costs a hit,
// never a byte.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cache/cache_layout.h"
#include "core/base/prefetch.h"

namespace hopfeed {

class CacheTable {
 public:
  CacheTable(std::byte* memory, const CacheSectionShape& shape)
      : rows_(reinterpret_cast<CacheRow*>(memory + shape.rows_offset)),
        keys_(shape.num_places == 0 ? nullptr : reinterpret_cast<std::uint64_t*>(memory + shape.keys_offset)),
        buckets_(shape.num_places / kPlacesOfABucket),
        size_(shape.num_places == 0 ? static_cast<std::uint64_t>(shape.rows) : shape.num_places) {}

  /// Returns the row's entry; null: nothing is known of it.
  CacheRow* find(std::int64_t row) const {
    if (keys_ == nullptr) return rows_ + row;
    const std::uint64_t first = bucket(row), key = key_of(row);
    unsigned found = 0;  // a bit for each place: eight compares cost less than a branch that is guessed wrong
    for (unsigned i = 0; i < kPlacesOfABucket; ++i)
      found |= static_cast<unsigned>(keys_[first + i] == key) << i;
    return found == 0 ? nullptr : rows_ + first + static_cast<unsigned>(std::countr_zero(found));
  }
  /// Over says whose places a row may take.
  enum class Over { kNobody, kWishes };
  /// Returns the row's entry, a new one where it has none; null: all places of its bucket are taken, by rows
  /// with frames or by those that the tickets `active` want.
  CacheRow* place(std::int64_t row, std::uint32_t active, Over over) const {
    if (CacheRow* const found = find(row); found != nullptr) return found;
    const std::uint64_t first = bucket(row), end = first + kPlacesOfABucket;
    std::uint64_t at = end, wish = end;
    for (std::uint64_t i = first; i < end && at == end; ++i) {
      if (keys_[i] == 0 || is_free(rows_[i], active)) at = i;
      if (rows_[i].frame == 0) wish = i;
    }
    if (at == end && over == Over::kWishes) at = wish;
    if (at == end) return nullptr;
    // In this order, in a process that may die in between: no row has what was another's.
    rows_[at] = {};
    std::atomic_signal_fence(std::memory_order_release);
    keys_[at] = key_of(row);
    return rows_ + at;
  }
  /// Returns the number of its entries, and an entry by number, whosever it is.
  std::uint64_t size() const { return size_; }
  CacheRow& entry(std::uint64_t number) const { return rows_[number]; }

  /// Has what find() reads fetched.
  void prefetch(std::int64_t row) const {
    if (keys_ == nullptr) return prefetch_line_to_write(rows_ + row);
    const std::uint64_t first = bucket(row);
    prefetch_line_to_write(keys_ + first);
    prefetch_line_to_write(rows_ + first);
  }

 private:
  static bool is_free(const CacheRow& row, std::uint32_t active) {
    return row.frame == 0 && (row.wanted & active) == 0;
  }
  static std::uint64_t key_of(std::int64_t row) { return static_cast<std::uint64_t>(row) + 1; }
  /// Returns the first place of its bucket: the upper half of a product, so that neighbouring rows, which are
  /// hot together, lie far apart and spread evenly.
  std::uint64_t bucket(std::int64_t row) const {
    const std::uint64_t mixed = static_cast<std::uint64_t>(row) * 0x9E3779B97F4A7C15U;
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(mixed) * buckets_ >> 64) *
           kPlacesOfABucket;
  }

  CacheRow* const rows_;
  std::uint64_t* const keys_;  // row + 1 of each entry, 0: none yet; null: entries are the rows
  const std::uint64_t buckets_, size_;
};

}  // namespace hopfeed
