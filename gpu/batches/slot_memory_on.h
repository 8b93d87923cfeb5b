// SlotMemoryOn is the memory of a channel of one process whose blocks lie on a device: the same range of
// addresses twice, on the host and on the device. What is reserved is backed on the device, in whole units of
// the backend's; the host's pages come as they are touched, since of a block only its head and its small
// arrays are written there.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "gpu/batches/slots_on.h"

namespace hopfeed::gpu {

template <class Backend>
class SlotMemoryOn final : public SlotsOn<Backend> {
 public:
  /// Throws what the backend throws.
  SlotMemoryOn(std::size_t size, const typename Backend::Options& options)
      : SlotsOn<Backend>(options), unit_(backend_.backing_unit()) {
    const typename Backend::Scope scope(backend_);
    size_ = round_up(size, unit_);
    data_ = map_host(size_);
    try {
      device_ = backend_.reserve_range(size_);
    } catch (...) {
      munmap(data_, size_);
      throw;
    }
    reserved_.resize(size_ / kPageBytes);
    pages_.resize(size_ / unit_);
  }
  ~SlotMemoryOn() override {
    const typename Backend::Scope scope(backend_);
    this->settle(0, size_);
    for (std::size_t unit = 0; unit < pages_.size(); ++unit)
      if (pages_[unit] > 0) backend_.unback(device_ + unit * unit_, unit_);
    backend_.free_range(device_, size_);
    munmap(data_, size_);
  }

  void reserve(std::size_t offset, std::size_t bytes) override {
    const typename Backend::Scope scope(backend_);
    for (std::size_t page = offset / kPageBytes; page < round_up(offset + bytes, kPageBytes) / kPageBytes;
         ++page) {
      if (reserved_[page]) continue;
      std::uint32_t& pages = pages_[page * kPageBytes / unit_];
      if (pages == 0) backend_.back(device_ + page * kPageBytes / unit_ * unit_, unit_);
      ++pages;
      reserved_[page] = true;
    }
  }
  void punch(std::size_t offset, std::size_t bytes) override {
    const typename Backend::Scope scope(backend_);
    this->settle(offset, bytes);
    const std::size_t first = offset / kPageBytes, end = round_up(offset + bytes, kPageBytes) / kPageBytes;
    for (std::size_t page = first; page < end; ++page) {
      if (!reserved_[page]) continue;
      reserved_[page] = false;
      if (--pages_[page * kPageBytes / unit_] == 0)
        backend_.unback(device_ + page * kPageBytes / unit_ * unit_, unit_);
    }
    madvise(data_ + first * kPageBytes, (end - first) * kPageBytes, MADV_DONTNEED);
  }
  std::size_t allocated() const override {
    return static_cast<std::size_t>(std::ranges::count(reserved_, true)) * kPageBytes;
  }

 private:
  using SlotsOn<Backend>::backend_;
  using SlotsOn<Backend>::device_;
  using ChannelMemory::data_;
  using ChannelMemory::size_;

  static std::byte* map_host(std::size_t size) {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(at);
  }

  const std::size_t unit_;
  // These are the planner's alone, as reserve and punch are:
  std::vector<bool> reserved_;        // [pages]
  std::vector<std::uint32_t> pages_;  // [units] reserved ones of each
};

}  // namespace hopfeed::gpu
