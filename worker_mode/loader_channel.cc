// See loader_channel.h.
#include "worker_mode/loader_channel.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "channel/futex.h"
#include "core/base/memory_limits.h"
#include "worker_mode/slot_waits.h"

namespace hopfeed {
namespace {

constexpr std::chrono::milliseconds kNap{100};  // the longest that a lost wake-up goes unnoticed
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
          .gathered = seconds(times.gathered),
          .published = seconds(times.published),
          .taken = seconds(times.taken),
          .released = seconds(times.released)};
}

OwnedFd make_doorbell() {
  constexpr const char* what = "cannot make the channel's doorbell (eventfd)";
  return out_of_the_way(OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), what), what);
}

}  // namespace

LoaderChannel::LoaderChannel(const ChannelPlan& plan, const LoaderChannelOptions& options)
    : plan_(plan),
      rank_(options.rank),
      workers_(options.workers),
      observer_(options.observer),
      memory_(make_shared_memory(ChannelView::bytes_needed(plan.shape))),
      view_(ChannelView::format(*memory_, plan.shape)),
      doorbell_(make_doorbell()),
      pool_(*memory_, view_, plan.pool),
      handed_out_(plan.shape.num_slots) {
  view_.control().loader.rank.store(options.rank);
  view_.control().loader.world_size.store(options.world_size);
}

// ---- the trainer's thread

void LoaderChannel::begin_epoch(std::int64_t epoch, const Deal& deal) {
  const std::lock_guard lock(mutex_);
  pool_.abandon();
  first_sequence_ += static_cast<std::uint64_t>(planned_);
  deal_ = deal;
  epoch_ = epoch;
  planned_ = taken_ = 0;
  LoaderRecord& told = view_.control().loader;
  told.epoch.store(epoch);
  told.steps.store(deal.steps());
  told.taken.store(0);
  told.unplanned.store(deal.steps());
  pump();
}

std::optional<LoaderChannel::Taken> LoaderChannel::next(std::int64_t asked,
                                                        std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  if (!deal_) throw Error(ErrorCode::kInvalid, "next() before begin_epoch(): start an epoch first");
  note_left(asked);
  if (taken_ == deal_->steps()) return {};
  const std::uint64_t sequence = first_sequence_ + static_cast<std::uint64_t>(taken_);
  std::uint64_t seen_progress = progress();
  std::int64_t progress_time = asked;
  for (;;) {
    const std::uint32_t seen =
        view_.control().loader_event.load();  // before looking, so that nothing is missed
    pump();
    if (const std::optional<SlotPool::Finished> finished = pool_.find_ready(sequence)) {
      if (finished->error) throw *finished->error;
      pool_.take(finished->slot);
      note_taken(asked, *finished);
      return Taken{.slot = finished->slot, .block = finished->block};
    }
    if (failure_) throw *failure_;
    if (pool_.num_held() == pool_.num_slots()) {
      throw Error(
          ErrorCode::kInvalid,
          fmt::format("all {} slots of the channel hold batches that the caller still views; drop one "
                      "before next(), or raise num_slots",
                      pool_.num_slots()));
    }
    if (const std::optional<SlotPool::Stuck> stuck = pool_.stuck(sequence)) throw_stuck(*stuck);
    if (progress() != seen_progress) {
      seen_progress = progress();
      progress_time = monotonic_now();
    } else if (monotonic_now() - progress_time > patience.count()) {
      throw Error(
          ErrorCode::kTimeout,
          fmt::format("no sign of life from the sampling workers for {:.0f} s while batch {} of the epoch "
                      "is awaited; raise batch_deadline if batches take that long",
                      seconds(patience.count()), taken_));
    }
    const bool announced = pool_.announced(sequence);
    lock.unlock();
    view_.control().loader.waiting_since.store(asked);
    view_.control().loader_event.wait(seen, kNap, announced ? kAnnouncedSpin : SharedEvent::kSpin);
    lock.lock();
  }
}

void LoaderChannel::throw_stuck(const SlotPool::Stuck& stuck) const {
  if (stuck.held > 0) {
    throw Error(
        ErrorCode::kInvalid,
        fmt::format(
            "the next batch takes {}, but the caller still views {} of batches and channel_size is {}; "
            "drop batches before next(), or raise channel_size",
            format_bytes(stuck.wanted), format_bytes(stuck.held), format_bytes(plan_.pool.channel_size)));
  }
  throw Error(
      ErrorCode::kNoSpace,
      fmt::format("the next batch takes {}, more than channel_size {} and the {} beyond it allow; lower "
                  "batch_size or fanouts, or raise channel_size",
                  format_bytes(stuck.wanted), format_bytes(plan_.pool.channel_size),
                  format_bytes(plan_.pool.allowance)));
}

void LoaderChannel::note_left(std::int64_t now) {
  if (last_taken_) handed_out_[*last_taken_].left = now;
  last_taken_.reset();
}

void LoaderChannel::note_taken(std::int64_t asked, const SlotPool::Finished& finished) {
  const SlotTimes& times = view_.slot(finished.slot).times;
  ++taken_;
  handed_out_[finished.slot] = {.asked = asked};
  last_taken_ = finished.slot;
  LoaderRecord& told = view_.control().loader;
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
  const SlotRecord& record = view_.slot(slot);
  const HandedOut& handed = handed_out_[slot];
  return {.epoch = record.epoch.load(),
          .first = record.first.load(),
          .count = record.count.load(),
          .worker = record.worker,
          .bytes = record.used,
          .times = to_batch_times(record.times),
          .asked = seconds(handed.asked),
          .left = seconds(handed.left != 0 ? handed.left : record.times.released)};
}

std::uint64_t LoaderChannel::progress() const {
  return view_.control().published.load() + static_cast<std::uint64_t>(worker_deaths_);
}

bool LoaderChannel::next_is_ready() const {
  const std::lock_guard lock(mutex_);
  return pool_.find_ready(first_sequence_ + static_cast<std::uint64_t>(taken_)).has_value();
}

std::int64_t LoaderChannel::steps() const {
  const std::lock_guard lock(mutex_);
  return deal_ ? deal_->steps() : 0;
}

std::int64_t LoaderChannel::next_position() const {
  const std::lock_guard lock(mutex_);
  return deal_ ? deal_->position_after(taken_) : 0;
}

StreamStats LoaderChannel::stats() const {
  const std::lock_guard lock(mutex_);
  PageUse pages;
  for (std::uint32_t i = 0; i < view_.shape().num_workers; ++i) {
    const WorkerRecord& worker = view_.worker(i);
    if (worker.dataset_resident.load() > pages.resident)
      pages = {.resident = worker.dataset_resident.load(), .huge = worker.dataset_huge.load()};
  }
  return {.batches = view_.control().loader.batches.load(),
          .workers = workers_,
          .worker_deaths = worker_deaths_,
          .batches_remade = batches_remade_,
          .waits = wait_times(view_),
          .dataset_pages = pages,
          .channel_bytes = ChannelView::fixed_bytes(view_.shape()) + pool_.granted()};
}

// ---- any thread

void LoaderChannel::release(std::uint32_t slot) noexcept {
  if (!in_own_process()) return;
  std::optional<BatchRecord> record;
  try {
    const std::lock_guard lock(mutex_);
    pool_.release(slot);
    if (observer_) record = record_of(slot);
    if (last_taken_ == slot) last_taken_.reset();
    if (closed_) pool_.punch_all_but_held();
    pump();
  } catch (...) {
    // nobody to tell in a destructor; the supervisor pumps again, next() meets the error itself
  }
  if (record) observer_(*record);
}

BatchTimes LoaderChannel::times(std::uint32_t slot) const {
  return to_batch_times(view_.slot(slot).times);  // HELD: nobody writes
}

// ---- the supervisor's thread

void LoaderChannel::service() {
  const std::lock_guard lock(mutex_);
  pump();
}

void LoaderChannel::note_death() {
  const std::lock_guard lock(mutex_);
  ++worker_deaths_;
}

void LoaderChannel::reclaim(std::uint32_t incarnation) {
  const std::lock_guard lock(mutex_);
  batches_remade_ += pool_.reclaim(incarnation);
  pump();
}

void LoaderChannel::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  fail_locked(error);
}

void LoaderChannel::fail_locked(const Error& error) {
  if (!failure_) failure_ = error;  // the first one is the cause
  view_.control().loader_event.bump();
}

std::optional<Error> LoaderChannel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<SlotPool::Filling> LoaderChannel::filling() const {
  const std::lock_guard lock(mutex_);
  return pool_.filling();
}

void LoaderChannel::terminate() {
  view_.control().terminate.store(1);
  view_.control().work_event.bump();
  for (std::uint32_t slot = 0; slot < view_.shape().num_slots; ++slot)
    futex_bump(view_.slot(slot).grant_event);
}

void LoaderChannel::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  deal_.reset();
  pool_.punch_all_but_held();
}

void LoaderChannel::pump() {
  if (closed_) return;
  pool_.sweep();
  try {
    pool_.serve_grants();
  } catch (const Error& error) {
    fail_locked(
        Error(error.code(), std::string(error.what()) + "; lower channel_size or num_slots, or free memory"));
  }
  while (deal_ && planned_ < deal_->steps()) {
    const Deal::Range range = deal_->batch(planned_, rank_);
    if (!pool_.plan({.sequence = first_sequence_ + static_cast<std::uint64_t>(planned_),
                     .epoch = epoch_,
                     .first = range.first,
                     .count = range.count}))
      break;
    ++planned_;
  }
  if (deal_) tell_unplanned(deal_->steps() - planned_);
}

/// Workers that wait for a slot go on counting that as a wait only while there is something left to plan.
void LoaderChannel::tell_unplanned(std::int64_t batches) {
  ControlBlock& control = view_.control();
  if (control.loader.unplanned.exchange(batches) > 0 && batches == 0) control.work_event.bump();
}

}  // namespace hopfeed
