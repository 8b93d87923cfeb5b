// The stream whose batches lie in the memory of a GPU, for a trainer on that GPU: a thread of this process
// makes them on a stream of the device's own, into slots of a channel ahead of the trainer, so that order,
// errors, bounds and what is told of each batch are those of worker mode. Kernels of one process share the
// card, those of two only take turns there. A crash ends the caller.
#pragma once
#include <memory>
#include <thread>

#include "core/maker/block_maker.h"
#include "gpu/batches/device_room.h"
#include "stream/channel_stream.h"
#include "stream/loader_parts.h"

namespace hopfeed {

class DeviceStream final : public ChannelStream {
 public:
  /// Opens a stream as Loader's constructor does, of options that are checked. `room`: the device,
  /// cuda_engine.h's or a host's.
  static std::unique_ptr<DeviceStream> open(const LoaderOptions& options,
                                            std::shared_ptr<gpu::DeviceRoom> room);
  ~DeviceStream() override;

 private:
  DeviceStream(const LoaderOptions& options, std::shared_ptr<gpu::DeviceRoom> room, LoaderParts parts);
  void fill(const LoaderOptions& options);

  const std::shared_ptr<gpu::DeviceRoom> room_;
  const LoaderParts parts_;
  std::unique_ptr<BlockMaker> maker_;
  std::thread thread_;
};

}  // namespace hopfeed
