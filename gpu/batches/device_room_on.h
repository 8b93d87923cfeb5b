// DeviceRoomOn is a DeviceRoom over a backend (host_backend.h says what one is).
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gpu/batches/block_maker_on.h"
#include "gpu/batches/device_room.h"
#include "gpu/batches/shared_slots_on.h"
#include "gpu/batches/slot_memory_on.h"

namespace hopfeed::gpu {

template <class Backend>
class DeviceRoomOn : public DeviceRoom {
 public:
  /// `name` is empty where no worker is to make it.
  DeviceRoomOn(const typename Backend::Options& backend, std::function<AvailableMemory()> available,
               std::string name = {})
      : backend_(backend), available_(std::move(available)), name_(std::move(name)) {}
  AvailableMemory available() const override { return available_(); }
  std::string name() const override { return name_; }
  std::unique_ptr<ChannelMemory> slots(std::size_t size) override {
    return std::make_unique<SlotMemoryOn<Backend>>(size, backend_);
  }
  std::unique_ptr<ChannelMemory> shared_slots(std::unique_ptr<ChannelMemory> host) override {
    return std::make_unique<SharedSlotsOn<Backend>>(std::move(host), backend_);
  }
  std::unique_ptr<ChannelMemory> import_slots(ChannelMemory& host, int device_fd,
                                              std::uint32_t number) override {
    return std::make_unique<SharedSlotsOn<Backend>>(host, backend_, device_fd, number);
  }
  std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                    const BatchOptions& options, const DeviceBlockOptions& device,
                                    ChannelMemory& slots) override {
    DeviceBlockOptions sized = device;
    sized.free_bytes =
        available().bytes / static_cast<std::size_t>(std::max<std::int64_t>(device.sharers, 1));
    return std::make_unique<BlockMakerOn<Backend>>(dataset, source, options, sized,
                                                   dynamic_cast<SlotsOn<Backend>&>(slots), backend_);
  }

 protected:
  const typename Backend::Options backend_;

 private:
  const std::function<AvailableMemory()> available_;
  const std::string name_;
};

}  // namespace hopfeed::gpu
