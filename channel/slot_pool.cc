// See slot_pool.h; the table of states is in slot_layout.h.
#include "channel/slot_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "channel/bell.h"
#include "channel/futex.h"

namespace hopfeed {

SlotPool::SlotPool(ChannelMemory& memory, ChannelView view, const SlotPoolOptions& options,
                   ChannelBells bells)
    : memory_(&memory),
      view_(view),
      options_(options),
      bells_(bells),
      sequences_(view.shape().num_slots, kNoBatch) {
  leaving_.reserve(num_slots());
  for (std::uint32_t i = num_slots(); i-- > 0;) free_.push_back(i);  // slot 0 is planned first
}

// ---- planning

bool SlotPool::plan(const PlannedBatch& batch) {
  if (free_.empty()) return false;
  const std::uint32_t slot = take_free(batch.expected_bytes);
  sequences_[slot] = batch.sequence;
  SlotRecord& record = view_.slot(slot);
  record.sequence.store(batch.sequence);
  record.epoch.store(batch.epoch);
  record.first.store(batch.first);
  record.count.store(batch.count);
  record.job.store(batch.job);
  record.held.store(batch.held.millionths);
  record.wanted.store(0);
  record.abandoned.store(0);
  record.announced.store(0);
  record.times = SlotTimes{.planned = monotonic_now()};
  set_word(slot, {.state = SlotState::kPlanned, .owner = 0, .generation = word(slot).generation + 1});
  view_.control().work_event.bump(Wake::kOne, bells_.fillers);
  return true;
}

std::uint32_t SlotPool::take_free(std::size_t expected_bytes) {
  const auto distance = [&](std::uint32_t slot) {
    const std::size_t has = view_.slot(slot).granted.load();
    return has > expected_bytes ? has - expected_bytes : expected_bytes - has;
  };
  std::size_t best = free_.size() - 1;
  // With batches of one kind the last slot is as good as any.
  if (expected_bytes > 0 && distance(free_[best]) > expected_bytes / 2) {
    for (std::size_t i = best; i-- > 0;)
      if (distance(free_[i]) < distance(free_[best])) best = i;
  }
  const std::uint32_t slot = free_[best];
  free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
  return slot;
}

std::uint32_t SlotPool::plan_from(BatchPlan& from) {
  std::uint32_t planned = 0;
  for (; !free_.empty(); ++planned) {
    const std::optional<PlannedBatch> batch = from.next();
    if (!batch) break;
    plan(*batch);
  }
  return planned;
}

/// Whether a worker has to be told.
bool SlotPool::abandon_slot(std::uint32_t slot) {
  SlotWord seen = word(slot);
  if (seen.state == SlotState::kPlanned) {
    std::uint64_t expected = seen.pack();
    if (view_.slot(slot).word.compare_exchange_strong(expected,
                                                      SlotWord{.generation = seen.generation}.pack())) {
      free_slot(slot);
      return false;
    }
    seen = SlotWord::unpack(expected);  // a worker was quicker
  }
  if (seen.state != SlotState::kFilling && seen.state != SlotState::kReady) return false;
  if (view_.slot(slot).abandoned.exchange(1) == 0) ++abandoned_;
  futex_bump(view_.slot(slot).grant_event);
  return true;
}

void SlotPool::abandon() {
  bool told = false;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) told |= abandon_slot(slot);
  if (told) view_.control().work_event.ring_if_asked(bells_.fillers);
  sweep();
}

void SlotPool::abandon(std::uint64_t sequence) {
  const std::optional<std::uint32_t> slot = slot_of(sequence);
  if (!slot) return;
  if (abandon_slot(*slot)) view_.control().work_event.ring_if_asked(bells_.fillers);
  sweep();
}

void SlotPool::sweep() {
  for (std::size_t i = 0; i < leaving_.size();) {
    const std::uint32_t slot = leaving_[i];
    if (read_by_device(slot)) {
      ++i;
      continue;
    }
    leaving_[i] = leaving_.back();
    leaving_.pop_back();
    free_slot(slot);
  }
  for (std::uint32_t slot = 0; abandoned_ > 0 && slot < num_slots(); ++slot) {
    if (word(slot).state != SlotState::kReady || view_.slot(slot).abandoned.load() == 0) continue;
    --abandoned_;
    free_slot(slot);
  }
}

// ---- memory

namespace {

/// Blocks of one loader differ by a few per cent; a little more than asked for saves asking again and again.
std::size_t with_headroom(std::size_t wanted) {
  return round_up(wanted, std::max(kPageBytes, std::bit_floor(wanted / 16)));
}

}  // namespace

bool SlotPool::waits_for_grant(std::uint32_t slot) const {
  const SlotRecord& record = view_.slot(slot);
  return word(slot).state == SlotState::kFilling && record.abandoned.load() == 0 &&
         record.wanted.load() > record.granted.load();
}

std::vector<std::uint32_t> SlotPool::waiting() const {
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    if (waits_for_grant(slot)) slots.push_back(slot);
  }
  std::sort(slots.begin(), slots.end(), [&](std::uint32_t a, std::uint32_t b) {
    return view_.slot(a).sequence.load() < view_.slot(b).sequence.load();
  });
  return slots;
}

bool SlotPool::lowest_unfinished(std::uint32_t slot) const {
  const std::uint64_t sequence = view_.slot(slot).sequence.load();
  for (std::uint32_t other = 0; other < num_slots(); ++other) {
    const SlotState state = word(other).state;
    if (state != SlotState::kPlanned && state != SlotState::kFilling) continue;
    if (view_.slot(other).abandoned.load() == 0 && view_.slot(other).sequence.load() < sequence) return false;
  }
  return true;
}

std::size_t SlotPool::limit_of(std::uint32_t slot) const {
  return options_.channel_size + (lowest_unfinished(slot) ? options_.allowance : 0);
}

/// `pledged`: bytes that are still to come of grants that are under way; what this one adds to that.
SlotPool::Granting SlotPool::try_grant(std::uint32_t slot, std::size_t& pledged) {
  SlotRecord& record = view_.slot(slot);
  const std::size_t had = record.granted.load(), others = granted() - had + pledged,
                    wanted = record.wanted.load();
  std::size_t free_bytes = 0;
  for (std::uint32_t other : free_) free_bytes += view_.slot(other).granted.load();
  std::size_t target = std::min<std::size_t>(with_headroom(wanted), view_.shape().slot_stride);
  if (others + target > options_.channel_size + free_bytes) target = round_up(wanted, kPageBytes);
  if (others + target > limit_of(slot) + free_bytes)
    return Granting::kNoRoom;  // punching would lose warm memory in vain
  for (std::uint32_t other : free_) {
    if (granted() - had + pledged + target <= options_.channel_size) break;
    punch(other);
  }
  const std::size_t step = std::min(target - had, options_.reserve_step);
  memory_->reserve(view_.slot_offset(slot) + had, step);
  record.granted.store(had + step);
  granted_ += step;
  if (had + step < wanted) {
    pledged += target - had - step;
    view_.control().loader_event.bump(Wake::kAll, bells_.planner);
    return Granting::kUnderWay;
  }
  futex_bump(record.grant_event);
  view_.control().work_event.ring_if_asked(bells_.fillers);
  return Granting::kDone;
}

void SlotPool::serve_grants() {
  ControlBlock& control = view_.control();
  if (waiting().empty()) return;
  // Raised before the second look: a worker that publishes after it sees the flag and tells us, so that the
  // sequence that becomes the lowest by it is not forgotten.
  control.grants_pending.store(1);
  std::size_t pledged = 0;
  for (std::uint32_t slot : waiting()) {
    if (try_grant(slot, pledged) == Granting::kNoRoom)
      return;  // those behind it must not take what it waits for
  }
  if (pledged > 0) return;
  control.grants_pending.store(0);
}

std::size_t SlotPool::held_bytes() const {
  std::size_t bytes = 0;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot)
    if (word(slot).state == SlotState::kHeld) bytes += view_.slot(slot).granted.load();
  return bytes;
}

std::optional<SlotPool::Stuck> SlotPool::stuck(std::uint64_t sequence) const {
  Stuck result{.held = held_bytes()};
  if (!leaving_.empty()) return {};  // their memory comes back by itself
  std::size_t free_bytes = 0;
  std::optional<std::uint32_t> found;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    const SlotState state = word(slot).state;
    if (ready(slot)) result.ready += view_.slot(slot).granted.load();
    if (state == SlotState::kFree) free_bytes += view_.slot(slot).granted.load();
    const bool in_flight = state == SlotState::kFilling || state == SlotState::kReady;
    if (in_flight && view_.slot(slot).abandoned.load() != 0) return {};  // its memory comes back by itself
    if (waits_for_grant(slot) && view_.slot(slot).sequence.load() == sequence) found = slot;
  }
  if (!found || !lowest_unfinished(*found)) return {};
  result.wanted = view_.slot(*found).wanted.load();
  const std::size_t others = granted() - view_.slot(*found).granted.load();
  if (others + round_up(result.wanted, kPageBytes) <= limit_of(*found) + free_bytes) return {};
  return result;
}

void SlotPool::punch(std::uint32_t slot) {
  SlotRecord& record = view_.slot(slot);
  if (record.granted.load() == 0) return;
  memory_->punch(view_.slot_offset(slot), record.granted.load());
  granted_ -= record.granted.load();
  record.granted.store(0);
}

void SlotPool::punch_all_but_held() {
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    if (word(slot).state != SlotState::kHeld) punch(slot);
  }
}

// ---- handing out and taking back

std::optional<std::uint32_t> SlotPool::slot_of(std::uint64_t sequence) const {
  const auto found = std::find(sequences_.begin(), sequences_.end(), sequence);
  if (found == sequences_.end()) return {};
  return static_cast<std::uint32_t>(found - sequences_.begin());
}

bool SlotPool::ready(std::uint32_t slot) const {
  return word(slot).state == SlotState::kReady && view_.slot(slot).abandoned.load() == 0;
}

SlotPool::Finished SlotPool::finished(std::uint32_t slot) const {
  const SlotRecord& record = view_.slot(slot);
  const auto refused = [&](ErrorCode code, const std::string& text) {
    return Finished{.slot = slot, .sequence = sequences_[slot], .block = {}, .error = Error(code, text)};
  };
  if (record.error_code != 0) {
    return refused(static_cast<ErrorCode>(record.error_code - 1),
                   std::string(record.error, strnlen(record.error, sizeof(record.error))));
  }
  if (record.used > record.granted.load()) {
    return refused(ErrorCode::kCorrupt, "slot " + std::to_string(slot) +
                                            " of the channel says that it holds more than it was granted; "
                                            "restart the loader");
  }
  return {
      .slot = slot, .sequence = sequences_[slot], .block = view_.slot_bytes(slot, record.used), .error = {}};
}

std::optional<SlotPool::Finished> SlotPool::find_ready(std::uint64_t sequence) const {
  const std::optional<std::uint32_t> slot = slot_of(sequence);
  if (!slot || !ready(*slot)) return {};
  return finished(*slot);
}

std::optional<SlotPool::Finished> SlotPool::find_any_ready() const {
  std::optional<std::uint32_t> lowest;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    if ((!lowest || sequences_[slot] < sequences_[*lowest]) && ready(slot)) lowest = slot;
  }
  if (!lowest) return {};
  return finished(*lowest);
}

std::vector<SlotPool::Finished> SlotPool::take_all_ready() {
  std::vector<Finished> taken;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    if (sequences_[slot] == kNoBatch || !ready(slot)) continue;
    taken.push_back(finished(slot));
    take(slot);
  }
  std::ranges::sort(taken, {}, &Finished::sequence);
  return taken;
}

bool SlotPool::announced(std::uint64_t sequence) const {
  const std::optional<std::uint32_t> slot = slot_of(sequence);
  return slot && view_.slot(*slot).announced.load() != 0;
}

void SlotPool::take(std::uint32_t slot) {
  view_.slot(slot).times.taken = monotonic_now();
  set_word(slot, {.state = SlotState::kHeld, .owner = 0, .generation = word(slot).generation});
}

void SlotPool::release(std::uint32_t slot) {
  view_.slot(slot).times.released = monotonic_now();
  if (!read_by_device(slot)) return free_slot(slot);
  leaving_.push_back(slot);
  ring(bells_.planner);
}

bool SlotPool::read_by_device(std::uint32_t slot) const { return !memory_->idle(view_.slot_offset(slot)); }

void SlotPool::free_slot(std::uint32_t slot) {
  set_word(slot, {.state = SlotState::kFree, .owner = 0, .generation = word(slot).generation});
  sequences_[slot] = kNoBatch;
  free_.push_back(slot);
  if (granted() > options_.channel_size) punch(slot);
}

// ---- deaths

int SlotPool::reclaim(std::uint32_t incarnation) {
  int again = 0;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    const SlotWord seen = word(slot);
    if (seen.state != SlotState::kFilling || seen.owner != incarnation) continue;
    SlotRecord& record = view_.slot(slot);
    record.wanted.store(0);
    if (record.abandoned.load() != 0) {
      --abandoned_;
      free_slot(slot);
      continue;
    }
    record.announced.store(0);
    record.times = SlotTimes{.planned = record.times.planned};
    set_word(slot, {.state = SlotState::kPlanned, .owner = 0, .generation = seen.generation + 1});
    ++again;
  }
  view_.control().work_event.bump(Wake::kAll, bells_.fillers);
  view_.control().loader_event.bump(Wake::kAll, bells_.planner);
  return again;
}

std::vector<SlotPool::Filling> SlotPool::filling() const {
  std::vector<Filling> result;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) {
    const SlotWord seen = word(slot);
    if (seen.state != SlotState::kFilling) continue;
    result.push_back({.slot = slot,
                      .owner = seen.owner,
                      .generation = seen.generation,
                      .sequence = sequences_[slot],
                      .waits_for_grant = waits_for_grant(slot)});
  }
  return result;
}

PlannedBatch SlotPool::batch_of(std::uint32_t slot) const {
  const SlotRecord& record = view_.slot(slot);
  return {.sequence = sequences_[slot],
          .epoch = record.epoch.load(),
          .first = record.first.load(),
          .count = record.count.load(),
          .job = record.job.load(),
          .held = {.millionths = record.held.load()}};
}

std::uint32_t SlotPool::count(SlotState state) const {
  std::uint32_t sum = 0;
  for (std::uint32_t slot = 0; slot < num_slots(); ++slot) sum += word(slot).state == state;
  return sum;
}

}  // namespace hopfeed
