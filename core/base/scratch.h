// Scratch is memory that a sampler keeps between batches: it grows, never shrinks, lies on 2 MiB pages where
// the machine gives them, and keeps its contents when it grows. A steady state allocates nothing. Where it
// grows the budget of the thread is asked (scratch_budget.h).
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/huge_pages.h"
#include "core/base/scratch_budget.h"

namespace hopfeed {

/// Returns `bytes` rounded up to whole pages, to huge ones where they are many.
inline std::size_t on_scratch_pages(std::size_t bytes) {
  const std::size_t page = bytes >= kHugePageBytes / 2 ? kHugePageBytes : kPageBytes;
  return (bytes + page - 1) / page * page;
}
/// Returns what an array can take that had to grow, step by step, until `bytes` fit.
inline std::size_t max_scratch_bytes(std::size_t bytes) { return on_scratch_pages(bytes + bytes / 2); }

template <class T>
class ScratchArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  ScratchArray() = default;
  ~ScratchArray() {
    if (data_) ::munmap(data_, bytes_);
  }
  ScratchArray(ScratchArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  ScratchArray& operator=(ScratchArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// Makes sure that `count` elements fit; new memory is zero. Throws std::bad_alloc, and kNoSpace where the
  /// thread's budget has no more; then nothing has changed.
  void reserve(std::size_t count) {
    if (count * sizeof(T) > bytes_) grow(count);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t capacity() const { return bytes_ / sizeof(T); }
  std::size_t bytes() const { return bytes_; }
  /// Returns what bytes() can come to where no more than `count` elements are ever asked for.
  static std::size_t max_bytes(std::size_t count) { return max_scratch_bytes(count * sizeof(T)); }

 private:
  void grow(std::size_t count) {
    const std::size_t needed = count * sizeof(T);
    std::size_t wanted = on_scratch_pages(std::max(needed, bytes_ + bytes_ / 2));
    ScratchBudget::Share* const share = ScratchBudget::share();
    if (share && !share->fits(wanted - bytes_)) wanted = on_scratch_pages(needed);  // without a reserve
    if (share) share->take(wanted - bytes_);
    try {
      data_ = static_cast<T*>(moved_to(wanted));
      bytes_ = wanted;
    } catch (...) {
      if (share) share->give(wanted - bytes_);
      throw;
    }
  }

  /// Returns what is there, moved to memory of `wanted` bytes.
  void* moved_to(std::size_t wanted) {
    // The reservation is larger than asked for and cut to a huge-page boundary, so that the whole of it can
    // lie on huge pages.
    const std::size_t slack = wanted % kHugePageBytes == 0 ? kHugePageBytes : 0;
    void* raw = ::mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    char* begin = static_cast<char*>(raw);
    if (slack) {
      char* aligned = reinterpret_cast<char*>((reinterpret_cast<std::size_t>(begin) + kHugePageBytes - 1) &
                                              ~(kHugePageBytes - 1));
      if (aligned > begin) ::munmap(begin, static_cast<std::size_t>(aligned - begin));
      if (aligned < begin + slack)
        ::munmap(aligned + wanted, static_cast<std::size_t>(begin + slack - aligned));
      begin = aligned;
    }
    if (bytes_ >= kHugePageBytes) {  // the pages themselves move, so that none is there twice
      if (::mremap(data_, bytes_, wanted, MREMAP_MAYMOVE | MREMAP_FIXED, begin) == MAP_FAILED)
        throw std::bad_alloc();
    }
    if (slack) ::madvise(begin, wanted, MADV_HUGEPAGE);
    if (data_ && bytes_ < kHugePageBytes) {
      __builtin_memcpy(begin, data_, bytes_);
      ::munmap(data_, bytes_);
    }
    return begin;
  }

  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hopfeed
