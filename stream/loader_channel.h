// A LoaderChannel is what a trainer takes from a channel: the batches of its rank, epoch after epoch, in the
// order of the deal, whoever fills the slots. The trainer's thread takes batches, any thread drops them. It
// lives as long as the last batch, so that views stay readable after the Loader is gone.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "channel/futex.h"
#include "channel/slot_pool.h"
#include "core/base/thread_annotations.h"
#include "core/batch/batch_stream.h"
#include "core/batch/deal.h"
#include "stream/channel_host.h"
#include "stream/deal_plan.h"

namespace hopfeed {

struct LoaderChannelOptions {
  std::int64_t rank = 0, world_size = 1;
  std::int64_t workers = 0;  // workers that fill the slots beside the trainer; 0: the calling thread does
  std::string makers = "sampling workers";  // who that is, for messages
  /// Names what SlotRecord::worker numbers where it is no worker of this machine: for BatchRecord::maker.
  std::function<std::string(std::uint32_t worker)> maker_name = nullptr;
  /// It is called for each batch that was handed out, by whichever thread drops its last view. It must not
  /// throw.
  std::function<void(const BatchRecord&)> observer = nullptr;
};

class LoaderChannel {
 public:
  LoaderChannel(std::shared_ptr<ChannelHost> host, LoaderChannelOptions options);

  // ---- the trainer's thread
  /// Leaves the running epoch and plans the first batches of another.
  void begin_epoch(std::int64_t epoch, const Deal& deal);
  struct Taken {
    std::uint32_t slot = 0;
    std::span<const std::byte> block;
  };
  /// Waits for this rank's next batch; nothing at the end of the epoch. `asked` is when the trainer began to
  /// wait (monotonic_now); `patience` is the longest time without any sign of life from the workers. Throws
  /// what BatchStream::next throws.
  std::optional<Taken> next(std::chrono::nanoseconds patience, std::int64_t asked = monotonic_now(),
                            const std::function<void()>& work = {});
  /// Returns whether next() would find its batch, or the error in its place, at once.
  bool next_is_ready() const;
  std::int64_t steps() const;
  std::int64_t next_position() const;
  StreamStats stats() const;
  /// Returns BatchStream::crowded() of the channel.
  bool crowded() const;

  // ---- any thread
  void release(std::uint32_t slot) noexcept;
  BatchTimes times(std::uint32_t slot) const;

 private:
  const std::shared_ptr<ChannelHost> host_;  // its lock guards all below too

  /// Notes that the trainer asks for more: it is done with the batch before.
  void note_left(std::int64_t now) REQUIRES(host_->mutex);
  void note_taken(std::int64_t asked, const SlotPool::Finished& finished) REQUIRES(host_->mutex);
  void throw_if_none_can_come(std::uint64_t sequence) const REQUIRES(host_->mutex);
  [[noreturn]] void throw_stuck(const SlotPool::Stuck& stuck) const;
  BatchRecord record_of(std::uint32_t slot) const REQUIRES(host_->mutex);  // of one just released
  std::uint64_t progress() const REQUIRES(host_->mutex);                   // changes with every sign of life

  const LoaderChannelOptions options_;
  std::shared_ptr<DealPlan> epoch_ GUARDED_BY(host_->mutex);  // the running one
  std::int64_t taken_ GUARDED_BY(host_->mutex) = 0;           // steps of it
  struct HandedOut {
    std::int64_t asked = 0, left = 0;  // as in BatchRecord; nanoseconds, 0: not yet
  };
  std::vector<HandedOut> handed_out_ GUARDED_BY(host_->mutex);  // [num_slots]
  // It is the slot of the batch that next() gave last.
  std::optional<std::uint32_t> last_taken_ GUARDED_BY(host_->mutex);
};

}  // namespace hopfeed
