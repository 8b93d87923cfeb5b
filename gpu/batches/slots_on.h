// SlotsOn is what all memory of a channel has in common whose blocks lie on a device (host_backend.h says
// what a backend is): the same offsets on the host and on the device, reads by the host, and marks of the
// streams of this process that read a slot.
#pragma once
#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "channel/memory.h"

namespace hopfeed::gpu {

template <class Backend>
class SlotsOn : public ChannelMemory, public DeviceSide {
 public:
  DeviceSide* device_side() override { return this; }
  std::byte* host_data() const { return data_; }

  // ---- the device's side
  std::byte* data() const override { return device_; }
  int device() const override { return backend_.device(); }
  void read(std::size_t offset, std::size_t bytes, std::byte* to) override {
    const typename Backend::Scope scope(backend_);
    const std::lock_guard lock(mutex_);
    backend_.copy(to, device_ + offset, bytes);
    backend_.wait();
  }
  void used_on(std::size_t offset, GpuStream stream) override {
    const std::lock_guard lock(mutex_);
    uses_[offset].push_back(backend_.mark(stream));
  }
  /// Has work that is asked of `writer` from now on come after all that uses the slot at `offset`.
  virtual void before_write(std::size_t offset, Backend& writer) {
    const std::lock_guard lock(mutex_);
    const auto uses = uses_.find(offset);
    if (uses == uses_.end()) return;
    for (const auto& mark : uses->second) {
      writer.come_after(mark);
      backend_.drop(mark);
    }
    uses_.erase(uses);
  }

 protected:
  explicit SlotsOn(const typename Backend::Options& options) : backend_(options) {}

  /// Waits for all that uses slots that begin in the range.
  void settle(std::size_t offset, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto first = uses_.lower_bound(offset), end = uses_.lower_bound(offset + bytes);
    for (auto slot = first; slot != end; ++slot) await(slot->second);
    uses_.erase(first, end);
  }
  /// Returns whether settle() of the slot would not wait; then that is done.
  bool try_settle(std::size_t offset) {
    const std::lock_guard lock(mutex_);
    const auto uses = uses_.find(offset);
    if (uses == uses_.end()) return true;
    for (const auto& mark : uses->second)
      if (!backend_.done(mark)) return false;
    await(uses->second);
    uses_.erase(uses);
    return true;
  }

  std::mutex mutex_;  // of reads and marks
  Backend backend_;
  std::byte* device_ = nullptr;

 private:
  using Marks = std::vector<typename Backend::Mark>;
  void await(const Marks& marks) {
    for (const auto& mark : marks) {
      backend_.await(mark);
      backend_.drop(mark);
    }
  }
  std::map<std::size_t, Marks> uses_;  // by the offset of the slot
};

}  // namespace hopfeed::gpu
