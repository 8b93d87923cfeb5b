// A ChannelHost is a channel as the threads of the process that has it share it: one lock of this process
// around SlotPool and what it is planned from; no filler in another process ever waits for it. It plans,
// grants, takes back and knows what failed. Who takes the batches stands on top of it (LoaderChannel: in the
// order of a deal), who fills the slots beside it (SlotFillers), and SlotKeeper between it and these.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "channel/batch_plan.h"
#include "channel/bell.h"
#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "core/base/error.h"
#include "core/base/thread_annotations.h"
#include "stream/channel_sizing.h"

namespace hopfeed {

using MakeChannelMemory = std::function<std::unique_ptr<ChannelMemory>(std::size_t size)>;

class ChannelHost {
 public:
  /// Makes a channel in memory of `make`: shared memory for fillers in other processes; for threads heap
  /// memory will do. Throws kNoSpace or kIo.
  explicit ChannelHost(const ChannelPlan& sizes, const MakeChannelMemory& make = make_shared_memory);

  int memory_fd() const { return memory_->fd(); }
  const ChannelView& view() const { return view_; }
  ChannelMemory& memory() const { return *memory_; }
  /// Returns the device's side of the memory; null where blocks lie in memory of the host.
  DeviceSide* device_side() const { return memory_->device_side(); }
  const ChannelPlan& sizes() const { return sizes_; }
  /// Returns the planner's bell: one thread waits on it, and then calls service().
  const Bell& doorbell() const { return doorbell_; }
  /// Returns the fillers' bell, for one thread that fills slots beside sockets.
  const Bell& fillers_bell() const { return fillers_bell_; }
  /// Returns false in a process that was forked from this one: it has none of the threads, and the slots are
  /// not its own.
  bool in_own_process() const { return getpid() == pid_; }

  // ---- any thread, with the lock
  mutable Mutex mutex;
  SlotPool& pool() REQUIRES(mutex) { return pool_; }
  /// Leaves what is planned so far and plans from here on from `plan`; pump() begins with it.
  void plan_from(std::shared_ptr<BatchPlan> plan) REQUIRES(mutex);
  /// Frees, grants and plans what can be; call it after whatever may have made slots, memory or work. What
  /// the system refuses becomes the failure.
  void pump() REQUIRES(mutex);
  /// Returns why no more batches will come: it is thrown to who asks for one.
  const std::optional<Error>& why_failed() const REQUIRES(mutex) { return failure_; }
  std::int64_t deaths() const REQUIRES(mutex) { return deaths_; }
  std::int64_t batches_remade() const REQUIRES(mutex) { return batches_remade_; }

  // ---- any thread, without it
  /// Calls pump() by itself.
  void service() EXCLUDES(mutex);
  /// Notes that a stream uses a slot (ChannelMemory::used_on). Never throws, as the functions below: where a
  /// GPU takes no mark, that is the failure, and nobody writes the slot again.
  void used_on(std::uint32_t slot, GpuStream stream) noexcept;
  /// Releases a slot (HELD -> FREE), and calls pump(). Never throws: who drops a batch has nobody to tell.
  void release(std::uint32_t slot) noexcept EXCLUDES(mutex);
  /// Takes back what was filled under a name under which nobody works any more; its batches are planned
  /// again.
  void reclaim(std::uint32_t incarnation) EXCLUDES(mutex);
  void note_death() EXCLUDES(mutex);
  /// Fails the channel. The first failure is the cause and stays.
  void fail(const Error& error) EXCLUDES(mutex);
  std::optional<Error> failure() const EXCLUDES(mutex);
  std::vector<SlotPool::Filling> filling() const EXCLUDES(mutex);
  /// Returns whether slots were released that a GPU still reads; service() frees them once it does not.
  bool slots_leaving() const EXCLUDES(mutex);
  bool grants_pending() const { return view_.control().grants_pending.load() != 0; }
  /// Tells fillers to leave. It is irrevocable.
  void terminate();
  /// Gives back all memory but that of batches still held, after the last filler's end.
  void close() EXCLUDES(mutex);

 private:
  void fail_locked(const Error& error) REQUIRES(mutex);
  void tell_unplanned(std::int64_t batches);

  const ChannelPlan sizes_;
  const int pid_ = getpid();
  const std::unique_ptr<ChannelMemory> memory_;
  const ChannelView view_;
  const Bell doorbell_, fillers_bell_;

  SlotPool pool_ GUARDED_BY(mutex);
  std::shared_ptr<BatchPlan> plan_ GUARDED_BY(mutex);  // none: nothing is planned
  std::optional<Error> failure_ GUARDED_BY(mutex);
  bool closed_ GUARDED_BY(mutex) = false;
  std::int64_t deaths_ GUARDED_BY(mutex) = 0, batches_remade_ GUARDED_BY(mutex) = 0;
};

}  // namespace hopfeed
