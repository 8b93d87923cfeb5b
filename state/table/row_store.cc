// See row_store.h.
#include "state/table/row_store.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/error.h"
#include "core/base/huge_pages.h"
#include "core/base/memory_limits.h"
#include "core/base/saturating.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kMostRows = 0xFFFFFFFE;

}  // namespace

void RowStore::Unmap::operator()(void* memory) const { munmap(memory, bytes); }

template <class T>
RowStore::Mapping<T> RowStore::map(std::size_t bytes) {
  if (bytes == 0) return {nullptr, Unmap{0}};
  void* memory = mmap(huge_page_hint(bytes), bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw_errno("cannot map the memory of a table", errno);
  return {static_cast<T*>(memory), Unmap{bytes}};
}

RowStore::RowStore(std::int64_t rows, std::size_t row_bytes, const char* what, const char* knobs)
    : rows_(rows), row_bytes_(row_bytes) {
  require_valid(rows >= 0 && rows <= kMostRows,
                fmt::format("{} has {} rows; use 0 to {} in one place", what, rows, kMostRows));
  const auto per_row = static_cast<std::int64_t>(row_bytes);
  const auto all = static_cast<std::uint64_t>(saturating_product(rows, per_row)),
             index = static_cast<std::uint64_t>(rows) * sizeof(std::uint32_t);
  require_memory(all + index, available_memory(),
                 fmt::format("{} of {} rows of {} bytes", what, rows, row_bytes), knobs);
  index_ = map<std::uint32_t>(index);
  memory_ = map<std::byte>(all);
  // Written rows fill it from its beginning, so large pages are full; those of the index would not be.
  advise_pages({memory_.get(), static_cast<std::size_t>(all)}, HugePages::kAuto);
}

void RowStore::for_each_written(
    const std::function<void(std::int64_t row, const std::byte* bytes)>& each) const {
  std::array<std::pair<std::int64_t, const std::byte*>, kRowsAhead * 4>
      ahead{};  // asked for, and not read yet
  std::size_t seen = 0;
  const auto give = [&](std::size_t number) {
    const auto& [row, bytes] = ahead[number % ahead.size()];
    each(row, bytes);
  };
  const auto written = static_cast<std::size_t>(num_written());
  for (std::int64_t row = 0; seen < written; ++row) {
    const std::uint32_t place = index_.get()[row];
    if (place == 0) continue;
    if (seen >= ahead.size()) give(seen);
    ahead[seen++ % ahead.size()] = {row, at(place)};
    for (std::size_t b = 0; b < row_bytes_; b += 64) prefetch_line(at(place) + b);
  }
  for (std::size_t number = seen - std::min(seen, ahead.size()); number < seen; ++number) give(number);
}

void RowStore::clear() {
  if (rows_ == 0) return;
  madvise(index_.get(), index_.get_deleter().bytes, MADV_DONTNEED);  // zeros again
  madvise(memory_.get(), memory_.get_deleter().bytes, MADV_DONTNEED);
  next_ = 1;
}

}  // namespace hopfeed
