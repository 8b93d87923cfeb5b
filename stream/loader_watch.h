// A LoaderWatch looks at a loader of another process of the same user: its channel's records, mapped
// read-only through /proc/PID/fd. The loader notices nothing of it.
#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "channel/channel_view.h"
#include "channel/memory.h"
#include "core/base/owned_fd.h"
#include "stream/slot_waits.h"

namespace hopfeed {

/// WorkerActivity is what a worker does at one moment.
enum class WorkerActivity {
  kStarting,
  kFailed,
  kResting,
  kWaitingForSlot,
  kSampling,
  kWaitingForMemory,
  kGathering
};
const char* to_string(WorkerActivity activity);

/// A LoaderSnapshot is a loader at one moment. Sums are over the loader's life, times in seconds.
struct LoaderSnapshot {
  double time = 0;  // of CLOCK_MONOTONIC
  std::int64_t rank = 0, world_size = 1;
  std::int64_t epoch = 0, steps = 0, taken = 0;  // the running epoch's batches, and those handed out of them
  std::int64_t batches = 0, bytes = 0;           // handed out
  double waiting = 0;  // next() has waited so long for the next one, not yet in `waits`
  WaitTimes waits;
  TierCounts tiers;
  std::array<std::uint32_t, 5> slots{};  // by SlotState
  std::uint64_t granted_bytes = 0;       // memory behind the slots
  struct Worker {
    std::uint32_t pid = 0;
    WorkerActivity activity = WorkerActivity::kStarting;
    std::int64_t batches = 0;
    double sampling = 0, gathering = 0, waited_for_slot = 0, waited_for_memory = 0;
  };
  std::vector<Worker> workers;
};

LoaderSnapshot snapshot(const ChannelView& view);

class LoaderWatch {
 public:
  /// Maps the channel behind an open file. Throws kCorrupt or kVersion where it is none of this version's.
  explicit LoaderWatch(int fd);
  LoaderSnapshot look() const { return snapshot(view_); }

 private:
  std::unique_ptr<ChannelMemory> memory_;
  ChannelView view_;
};

/// A FoundChannel is a channel of a process: one open file per loader of its own, told apart by inode.
struct FoundChannel {
  ino_t inode = 0;
  OwnedFd fd;
};
/// Finds the channels of a process. Throws kNotFound where there is no such process, kInvalid where it is
/// another user's or a sampling worker.
std::vector<FoundChannel> find_channels(std::int64_t pid);

}  // namespace hopfeed
