// See recycled_bytes.h.
#include "core/base/recycled_bytes.h"

#include <array>
#include <bit>
#include <new>

#include "core/base/thread_annotations.h"

namespace hopfeed {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10;  // smaller ones malloc is quick with
constexpr std::align_val_t kAlignment{64};

/// Lists of blocks by their size, a power of two.
struct Pool {
  Mutex mutex;
  std::array<std::vector<void*>, 64> free GUARDED_BY(mutex);
  std::size_t kept GUARDED_BY(mutex) = 0;
};

Pool& pool() {
  static Pool* const the_one = new Pool;  // never ends: some are given back by what ends after it
  return *the_one;
}

}  // namespace

void* take_recycled(std::size_t bytes) {
  if (bytes < kLeast) return ::operator new(bytes, kAlignment);
  const std::size_t size = std::bit_ceil(bytes);
  {
    Pool& all = pool();
    const MutexLock lock(all.mutex);
    std::vector<void*>& list = all.free[static_cast<std::size_t>(std::countr_zero(size))];
    if (!list.empty()) {
      void* const memory = list.back();
      list.pop_back();
      all.kept -= size;
      return memory;
    }
  }
  return ::operator new(size, kAlignment);
}

void give_recycled(void* memory, std::size_t bytes) noexcept {
  if (bytes >= kLeast) {
    const std::size_t size = std::bit_ceil(bytes);
    Pool& all = pool();
    const MutexLock lock(all.mutex);
    if (all.kept + size <= kMaxRecycledBytes) {
      try {
        all.free[static_cast<std::size_t>(std::countr_zero(size))].push_back(memory);
        all.kept += size;
        return;
      } catch (const std::bad_alloc&) {  // then it is given back
      }
    }
  }
  ::operator delete(memory, kAlignment);
}

}  // namespace hopfeed
