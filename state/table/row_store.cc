// See row_store.h.
#include "state/table/row_store.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>

#include "core/base/error.h"
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
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
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
}

void RowStore::clear() {
  if (rows_ == 0) return;
  madvise(index_.get(), index_.get_deleter().bytes, MADV_DONTNEED);  // zeros again
  madvise(memory_.get(), memory_.get_deleter().bytes, MADV_DONTNEED);
  next_ = 1;
}

}  // namespace hopfeed
