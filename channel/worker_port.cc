// See worker_port.h.
#include "channel/worker_port.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "channel/bell.h"
#include "channel/futex.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"

namespace hopfeed {
namespace {

template <std::size_t N>
void copy_text(char (&to)[N], std::string_view text) {
  const std::size_t length = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

/// For sums that only this worker writes: cheaper than an atomic addition.
void add(std::atomic<std::int64_t>& sum, std::int64_t more) {
  sum.store(sum.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

WorkerPort::WorkerPort(ChannelView view, std::uint32_t worker, int doorbell)
    : view_(view),
      worker_(worker),
      incarnation_(view.worker(worker).incarnation.load()),
      doorbell_(doorbell) {}

void WorkerPort::tell_loader() {
  view_.control().loader_event.bump();
  ring(doorbell_);
}

void WorkerPort::report_ready() {
  view_.worker(worker_).state.store(static_cast<std::uint32_t>(WorkerState::kReady));
  tell_loader();
}

void WorkerPort::note_pages(const PageUse& dataset) {
  WorkerRecord& record = view_.worker(worker_);
  record.dataset_resident.store(dataset.resident);
  record.dataset_huge.store(dataset.huge);
}

void WorkerPort::note_gpu_setup(const GpuSetup& setup) {
  constexpr double kNanoseconds = 1e9;
  WorkerRecord& record = view_.worker(worker_);
  record.gpu_context.store(static_cast<std::int64_t>(setup.context * kNanoseconds));
  record.gpu_copying.store(static_cast<std::int64_t>(setup.copying * kNanoseconds));
  record.gpu_pinning.store(static_cast<std::int64_t>(setup.pinning * kNanoseconds));
}

void WorkerPort::note_gpu_use(const GpuUse& now, const GpuUse& before) {
  if (now == before) return;
  WorkerRecord& record = view_.worker(worker_);
  const auto bytes = [](std::size_t more, std::size_t less) {
    return static_cast<std::int64_t>(more) - static_cast<std::int64_t>(less);
  };
  add(record.gpu_batches, now.gpu_batches - before.gpu_batches);
  add(record.cpu_batches, now.cpu_batches - before.cpu_batches);
  add(record.gpu_graph_bytes, bytes(now.graph_bytes, before.graph_bytes));
  add(record.gpu_rows_bytes, bytes(now.rows_bytes, before.rows_bytes));
  record.gpu_graph_share.store(now.graph.millionths);
  record.gpu_rows_share.store(now.rows.millionths);
}

void WorkerPort::report_failure(ErrorCode code, std::string_view message) {
  WorkerRecord& record = view_.worker(worker_);
  record.error_code = 1 + static_cast<std::uint32_t>(code);
  copy_text(record.error, message);
  record.state.store(static_cast<std::uint32_t>(WorkerState::kFailed));
  tell_loader();
}

std::optional<WorkerPort::Candidate> WorkerPort::find_planned() const {
  std::optional<Candidate> lowest;
  for (std::uint32_t slot = 0; slot < view_.shape().num_slots; ++slot) {
    const SlotRecord& record = view_.slot(slot);
    const std::uint64_t word = record.word.load();
    if (SlotWord::unpack(word).state != SlotState::kPlanned) continue;
    const std::uint64_t sequence = record.sequence.load();
    if (lowest && sequence >= lowest->batch.sequence) continue;
    lowest = {.slot = slot, .word = word, .batch = {.sequence = sequence}};
  }
  if (!lowest) return {};
  // Torn where the loader plans anew in between; then the generation has grown and the compare-and-swap
  // fails.
  const SlotRecord& record = view_.slot(lowest->slot);
  lowest->batch.epoch = record.epoch.load();
  lowest->batch.first = record.first.load();
  lowest->batch.count = record.count.load();
  lowest->batch.job = record.job.load();
  lowest->batch.held.millionths = record.held.load();
  return lowest;
}

std::optional<Claim> WorkerPort::take(const Candidate& candidate) {
  FAILPOINT("channel.before_claim");
  const SlotWord planned = SlotWord::unpack(candidate.word);
  const SlotWord mine{.state = SlotState::kFilling, .owner = incarnation_, .generation = planned.generation};
  std::uint64_t expected = candidate.word;
  SlotRecord& record = view_.slot(candidate.slot);
  if (!record.word.compare_exchange_strong(expected, mine.pack())) return {};
  FAILPOINT("channel.after_claim");
  record.times.claimed = monotonic_now();
  record.worker = worker_;
  record.used = 0;
  record.error_code = 0;
  return Claim{.slot = candidate.slot, .word = mine.pack(), .batch = candidate.batch};
}

std::optional<Claim> WorkerPort::try_claim() {
  view_.worker(worker_).heartbeat.fetch_add(1);
  while (const std::optional<Candidate> candidate = find_planned()) {
    if (std::optional<Claim> claim = take(*candidate)) return claim;
  }
  return {};
}

std::optional<Claim> WorkerPort::claim(std::chrono::nanoseconds limit) {
  ControlBlock& control = view_.control();
  WorkerRecord& self = view_.worker(worker_);
  const std::uint32_t seen = control.work_event.load();
  std::optional<Claim> claim = try_claim();
  if (claim || terminating()) return claim;
  const std::int64_t begin = monotonic_now();
  const bool missing =
      control.loader.unplanned.load() > 0;  // else the epoch is planned whole: a rest, no wait
  if (missing) self.waiting_since.store(begin);
  control.work_event.wait(seen, limit);
  if (missing) {
    self.waiting_since.store(
        0);  // first: who reads in between misses the wait for a moment, never counts it twice
    add(self.waited_for_slot, monotonic_now() - begin);
  }
  return try_claim();
}

void WorkerPort::ask(Claim& claim, std::size_t bytes) {
  if (bytes > view_.shape().slot_stride) {
    throw Error(ErrorCode::kNoSpace,
                fmt::format("the batch of {} seeds from position {} takes {} bytes, a slot at most {}: lower "
                            "{}, fanouts or num_slots",
                            claim.batch.count, claim.batch.first, bytes, view_.shape().slot_stride,
                            marked("batch_size")));
  }
  SlotRecord& record = view_.slot(claim.slot);
  record.wanted.store(bytes);
  FAILPOINT("channel.after_ask");
  if (record.granted.load() >= bytes) return;
  claim.waiting_since = monotonic_now();
  tell_loader();
}

WorkerPort::Grant WorkerPort::grant(Claim& claim, std::size_t bytes) {
  const SlotRecord& record = view_.slot(claim.slot);
  const Grant answer = record.abandoned.load() != 0     ? Grant::kAbandoned
                       : record.granted.load() >= bytes ? Grant::kGranted
                                                        : Grant::kWaiting;
  if (claim.waiting_since == 0) return answer;
  const std::int64_t now = monotonic_now();
  add(view_.worker(worker_).waited_for_grant, now - claim.waiting_since);
  claim.waiting_since = answer == Grant::kWaiting ? now : 0;
  return answer;
}

WorkerPort::Grant WorkerPort::await_grant(Claim& claim, std::size_t bytes, std::chrono::nanoseconds limit) {
  SlotRecord& record = view_.slot(claim.slot);
  const std::uint32_t seen = record.grant_event.load();
  if (const Grant answer = grant(claim, bytes); answer != Grant::kWaiting) return answer;
  view_.worker(worker_).heartbeat.fetch_add(1);
  futex_wait(record.grant_event, seen, limit);
  return grant(claim, bytes);
}

void WorkerPort::note_working(const Claim& claim) {
  view_.worker(worker_).at_slot.store(1 + claim.slot, std::memory_order_relaxed);
}

void WorkerPort::note_sampled(const Claim& claim) { view_.slot(claim.slot).times.sampled = monotonic_now(); }

void WorkerPort::note_writing(const Claim& claim) { view_.slot(claim.slot).times.writing = monotonic_now(); }

void WorkerPort::note_gathered(const Claim& claim) {
  view_.slot(claim.slot).times.gathered = monotonic_now();
}

void WorkerPort::note_tiers(const Claim& claim, const TierCounts& counts) {
  WorkerRecord& self = view_.worker(worker_);
  const TierCounts::Numbers numbers = counts.numbers();
  std::ranges::copy(numbers, view_.slot(claim.slot).tiers);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != 0) add(self.tiers[i], numbers[i]);
}

void WorkerPort::announce(const Claim& claim) {
  view_.slot(claim.slot).announced.store(1);
  view_.control().loader_event.bump();
}

bool WorkerPort::finish(const Claim& claim) {
  view_.slot(claim.slot).times.published = monotonic_now();
  FAILPOINT("channel.before_publish");
  SlotWord ready = SlotWord::unpack(claim.word);
  ready.state = SlotState::kReady;
  std::uint64_t expected = claim.word;
  if (!view_.slot(claim.slot).word.compare_exchange_strong(expected, ready.pack())) return false;
  FAILPOINT("channel.after_publish");
  view_.control().published.fetch_add(1);
  if (view_.control().grants_pending.load() != 0) {
    tell_loader();
  } else {
    view_.control().loader_event.bump(Wake::kAll, doorbell_);
  }
  return true;
}

bool WorkerPort::publish(const Claim& claim, std::size_t bytes) {
  view_.slot(claim.slot).used = bytes;
  if (bytes > 0) count_batch(claim);
  return finish(claim);
}

void WorkerPort::count_batch(const Claim& claim) {
  const SlotTimes& times = view_.slot(claim.slot).times;
  WorkerRecord& self = view_.worker(worker_);
  add(self.batches, 1);
  add(self.sampling, times.sampled - times.claimed);
  add(self.gathering, times.gathered - times.writing);
}

bool WorkerPort::publish_error(const Claim& claim, ErrorCode code, std::string_view message) {
  SlotRecord& record = view_.slot(claim.slot);
  record.used = 0;
  record.error_code = 1 + static_cast<std::uint32_t>(code);
  copy_text(record.error, message);
  return finish(claim);
}

}  // namespace hopfeed
