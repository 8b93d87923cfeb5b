// The channel as the threads of a loader's process share it: the trainer's thread takes batches, any thread
// drops them, the supervisor's thread answers workers and deaths. One lock of this process around SlotPool;
// no worker ever waits for it. Lives as long as the last batch, so that views stay readable after the Loader
// is gone.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/batch/deal.h"
#include "core/stream/batch_stream.h"
#include "worker_mode/channel_sizing.h"

namespace hopfeed {

struct LoaderChannelOptions {
  std::int64_t rank = 0, world_size = 1;  // for people to read
  std::int64_t workers = 0;               // likewise; 0: the calling thread fills the slots
  std::function<void(const BatchRecord&)> observer = nullptr;  // LoaderOptions::observer
};

class LoaderChannel {
 public:
  LoaderChannel(const ChannelPlan& plan, const LoaderChannelOptions& options);

  int memory_fd() const { return memory_->fd(); }
  int doorbell() const { return doorbell_.get(); }
  const ChannelView& view() const { return view_; }

  // ---- the trainer's thread
  /// Leaves the running epoch and plans the first batches of another.
  void begin_epoch(std::int64_t epoch, const Deal& deal);
  struct Taken {
    std::uint32_t slot = 0;
    std::span<const std::byte> block;
  };
  /// Waits for this rank's next batch; nothing at the end of the epoch. `patience`: the longest time without
  /// any sign of life from the workers. Throws as Loader::next.
  /// `asked`: when the trainer began to wait (monotonic_now).
  std::optional<Taken> next(std::int64_t asked, std::chrono::nanoseconds patience);
  /// Whether next() would find its batch, or the error in its place, at once.
  bool next_is_ready() const;
  std::int64_t steps() const;
  std::int64_t next_position() const;
  StreamStats stats() const;

  // ---- any thread
  /// False in a process that was forked from the loader's: it has none of the threads, and the slots are not
  /// its own.
  bool in_own_process() const { return getpid() == pid_; }
  void release(std::uint32_t slot) noexcept;
  BatchTimes times(std::uint32_t slot) const;

  // ---- the supervisor's thread
  /// Answers whoever waits for memory, frees and plans what can be.
  void service();
  /// Nobody works under this incarnation any more; its batches are planned again.
  void reclaim(std::uint32_t incarnation);
  void note_death();
  /// No more batches will come: what next() throws from now on.
  void fail(const Error& error);
  std::optional<Error> failure() const;
  std::vector<SlotPool::Filling> filling() const;
  bool grants_pending() const { return view_.control().grants_pending.load() != 0; }
  /// Workers are to leave. Irrevocable.
  void terminate();
  /// After the last worker's death: gives back all memory but that of batches still held.
  void close();

 private:
  void pump();  // needs the lock
  void fail_locked(const Error& error);
  void note_left(std::int64_t now);  // the trainer asks for more: it is done with the batch before
  void note_taken(std::int64_t asked, const SlotPool::Finished& finished);
  void tell_unplanned(std::int64_t batches);
  BatchRecord record_of(std::uint32_t slot) const;  // of one just released
  [[noreturn]] void throw_stuck(const SlotPool::Stuck& stuck) const;
  std::uint64_t progress() const;  // changes with every sign of life

  const ChannelPlan plan_;
  const int pid_ = getpid();
  const std::int64_t rank_, workers_;
  const std::function<void(const BatchRecord&)> observer_;
  std::unique_ptr<ChannelMemory> memory_;
  ChannelView view_;
  OwnedFd doorbell_;

  mutable std::mutex mutex_;  // guards all below
  SlotPool pool_;
  std::optional<Error> failure_;
  std::optional<Deal> deal_;  // of the running epoch
  std::int64_t epoch_ = 0;
  std::uint64_t first_sequence_ = 0;      // of the running epoch
  std::int64_t planned_ = 0, taken_ = 0;  // steps of it
  bool closed_ = false;
  std::int64_t worker_deaths_ = 0, batches_remade_ = 0;
  struct HandedOut {
    std::int64_t asked = 0, left = 0;  // as in BatchRecord; nanoseconds, 0: not yet
  };
  std::vector<HandedOut> handed_out_;        // [num_slots]
  std::optional<std::uint32_t> last_taken_;  // slot of the batch that next() gave last
};

}  // namespace hopfeed
