// See bare_rows.h. Rows are asked for ahead, as the shortest loop that is quick does.
#include "bench/state/bare_rows.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/base/error.h"
#include "core/base/huge_pages.h"
#include "core/base/memory_limits.h"
#include "core/base/prefetch.h"

namespace hopfeed::bench {
namespace {

constexpr std::size_t kAhead = 8;

std::byte* mapped(std::size_t bytes) {
  require_memory(bytes, available_memory(), "the array that owners are held against", "fewer --rows");
  void* const memory =
      mmap(huge_page_hint(bytes), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw_errno("cannot map the rows of a limit", errno);
  advise_pages({static_cast<std::byte*>(memory), bytes}, HugePages::kAuto);
  return static_cast<std::byte*>(memory);
}

}  // namespace

BareRows::BareRows(std::int64_t rows, std::size_t stride)
    : bytes_(static_cast<std::size_t>(rows) * stride), stride_(stride), memory_(mapped(bytes_)) {
  std::memset(memory_, 1, bytes_);
}

BareRows::~BareRows() { munmap(memory_, bytes_); }

void BareRows::gather(std::span<const std::int64_t> rows, std::size_t row_bytes, std::byte* out) const {
  for (std::size_t i = 0; i < rows.size(); ++i, out += row_bytes) {
    if (i + kAhead < rows.size()) {
      const std::byte* const ahead = memory_ + static_cast<std::size_t>(rows[i + kAhead]) * stride_;
      for (std::size_t b = 0; b < row_bytes; b += 64) prefetch_line(ahead + b);
    }
    std::memcpy(out, memory_ + static_cast<std::size_t>(rows[i]) * stride_, row_bytes);
  }
}

void BareRows::scatter(std::span<const std::int64_t> rows, std::size_t row_bytes, const std::byte* from) {
  for (std::size_t i = 0; i < rows.size(); ++i, from += row_bytes) {
    if (i + kAhead < rows.size()) {
      std::byte* const ahead = memory_ + static_cast<std::size_t>(rows[i + kAhead]) * stride_;
      for (std::size_t b = 0; b < row_bytes; b += 64) prefetch_line_to_write(ahead + b);
    }
    std::memcpy(memory_ + static_cast<std::size_t>(rows[i]) * stride_, from, row_bytes);
  }
}

}  // namespace hopfeed::bench
