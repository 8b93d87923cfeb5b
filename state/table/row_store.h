// A RowStore keeps the rows of a table that were written, side by side in the order of their first writing,
// and for all others nothing but an index: 4 bytes a row, and pages of these come into being with the first
// row that they name. So a table of which few rows are written, wherever they lie, takes the memory of these.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/prefetch.h"

namespace hopfeed {

/// How far ahead a loop over rows asks for what it will read: rows lie anywhere in gigabytes, and so do their
/// places in the index.
inline constexpr std::size_t kIndexAhead = 16, kRowsAhead = 8;

class RowStore {
 public:
  /// `what` and `knobs` are for messages. Throws kNoSpace where the machine has not the memory for all rows,
  /// kInvalid for more than 2^32 - 2 rows.
  RowStore(std::int64_t rows, std::size_t row_bytes, const char* what, const char* knobs);

  std::int64_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::int64_t num_written() const { return next_.load(std::memory_order_relaxed) - 1; }

  /// Returns where a row lies; null: it was never written. Beside others that read; and beside others that
  /// write, where no two touch the same row.
  std::byte* find(std::int64_t row) const {
    const std::uint32_t place = index_.get()[row];
    return place == 0 ? nullptr : at(place);
  }
  /// Returns the place of a row that has none yet, all zeros. As find().
  std::byte* make(std::int64_t row) {
    const std::uint32_t place = next_.fetch_add(1, std::memory_order_relaxed);
    index_.get()[row] = place;
    return at(place);
  }
  /// Asks for what find() reads, then for the row itself.
  void prefetch_index(std::int64_t row) const { prefetch_line(index_.get() + row); }
  void prefetch_row(std::int64_t row) const {
    const std::byte* place = find(row);
    if (place == nullptr) return;
    for (std::size_t b = 0; b < row_bytes_; b += 64) prefetch_line_to_write(place + b);
  }
  /// Asks for the first bytes of the row alone, to read them.
  void prefetch_start(std::int64_t row, std::size_t bytes) const {
    const std::byte* place = find(row);
    if (place == nullptr) return;
    for (std::size_t b = 0; b < bytes; b += 64) prefetch_line(place + b);
  }
  /// Calls `each(row, bytes)` for rows that were written, ascending.
  void for_each_written(const std::function<void(std::int64_t row, const std::byte* bytes)>& each) const;
  /// Forgets all rows, and gives their memory back.
  void clear();
  /// Returns the bytes that written rows and the whole index take.
  std::size_t bytes() const {
    return static_cast<std::size_t>(num_written()) * row_bytes_ + static_cast<std::size_t>(rows_) * 4;
  }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(void* memory) const;
  };
  template <class T>
  using Mapping = std::unique_ptr<T, Unmap>;

  template <class T>
  static Mapping<T> map(std::size_t bytes);
  std::byte* at(std::uint32_t place) const { return memory_.get() + (place - 1) * row_bytes_; }

  const std::int64_t rows_;
  const std::size_t row_bytes_;
  Mapping<std::uint32_t> index_{nullptr, Unmap{0}};  // per row its place, counted from 1; 0: none
  Mapping<std::byte> memory_{nullptr, Unmap{0}};
  std::atomic<std::uint32_t> next_{1};
};

}  // namespace hopfeed
