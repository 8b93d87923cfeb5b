// See loader_channel.h.
#include "stream/loader_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "channel/futex.h"
#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "stream/slot_waits.h"

namespace hopfeed {
namespace {

constexpr std::chrono::milliseconds kNap{100};  // the longest that a lost wake-up goes unnoticed
// While a slot waits for work of a device, which rings no bell.
constexpr std::chrono::milliseconds kDeviceNap{1};
// next() stays awake so long for a batch that is announced. A core that has slept for the whole of a batch
// takes up to 300 us to wake; what is left to gather by then (BatchMaker::kLastBytes) takes about as long.
constexpr std::chrono::milliseconds kAnnouncedSpin{2};

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// For sums that only the loader writes.
void add(std::atomic<std::int64_t>& sum, std::int64_t more) {
  sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

BatchTimes to_batch_times(const SlotTimes& times) {
  return {.planned = seconds(times.planned),
          .claimed = seconds(times.claimed),
          .sampled = seconds(times.sampled),
          .writing = seconds(times.writing),
          .gathered = seconds(times.gathered),
          .published = seconds(times.published),
          .taken = seconds(times.taken),
          .released = seconds(times.released)};
}

TierCounts tiers_of(const std::int64_t (&numbers)[TierCounts::kNumbers]) {
  TierCounts::Numbers copy;
  std::ranges::copy(numbers, copy.begin());
  return TierCounts::of(copy);
}

/// Batches in sum, memory of whoever has most.
void add_gpu_use(GpuUse& sum, const WorkerRecord& worker) {
  sum.gpu_batches += worker.gpu_batches.load();
  sum.cpu_batches += worker.cpu_batches.load();
  const auto graph = static_cast<std::size_t>(worker.gpu_graph_bytes.load()),
             rows = static_cast<std::size_t>(worker.gpu_rows_bytes.load());
  if (graph + rows <= sum.bytes()) return;
  sum.graph_bytes = graph;
  sum.rows_bytes = rows;
  sum.graph.millionths = worker.gpu_graph_share.load();
  sum.rows.millionths = worker.gpu_rows_share.load();
}

}  // namespace

LoaderChannel::LoaderChannel(std::shared_ptr<ChannelHost> host, LoaderChannelOptions options)
    : host_(std::move(host)), options_(std::move(options)), handed_out_(host_->view().shape().num_slots) {
  LoaderRecord& told = host_->view().control().loader;
  told.rank.store(options_.rank);
  told.world_size.store(options_.world_size);
}

// ---- the trainer's thread

void LoaderChannel::begin_epoch(std::int64_t epoch, const Deal& deal) {
  const MutexLock lock(host_->mutex);
  epoch_ = std::make_shared<DealPlan>(
      deal,
      DealPlan::Options{
          .epoch = epoch, .rank = options_.rank, .first_sequence = epoch_ ? epoch_->next_sequence() : 0});
  host_->plan_from(epoch_);
  taken_ = 0;
  LoaderRecord& told = host_->view().control().loader;
  told.epoch.store(epoch);
  told.steps.store(deal.steps());
  told.taken.store(0);
  told.unplanned.store(deal.steps());
  host_->pump();
}

std::optional<LoaderChannel::Taken> LoaderChannel::next(std::chrono::nanoseconds patience, std::int64_t asked,
                                                        const std::function<void()>& work) {
  MutexLock lock(host_->mutex);
  if (!epoch_) throw Error(ErrorCode::kInvalid, "next() before begin_epoch(): start an epoch first");
  note_left(asked);
  if (taken_ == epoch_->deal().steps()) return {};
  ControlBlock& control = host_->view().control();
  const std::uint64_t sequence = epoch_->sequence_of(taken_);
  std::uint64_t seen_progress = progress();
  std::int64_t progress_time = asked;
  for (;;) {
    const std::uint32_t seen = control.loader_event.load();  // before looking, so that nothing is missed
    host_->pump();
    if (const std::optional<SlotPool::Finished> finished = host_->pool().find_ready(sequence)) {
      if (finished->error) throw *finished->error;
      host_->pool().take(finished->slot);
      note_taken(asked, *finished);
      return Taken{.slot = finished->slot, .block = finished->block};
    }
    throw_if_none_can_come(sequence);
    if (progress() != seen_progress) {
      seen_progress = progress();
      progress_time = monotonic_now();
    } else if (monotonic_now() - progress_time > patience.count()) {
      throw Error(
          ErrorCode::kTimeout,
          fmt::format(
              "no sign of life from the {} for {:.0f} s while batch {} of the epoch is awaited; raise "
              "{} if batches take that long",
              options_.makers, seconds(patience.count()), taken_, marked("batch_deadline")));
    }
    const bool announced = host_->pool().announced(sequence), leaving = host_->pool().num_leaving() > 0;
    lock.unlock();
    if (work) work();
    control.loader.waiting_since.store(asked);
    control.loader_event.wait(seen, leaving ? kDeviceNap : kNap,
                              announced ? kAnnouncedSpin : SharedEvent::kSpin);
    lock.lock();
  }
}

void LoaderChannel::throw_if_none_can_come(std::uint64_t sequence) const {
  if (host_->why_failed()) throw *host_->why_failed();
  const SlotPool& pool = host_->pool();
  if (pool.num_held() == pool.num_slots()) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("all {} slots of the channel hold batches that the caller still views; drop one "
                            "before next(), or raise num_slots",
                            pool.num_slots()));
  }
  if (const std::optional<SlotPool::Stuck> stuck = pool.stuck(sequence)) throw_stuck(*stuck);
}

void LoaderChannel::throw_stuck(const SlotPool::Stuck& stuck) const {
  const SlotPoolOptions& sizes = host_->sizes().pool;
  if (stuck.held > 0) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("the next batch takes {}, but the caller still views {} of batches and {} is {}; "
                            "drop batches before next(), or raise {}",
                            format_bytes(stuck.wanted), format_bytes(stuck.held), marked("channel_size"),
                            format_bytes(sizes.channel_size), marked("channel_size")));
  }
  throw Error(
      ErrorCode::kNoSpace,
      fmt::format("the next batch takes {}, more than {} {} and the {} beyond it allow; lower "
                  "{} or fanouts, or raise {}",
                  format_bytes(stuck.wanted), marked("channel_size"), format_bytes(sizes.channel_size),
                  format_bytes(sizes.allowance), marked("batch_size"), marked("channel_size")));
}

void LoaderChannel::note_left(std::int64_t now) {
  if (last_taken_) handed_out_[*last_taken_].left = now;
  last_taken_.reset();
}

void LoaderChannel::note_taken(std::int64_t asked, const SlotPool::Finished& finished) {
  const SlotTimes& times = host_->view().slot(finished.slot).times;
  ++taken_;
  handed_out_[finished.slot] = {.asked = asked};
  last_taken_ = finished.slot;
  LoaderRecord& told = host_->view().control().loader;
  add(told.taken, 1);
  add(told.batches, 1);
  add(told.bytes, static_cast<std::int64_t>(finished.block.size()));
  told.waiting_since.store(0);
  const WaitStages waited = split_wait(asked, times.taken, times);
  add(told.waited_for_sampling, waited.sampling);
  add(told.waited_for_gather, waited.gather);
  add(told.waited_for_handover, waited.handover);
}

BatchRecord LoaderChannel::record_of(std::uint32_t slot) const {
  const SlotRecord& record = host_->view().slot(slot);
  const HandedOut& handed = handed_out_[slot];
  return {.epoch = record.epoch.load(),
          .first = record.first.load(),
          .count = record.count.load(),
          .worker = record.worker,
          .maker = options_.maker_name ? options_.maker_name(record.worker) : std::string(),
          .bytes = record.used,
          .tiers = tiers_of(record.tiers),
          .times = to_batch_times(record.times),
          .asked = seconds(handed.asked),
          .left = seconds(handed.left != 0 ? handed.left : record.times.released)};
}

std::uint64_t LoaderChannel::progress() const {
  return host_->view().control().published.load() + static_cast<std::uint64_t>(host_->deaths());
}

bool LoaderChannel::next_is_ready() const {
  const MutexLock lock(host_->mutex);
  return epoch_ && taken_ < epoch_->deal().steps() &&
         host_->pool().find_ready(epoch_->sequence_of(taken_)).has_value();
}

std::int64_t LoaderChannel::steps() const {
  const MutexLock lock(host_->mutex);
  return epoch_ ? epoch_->deal().steps() : 0;
}

std::int64_t LoaderChannel::next_position() const {
  const MutexLock lock(host_->mutex);
  return epoch_ ? epoch_->deal().position_after(taken_) : 0;
}

StreamStats LoaderChannel::stats() const {
  const MutexLock lock(host_->mutex);
  const ChannelView& view = host_->view();
  PageUse pages;
  GpuSetup setup;
  GpuUse use;
  for (std::uint32_t i = 0; i < view.shape().num_workers; ++i) {
    const WorkerRecord& worker = view.worker(i);
    if (worker.dataset_resident.load() > pages.resident)
      pages = {.resident = worker.dataset_resident.load(), .huge = worker.dataset_huge.load()};
    const GpuSetup told{.context = seconds(worker.gpu_context.load()),
                        .copying = seconds(worker.gpu_copying.load()),
                        .pinning = seconds(worker.gpu_pinning.load())};
    if (told.total() > setup.total()) setup = told;
    add_gpu_use(use, worker);
  }
  return {.batches = view.control().loader.batches.load(),
          .workers = options_.workers,
          .worker_deaths = host_->deaths(),
          .batches_remade = host_->batches_remade(),
          .waits = wait_times(view),
          .dataset_pages = pages,
          .channel_bytes = ChannelView::fixed_bytes(view.shape()) + host_->pool().granted(),
          .gpu_setup = setup,
          .gpu_use = use,
          .tiers = tiers_of(view)};
}

bool LoaderChannel::crowded() const {
  const MutexLock lock(host_->mutex);
  const SlotPool& pool = host_->pool();
  return 4 * pool.num_held() > 3 * pool.num_slots() || 4 * pool.held_bytes() > 3 * pool.channel_size();
}

// ---- any thread

void LoaderChannel::release(std::uint32_t slot) noexcept {
  if (!host_->in_own_process()) return;
  std::optional<BatchRecord> record;
  try {
    const MutexLock lock(host_->mutex);
    host_->pool().release(slot);
    if (options_.observer) record = record_of(slot);
    if (last_taken_ == slot) last_taken_.reset();
    host_->pump();
  } catch (...) {
    // nobody to tell in a destructor; the supervisor pumps again, next() meets the error itself
  }
  if (record) options_.observer(*record);
}

BatchTimes LoaderChannel::times(std::uint32_t slot) const {
  return to_batch_times(host_->view().slot(slot).times);  // HELD: nobody writes
}

}  // namespace hopfeed
