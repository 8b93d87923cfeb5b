// See loader_channel.h.
#include "worker_mode/loader_channel.h"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "channel/futex.h"
#include "channel/memory_limits.h"

namespace hopfeed {
namespace {

constexpr std::chrono::milliseconds kNap{100};  // the longest that a lost wake-up goes unnoticed

double seconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

/// Adds the time of its scope to `sum`.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum), begin_(monotonic_now()) {}
  ~Stopwatch() { sum_ += seconds(monotonic_now() - begin_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  std::int64_t begin_;
};

OwnedFd make_doorbell() {
  constexpr const char* what = "cannot make the channel's doorbell (eventfd)";
  return out_of_the_way(OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), what), what);
}

}  // namespace

LoaderChannel::LoaderChannel(const ChannelPlan& plan, std::int64_t rank)
    : plan_(plan),
      rank_(rank),
      memory_(make_shared_memory(ChannelView::bytes_needed(plan.shape))),
      view_(ChannelView::format(*memory_, plan.shape)),
      doorbell_(make_doorbell()),
      pool_(*memory_, view_, plan.pool) {}

// ---- the trainer's thread

void LoaderChannel::begin_epoch(std::int64_t epoch, const Deal& deal) {
  const std::lock_guard lock(mutex_);
  pool_.abandon();
  first_sequence_ += static_cast<std::uint64_t>(planned_);
  deal_ = deal;
  epoch_ = epoch;
  planned_ = taken_ = 0;
  pump();
}

std::optional<LoaderChannel::Taken> LoaderChannel::next(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  if (!deal_) throw Error(ErrorCode::kInvalid, "next() before begin_epoch(): start an epoch first");
  if (taken_ == deal_->steps()) return {};
  const Stopwatch waited(stats_.wait_seconds);
  const std::uint64_t sequence = first_sequence_ + static_cast<std::uint64_t>(taken_);
  std::uint64_t seen_progress = progress();
  std::int64_t progress_time = monotonic_now();
  for (;;) {
    const std::uint32_t seen =
        view_.control().loader_event.load();  // before looking, so that nothing is missed
    pump();
    if (const std::optional<SlotPool::Finished> finished = pool_.find_ready(sequence)) {
      if (finished->error) throw *finished->error;
      pool_.take(finished->slot);
      ++taken_;
      ++stats_.batches;
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
    lock.unlock();
    futex_wait(view_.control().loader_event, seen, kNap);
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

std::uint64_t LoaderChannel::progress() const {
  return view_.control().published.load() + static_cast<std::uint64_t>(stats_.worker_deaths);
}

std::int64_t LoaderChannel::steps() const {
  const std::lock_guard lock(mutex_);
  return deal_ ? deal_->steps() : 0;
}

std::int64_t LoaderChannel::next_position() const {
  const std::lock_guard lock(mutex_);
  return deal_ ? deal_->position_after(taken_) : 0;
}

LoaderStats LoaderChannel::stats() const {
  const std::lock_guard lock(mutex_);
  LoaderStats stats = stats_;
  stats.channel_bytes = ChannelView::fixed_bytes(view_.shape()) + pool_.granted();
  for (std::uint32_t i = 0; i < view_.shape().num_workers; ++i) {
    const WorkerRecord& worker = view_.worker(i);
    stats.ring_full_seconds += seconds(worker.waited_for_grant.load() + worker.waited_for_slot.load());
  }
  return stats;
}

// ---- any thread

void LoaderChannel::release(std::uint32_t slot) noexcept {
  if (!in_own_process()) return;
  try {
    const std::lock_guard lock(mutex_);
    pool_.release(slot);
    if (closed_) pool_.punch_all_but_held();
    pump();
  } catch (
      ...) {  // nobody to tell in a destructor; the supervisor pumps again, next() meets the error itself
  }
}

BatchTimes LoaderChannel::times(std::uint32_t slot) const {
  const SlotTimes& times = view_.slot(slot).times;  // HELD: nobody writes
  return {.planned = seconds(times.planned),
          .claimed = seconds(times.claimed),
          .sampled = seconds(times.sampled),
          .gathered = seconds(times.gathered),
          .published = seconds(times.published),
          .taken = seconds(times.taken)};
}

// ---- the supervisor's thread

void LoaderChannel::service() {
  const std::lock_guard lock(mutex_);
  pump();
}

void LoaderChannel::note_death() {
  const std::lock_guard lock(mutex_);
  ++stats_.worker_deaths;
}

void LoaderChannel::reclaim(std::uint32_t incarnation) {
  const std::lock_guard lock(mutex_);
  stats_.batches_remade += pool_.reclaim(incarnation);
  pump();
}

void LoaderChannel::fail(const Error& error) {
  const std::lock_guard lock(mutex_);
  fail_locked(error);
}

void LoaderChannel::fail_locked(const Error& error) {
  if (!failure_) failure_ = error;  // the first one is the cause
  futex_bump(view_.control().loader_event);
}

std::optional<Error> LoaderChannel::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::vector<SlotPool::Filling> LoaderChannel::filling() const {
  const std::lock_guard lock(mutex_);
  return pool_.filling();
}

std::optional<SlotPool::Planned> LoaderChannel::lowest_planned() const {
  const std::lock_guard lock(mutex_);
  return pool_.lowest_planned();
}

void LoaderChannel::terminate() {
  view_.control().terminate.store(1);
  futex_bump(view_.control().work_event);
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
}

}  // namespace hopfeed
