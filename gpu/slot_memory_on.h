// The memory of a channel whose blocks lie on a device (host_backend.h says what a backend is): the same
// range of addresses twice, on the host and on the device. What is reserved is backed on the device, in whole
// units of the backend's; the host's pages come as they are touched, since of a block only its head and its
// small arrays are written there.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "channel/memory.h"

namespace hopfeed::gpu {

template <class Backend>
class SlotMemoryOn final : public ChannelMemory, public DeviceSide {
 public:
  /// Throws what the backend throws.
  SlotMemoryOn(std::size_t size, const typename Backend::Options& options)
      : backend_(options), unit_(backend_.backing_unit()) {
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
    settle(0, size_);
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
    settle(offset, bytes);
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
  DeviceSide* device_side() override { return this; }

  // ---- the device's side
  std::byte* data() const override { return device_; }
  std::byte* host_data() const { return data_; }
  int device() const override { return backend_.device(); }
  void read(std::size_t offset, std::size_t bytes, std::byte* to) override {
    const typename Backend::Scope scope(backend_);
    const std::lock_guard lock(mutex_);
    backend_.copy(to, device_ + offset, bytes);
    backend_.wait();
  }
  void used_on(std::size_t offset, void* stream) override {
    const typename Backend::Scope scope(backend_);
    const std::lock_guard lock(mutex_);
    uses_[offset].push_back(backend_.mark(stream));
  }
  /// Work that is asked of `writer` from now on comes after all that uses the slot at `offset`.
  void before_write(std::size_t offset, Backend& writer) {
    const std::lock_guard lock(mutex_);
    const auto uses = uses_.find(offset);
    if (uses == uses_.end()) return;
    for (const auto& mark : uses->second) {
      writer.come_after(mark);
      backend_.drop(mark);
    }
    uses_.erase(uses);
  }

 private:
  static std::byte* map_host(std::size_t size) {
    void* const at =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    return static_cast<std::byte*>(at);
  }
  /// Waits for all that uses slots that begin in the range.
  void settle(std::size_t offset, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto first = uses_.lower_bound(offset), end = uses_.lower_bound(offset + bytes);
    for (auto slot = first; slot != end; ++slot)
      for (const auto& mark : slot->second) {
        backend_.await(mark);
        backend_.drop(mark);
      }
    uses_.erase(first, end);
  }

  std::mutex mutex_;  // of what follows; reserve and punch are the planner's alone
  Backend backend_;
  std::map<std::size_t, std::vector<typename Backend::Mark>> uses_;  // by the offset of the slot
  const std::size_t unit_;
  std::byte* device_ = nullptr;
  std::vector<bool> reserved_;        // [pages]
  std::vector<std::uint32_t> pages_;  // [units] reserved ones of each
};

}  // namespace hopfeed::gpu
