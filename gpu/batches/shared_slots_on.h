// SharedSlotsOn is the memory of a channel of several processes whose blocks lie on a device: beside the
// channel's memory one allocation of the device's, as large, which the trainer's process makes and the
// workers import by an inherited descriptor. It cannot be backed piece by piece as SlotMemoryOn's; what is
// granted, counted and given back is the host's part. No event of a device passes between processes: a block
// is READY once its writer has waited for its own work, and the slot is FREE once the trainer's marks are
// done (idle).
#pragma once
#include <memory>
#include <utility>

#include "core/base/owned_fd.h"
#include "gpu/batches/slots_on.h"

namespace hopfeed::gpu {

template <class Backend>
class SharedSlotsOn : public SlotsOn<Backend> {
 public:
  /// Allocates the memory, for the trainer. Throws what the backend throws.
  SharedSlotsOn(std::unique_ptr<ChannelMemory> host, const typename Backend::Options& options)
      : SlotsOn<Backend>(options), own_(std::move(host)), host_(*own_) {
    const typename Backend::Scope scope(backend_);
    take_host();
    auto shared = backend_.share_range(size_);
    device_ = shared.at;
    shared_ = std::move(shared.fd);
  }
  /// Imports what lies beside `host`, which must outlive it, in the process of worker `number`.
  SharedSlotsOn(ChannelMemory& host, const typename Backend::Options& options, int device_fd,
                std::uint32_t number)
      : SlotsOn<Backend>(options), host_(host) {
    const typename Backend::Scope scope(backend_);
    take_host();
    device_ = backend_.import_range(device_fd, size_, number);
  }
  ~SharedSlotsOn() override {
    const typename Backend::Scope scope(backend_);
    this->settle(0, size_);
    backend_.free_shared(device_, size_);
  }

  void reserve(std::size_t offset, std::size_t bytes) override { host_.reserve(offset, bytes); }
  void punch(std::size_t offset, std::size_t bytes) override {
    const typename Backend::Scope scope(backend_);
    this->settle(offset, bytes);
    host_.punch(offset, bytes);
  }
  std::size_t allocated() const override { return host_.allocated(); }
  int fd() const override { return host_.fd(); }

  // ---- the device's side
  bool idle(std::size_t offset) override {
    const typename Backend::Scope scope(backend_);
    return this->try_settle(offset);
  }
  bool ended(std::uint32_t number) override { return backend_.ended(shared_.get(), number); }
  int shared_fd() const override { return shared_.get(); }

 protected:
  using SlotsOn<Backend>::backend_;
  using SlotsOn<Backend>::device_;

 private:
  using ChannelMemory::data_;
  using ChannelMemory::size_;
  void take_host() {
    data_ = host_.data();
    size_ = host_.size();
  }

  const std::unique_ptr<ChannelMemory> own_;  // null in a worker
  ChannelMemory& host_;
  OwnedFd shared_;
};

}  // namespace hopfeed::gpu
