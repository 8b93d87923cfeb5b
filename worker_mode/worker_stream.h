// The stream of worker mode: sampling workers, processes of this machine, fill the slots; a supervisor keeps
// them alive.
#pragma once
#include <memory>
#include <vector>

#include "channel/machine_memory.h"
#include "core/base/owned_fd.h"
#include "gpu/batches/device_room.h"
#include "stream/channel_stream.h"
#include "stream/loader_parts.h"
#include "stream/slot_fillers.h"
#include "worker_mode/worker_config.h"

namespace hopfeed {

class WorkerStream final : public ChannelStream {
 public:
  /// Opens a stream as Loader's constructor does, of options that are checked. `room`: where batches lie in
  /// a device's memory, cuda_engine.h's or one for tests; null: in memory of the host.
  static std::unique_ptr<WorkerStream> open(const LoaderOptions& options,
                                            const std::shared_ptr<gpu::DeviceRoom>& room = nullptr);
  ~WorkerStream() override;
  std::vector<int> worker_pids() const override { return fillers_->pids(); }

 private:
  WorkerStream(const LoaderOptions& options, const LoaderParts& parts);
  /// The configuration of the workers, but for what tells them apart.
  WorkerConfig worker_config(const LoaderOptions& options, const Dataset& dataset) const;
  /// In memory that all processes map, and beside it on the device where there is one.
  void make_shared_channel(const LoaderOptions& options, const BatchMaker& maker, gpu::DeviceRoom* room);
  void start_workers(const LocalExecution& execution, const std::string& program, const WorkerConfig& config);

  /// Where other machines have partitions: its network watches them, and tells which are lost.
  std::unique_ptr<const Dataset> watched_;
  OwnedFd seeds_fd_;
  std::unique_ptr<const MachineMemory> row_cache_;  // null: none
  std::unique_ptr<SlotFillers> fillers_;            // ends before what it uses
};

}  // namespace hopfeed
