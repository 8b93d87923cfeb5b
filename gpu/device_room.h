// A device as a stream knows it that makes its batches there (worker_mode/device_stream.h): memory for slots,
// and what fills them. cuda_engine.h has the one of GPUs; on hosts any backend of host_backend.h will do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "channel/memory.h"
#include "core/base/memory_limits.h"
#include "core/batch/held_share.h"
#include "core/maker/batch_source.h"
#include "core/maker/block_maker.h"
#include "gpu/hop_engine.h"

namespace hopfeed::gpu {

struct DeviceBlockOptions {
  GraphPlace place = GraphPlace::kHost;
  HeldShare
      held;  // rows of node attributes that lie in the device's memory; the others are read where they are
  /// EnginePlan's.
  std::uint64_t most_uncounted_edges = EnginePlan{}.most_uncounted_edges;
};

class DeviceRoom {
 public:
  virtual ~DeviceRoom() = default;
  /// Of the device, that is free.
  virtual AvailableMemory available() const = 0;
  virtual std::unique_ptr<ChannelMemory> slots(std::size_t size) = 0;
  /// One for each thread; `slots` is of this room, and all must outlive the maker. Throws what BatchMaker
  /// throws, kNoSpace where the device's memory does not suffice.
  virtual std::unique_ptr<BlockMaker> maker(const Dataset& dataset, const BatchSource& source,
                                            const BatchOptions& options, const DeviceBlockOptions& device,
                                            ChannelMemory& slots) = 0;
};

}  // namespace hopfeed::gpu
