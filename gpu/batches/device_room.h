// A DeviceRoom is a device as a stream knows it that makes its batches there (worker_mode/device_stream.h,
// worker_stream.h): memory for slots, and what fills them. cuda_engine.h has the one of GPUs; on hosts any
// backend of host_backend.h will do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "channel/memory.h"
#include "core/base/cache_size.h"
#include "core/base/memory_limits.h"
#include "core/maker/batch_source.h"
#include "core/maker/block_maker.h"
#include "gpu/engine/hop_engine.h"

namespace hopfeed::gpu {

struct DeviceBlockOptions {
  GraphPlace place = GraphPlace::kHost;
  CacheSize cache;  // rows of node attributes in the device's memory; the others are read where they are
  CacheSize graph_cache{.automatic = true};  // EnginePlan's `hot`
  std::int64_t sharers = 1;                  // makers that have such rows on this device
  std::size_t free_bytes = 0;  // of the device's memory, for one of them; DeviceRoom fills it in
  std::shared_ptr<const void> keeps = nullptr;  // what the pinned copies of the dataset's arrays live by
  /// It is EnginePlan's.
  std::uint64_t most_uncounted_edges = EnginePlan{}.most_uncounted_edges;
};

class DeviceRoom {
 public:
  virtual ~DeviceRoom() = default;
  /// Returns the memory of the device that is free.
  virtual AvailableMemory available() const = 0;
  virtual std::unique_ptr<ChannelMemory> slots(std::size_t size) = 0;
  /// Makes memory for slots that workers write: `host`, which they attach to, and one allocation beside it
  /// that they import. Throws kNoSpace where the device's memory does not suffice.
  virtual std::unique_ptr<ChannelMemory> shared_slots(std::unique_ptr<ChannelMemory> host) = 0;
  /// Imports the memory of shared_slots() in the process of worker `number`, from its descriptor
  /// (DeviceSide::shared_fd). `host` must outlive it.
  virtual std::unique_ptr<ChannelMemory> import_slots(ChannelMemory& host, int device_fd,
                                                      std::uint32_t number) = 0;
  /// Returns the name by which room_named() of a worker makes the same DeviceRoom (worker_room.h).
  virtual std::string name() const = 0;
  /// Makes a maker for one thread; `slots` come from this DeviceRoom, and all must outlive the maker. Throws
  /// what BatchMaker throws, kNoSpace where the device's memory does not suffice.
  virtual std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                            const BatchOptions& options, const DeviceBlockOptions& device,
                                            ChannelMemory& slots) = 0;
};

}  // namespace hopfeed::gpu
