// See channel_stream.h.
#include "stream/channel_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "channel/futex.h"
#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/base/thread_annotations.h"
#include "core/batch/aligned_block.h"
#include "gpu/memory/registered_memory.h"
#include "stream/batch_memory.h"
#include "stream/channel_sizing.h"
#include "stream/loader_source.h"
#include "stream/torchrun_environment.h"

namespace hopfeed {
namespace {

/// Holds a slot; may outlive the stream.
class SlotLease : public BatchOwner {
 public:
  SlotLease(std::shared_ptr<LoaderChannel> channel, std::uint32_t slot, std::shared_ptr<ChannelHost> host)
      : channel_(std::move(channel)), slot_(slot), host_(std::move(host)) {}
  ~SlotLease() override {
    for (const GpuStream stream : streams_) host_->used_on(slot_, stream);
    channel_->release(slot_);
  }
  BatchTimes times() const override { return channel_->times(slot_); }
  void used_on(GpuStream stream) const override {
    const MutexLock lock(mutex_);
    if (std::ranges::find(streams_, stream) == streams_.end()) streams_.push_back(stream);
  }

 protected:
  mutable Mutex mutex_;

 private:
  const std::shared_ptr<LoaderChannel> channel_;
  const std::uint32_t slot_;
  const std::shared_ptr<ChannelHost> host_;
  mutable std::vector<GpuStream> streams_ GUARDED_BY(mutex_);
};

/// The lease of a slot whose block lies in a GPU's memory.
class DeviceLease final : public SlotLease {
 public:
  DeviceLease(std::shared_ptr<LoaderChannel> channel, const LoaderChannel::Taken& taken,
              const std::shared_ptr<ChannelHost>& host)
      : SlotLease(std::move(channel), taken.slot, host),
        side_(*host->device_side()),
        offset_(host->view().slot_offset(taken.slot)),
        form_{.head = BatchView(taken.block), .data = side_.data() + offset_, .device = side_.device()} {}

  const DeviceForm* device_form() const override { return &form_; }
  BatchView copied() const override {
    const MutexLock lock(mutex_);
    const std::size_t bytes = form_.head.bytes().size();
    if (copy_.bytes().empty()) {
      AlignedBlock copy(bytes);
      side_.read(offset_, bytes, copy.bytes().data());
      copy_ = std::move(copy);
    }
    return BatchView(copy_.bytes());
  }

 private:
  DeviceSide& side_;
  const std::size_t offset_;
  const DeviceForm form_;
  mutable AlignedBlock copy_ GUARDED_BY(mutex_);
};

}  // namespace

ChannelStream::ChannelStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta,
                             std::int64_t num_seeds)
    : ChannelStream(options, std::move(spec), std::move(meta), num_seeds,
                    2 * options.execution.batch_deadline + options.execution.start_deadline) {}

ChannelStream::ChannelStream(const LoaderOptions& options, BatchSpec spec, DatasetMeta meta,
                             std::int64_t num_seeds, std::chrono::milliseconds patience)
    : spec_(std::move(spec)),
      meta_(std::move(meta)),
      deal_(options.deal),
      num_seeds_(num_seeds),
      patience_(patience),
      while_waiting_(options.while_waiting) {
  check_deal(options, num_seeds_);
}

void ChannelStream::make_channel(const LoaderOptions& options, const BatchMaker& maker) {
  make_channel(options, needs_of(maker), {.workers = options.execution.num_workers});
}

ChannelStream::ChannelNeeds ChannelStream::needs_of(const BatchMaker& maker) const {
  return {.worst_block = maker.max_block_bytes(deal_.batch_size), .scratch = maker.scratch(deal_.batch_size)};
}

std::size_t ChannelStream::memory_of_worker(const LoaderOptions& options) const {
  const SlotPoolOptions& channel = host_->sizes().pool;
  const std::int64_t ranks = local_ranks().world;  // each with as many workers and as large a channel
  return bytes_of_worker(
      {.given = options.execution.max_batch_memory,
       .sharers = std::max<std::int64_t>(options.execution.num_workers, 1) * ranks,
       .channels = (channel.channel_size + channel.allowance) * static_cast<std::size_t>(ranks)});
}

void ChannelStream::make_channel(const LoaderOptions& options, const ChannelNeeds& needs,
                                 LoaderChannelOptions told, const MakeChannelMemory& make) {
  const ChannelPlan plan =
      plan_channel(options.execution, options.batch.bounded(),
                   {.worst_block = needs.worst_block,
                    .scratch = needs.scratch,
                    .batch_size = deal_.batch_size,
                    .available = needs.available.bytes > 0 ? needs.available : available_memory(),
                    .device = needs.device,
                    .local_world = local_ranks().world});
  host_ = std::make_shared<ChannelHost>(plan, [&](std::size_t size) {
    const bool pin = options.execution.gpu.pin_slots && !options.execution.gpu.device_batches;
    return pin ? pinned_slots(plan.shape, make(size)) : make(size);
  });
  told.rank = deal_.rank;
  told.world_size = deal_.world_size;
  told.observer = options.observer;
  channel_ = std::make_shared<LoaderChannel>(host_, std::move(told));
}

std::unique_ptr<ChannelMemory> ChannelStream::pinned_slots(const ChannelShape& shape,
                                                           std::unique_ptr<ChannelMemory> memory) {
  auto pinned = std::make_unique<PinnedMemory>(std::move(memory),
                                               Pinning{.pin = gpu::pin_memory,
                                                       .unpin = gpu::unpin_memory,
                                                       .mark = gpu::mark_stream,
                                                       .slots_begin = ChannelView::data_offset(shape),
                                                       .slot_stride = shape.slot_stride});
  pinned_slots_ = pinned.get();
  return pinned;
}

void ChannelStream::begin_epoch(std::int64_t epoch, std::int64_t start) {
  require_own_process();
  require_valid(epoch >= 0, fmt::format("epoch is {}; epochs count from 0", epoch));
  drop_taken();
  channel_->begin_epoch(epoch, Deal(deal_, num_seeds_, start));
}

std::optional<Batch> ChannelStream::next() {
  require_own_process();
  if (!taken_) {
    position_of_taken_ = channel_->next_position();
    taken_ = channel_->next(patience_, monotonic_now(), [this] {
      work();
      if (while_waiting_) while_waiting_();
    });
  }
  if (!taken_) return {};
  if (!lease_) lease_ = lease_of(*taken_);
  Batch batch =
      completer_ ? completer_->complete(taken_->block, lease_) : Batch(BatchView(taken_->block), lease_);
  lease_.reset();
  taken_.reset();
  return batch;
}

std::shared_ptr<const BatchOwner> ChannelStream::lease_of(const LoaderChannel::Taken& taken) const {
  if (host_->device_side() == nullptr) return std::make_shared<const SlotLease>(channel_, taken.slot, host_);
  return std::make_shared<const DeviceLease>(channel_, taken, host_);
}

void ChannelStream::drop_taken() {
  if (taken_ && !lease_) channel_->release(taken_->slot);
  lease_.reset();
  taken_.reset();
}

StreamStats ChannelStream::stats() const {
  StreamStats stats = channel_->stats();
  if (pinned_slots_ != nullptr) {
    const MutexLock lock(host_->mutex);  // which guards reserve and punch
    const PinnedMemory::State& pinned = pinned_slots_->state();
    stats.pinned_bytes = pinned.bytes;
    stats.pinning_seconds = pinned.seconds;
    stats.why_not_pinned = pinned.refused;
  }
  if (completer_) {
    stats.feature_rows = completer_->counts().rows;
    stats.held_rows = completer_->counts().held;
    stats.held_bytes = completer_->bytes();
  }
  return stats;
}

void ChannelStream::require_own_process() const {
  if (host_->in_own_process()) return;
  throw Error(
      ErrorCode::kInvalid,
      fmt::format(
          "process {} was forked from the one that this loader belongs to, and forks have none of its "
          "threads; make a loader in each process",
          getpid()));
}

}  // namespace hopfeed
