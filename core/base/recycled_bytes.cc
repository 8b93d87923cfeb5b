// See recycled_bytes.h and trim_recycled.h.
#include "core/base/recycled_bytes.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>

#include "core/base/thread_annotations.h"
#include "core/base/trim_recycled.h"

namespace hopfeed {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10;  // smaller ones malloc is quick with
constexpr std::align_val_t kAlignment{64};

/// Blocks of one size. The last one that came is the first to go.
struct FreeList {
  std::vector<void*> blocks;
  std::size_t untouched = 0;  // of those at the beginning: have been there since the last trim_recycled()
};

/// Lists of blocks by their size, a power of two.
struct Pool {
  Mutex mutex;
  std::array<FreeList, 64> free GUARDED_BY(mutex);
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
    FreeList& list = all.free[static_cast<std::size_t>(std::countr_zero(size))];
    if (!list.blocks.empty()) {
      void* const memory = list.blocks.back();
      list.blocks.pop_back();
      list.untouched = std::min(list.untouched, list.blocks.size());
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
        all.free[static_cast<std::size_t>(std::countr_zero(size))].blocks.push_back(memory);
        all.kept += size;
        return;
      } catch (const std::bad_alloc&) {  // then it is given back
      }
    }
  }
  ::operator delete(memory, kAlignment);
}

void trim_recycled() noexcept {
  Pool& all = pool();
  bool any = false;
  for (std::size_t bits = 0; bits < 64; ++bits) {
    std::vector<void*> gone;  // given back while nobody waits
    {
      const MutexLock lock(all.mutex);
      FreeList& list = all.free[bits];
      const auto end = list.blocks.begin() + static_cast<std::ptrdiff_t>(list.untouched);
      try {
        gone.assign(list.blocks.begin(), end);
      } catch (const std::bad_alloc&) {  // the next call is lucky
        continue;
      }
      list.blocks.erase(list.blocks.begin(), end);
      list.untouched = list.blocks.size();
      all.kept -= gone.size() << bits;
    }
    for (void* const memory : gone) ::operator delete(memory, kAlignment);
    any = any || !gone.empty();
  }
  if (any) malloc_trim(0);  // what malloc has kept of it, and of what was beside it
}

}  // namespace hopfeed
