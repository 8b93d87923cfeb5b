// Memory that a sampler keeps between batches: grows, never shrinks, lies on 2 MiB pages where the machine
// gives them, and keeps its contents when it grows. A steady state allocates nothing.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/huge_pages.h"

namespace hopfeed {

/// What an array can take that had to grow, step by step, until `bytes` fit.
inline std::size_t max_scratch_bytes(std::size_t bytes) {
  const std::size_t grown = bytes + bytes / 2;
  const std::size_t page = grown >= kHugePageBytes / 2 ? kHugePageBytes : kPageBytes;
  return (grown + page - 1) / page * page;
}

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

  /// Room for `count` elements; new memory is zero. Throws std::bad_alloc.
  void reserve(std::size_t count) {
    if (count * sizeof(T) > bytes_) grow(count);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t capacity() const { return bytes_ / sizeof(T); }
  std::size_t bytes() const { return bytes_; }
  /// What bytes() can come to where no more than `count` elements are ever asked for.
  static std::size_t max_bytes(std::size_t count) { return max_scratch_bytes(count * sizeof(T)); }

 private:
  void grow(std::size_t count) {
    std::size_t wanted = count * sizeof(T);
    if (wanted < bytes_ + bytes_ / 2) wanted = bytes_ + bytes_ / 2;
    const std::size_t page = wanted >= kHugePageBytes / 2 ? kHugePageBytes : kPageBytes;
    wanted = (wanted + page - 1) / page * page;
    // A larger reservation than asked for, cut to a huge-page boundary, so that the whole of it can lie on
    // huge pages.
    const std::size_t slack = page == kHugePageBytes ? kHugePageBytes : 0;
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
      ::madvise(begin, wanted, MADV_HUGEPAGE);
    }
    if (data_) {
      __builtin_memcpy(begin, data_, bytes_);
      ::munmap(data_, bytes_);
    }
    data_ = reinterpret_cast<T*>(begin);
    bytes_ = wanted;
  }

  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace hopfeed
