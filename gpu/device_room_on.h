// DeviceRoom over a backend (host_backend.h says what one is).
#pragma once
#include <memory>

#include "gpu/block_maker_on.h"
#include "gpu/device_room.h"
#include "gpu/slot_memory_on.h"

namespace hopfeed::gpu {

template <class Backend>
class DeviceRoomOn final : public DeviceRoom {
 public:
  DeviceRoomOn(const typename Backend::Options& backend, AvailableMemory (*available)())
      : backend_(backend), available_(available) {}
  AvailableMemory available() const override { return available_(); }
  std::unique_ptr<ChannelMemory> slots(std::size_t size) override {
    return std::make_unique<SlotMemoryOn<Backend>>(size, backend_);
  }
  std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                    const BatchOptions& options, const DeviceBlockOptions& device,
                                    ChannelMemory& slots) override {
    return std::make_unique<BlockMakerOn<Backend>>(dataset, source, options, device,
                                                   dynamic_cast<SlotMemoryOn<Backend>&>(slots), backend_);
  }

 private:
  const typename Backend::Options backend_;
  AvailableMemory (*const available_)();
};

}  // namespace hopfeed::gpu
