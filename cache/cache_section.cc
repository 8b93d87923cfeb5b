// See cache_section.h.
#include "cache/cache_section.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>
#include <thread>
#include <utility>

#include "core/base/failpoint.h"
#include "core/base/prefetch.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kCleanedAtOnce = 1 << 16;  // entries

std::uint32_t bit_of(int ticket) { return ticket < 0 ? 0 : std::uint32_t{1} << ticket; }

/// Adds to a count that is changed under the mutex alone, though read without it.
void add(std::atomic<std::int64_t>& count, std::int64_t more) {
  count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

std::uint32_t* zeros(std::uint64_t count) {
  auto* const memory = static_cast<std::uint32_t*>(std::calloc(count, sizeof(std::uint32_t)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

RowHeatsView heats_in(const std::byte* memory, const CacheSectionShape& shape) {
  const std::byte* const heats = memory + shape.heat_offset;
  if (shape.num_runs > 0)
    return RowHeatsView(std::span(reinterpret_cast<const HeatRun*>(heats), shape.num_runs));
  return RowHeatsView(
      std::span(reinterpret_cast<const std::uint8_t*>(heats), static_cast<std::size_t>(shape.rows)));
}

/// 0, EOWNERDEAD, or ETIMEDOUT.
int lock_by(pthread_mutex_t& mutex, std::chrono::milliseconds time) {
#ifdef __SANITIZE_THREAD__  // that of g++ 12 does not know pthread_mutex_clocklock
  const auto until = std::chrono::steady_clock::now() + time;
  int error = EBUSY;
  while ((error = pthread_mutex_trylock(&mutex)) == EBUSY && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return error == EBUSY ? ETIMEDOUT : error;
#else
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  const std::int64_t nanoseconds = until.tv_nsec + std::chrono::nanoseconds(time).count();
  until.tv_sec += nanoseconds / 1'000'000'000;
  until.tv_nsec = nanoseconds % 1'000'000'000;
  return pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &until);
#endif
}

}  // namespace

CacheSection::CacheSection(std::byte* memory, CacheSectionRecord& section)
    : section_(section),
      table_(memory, section.shape),
      heat_(heats_in(memory, section.shape)),
      frames_(memory + section.shape.frames_offset),
      lists_(section, reinterpret_cast<CacheFrame*>(memory + section.shape.records_offset)),
      my_pins_(zeros(section.shape.num_frames)) {}

// ---- the lock

int CacheSection::try_lock() {
  const int error = pthread_mutex_trylock(&section_.mutex);
  if (error != EBUSY || stuck_.load(std::memory_order_relaxed)) return error;
  return lock_by(section_.mutex, kCacheLockDeadline);
}

bool CacheSection::lock() {
  const int error = try_lock();
  if (error != 0 && error != EOWNERDEAD) {
    stuck_.store(true, std::memory_order_relaxed);
    return false;
  }
  stuck_.store(false, std::memory_order_relaxed);
  if (error == EOWNERDEAD) {
    rebuild(0);
    section_.rebuilt.fetch_add(1, std::memory_order_relaxed);
    pthread_mutex_consistent(&section_.mutex);
    set_wants_sweep(true);
  }
  static_cast<void>(FAILPOINT("cache.locked"));
  if (owes()) pay();
  return true;
}

void CacheSection::Lock::unlock() {
  if (held_) pthread_mutex_unlock(&section_.section_.mutex);
  held_ = false;
}

void CacheSection::owe(const Debt& debt) {
  const MutexLock lock(debt_mutex_);
  const auto append = [](std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  append(debt_.pinned, debt.pinned);
  append(debt_.whole, debt.whole);
  append(debt_.torn, debt.torn);
  debt_.tickets |= debt.tickets;
  owes_.store(true, std::memory_order_relaxed);
}

void CacheSection::pay() {
  Debt debt;
  {
    const MutexLock lock(debt_mutex_);
    debt = std::exchange(debt_, {});
    owes_.store(false, std::memory_order_relaxed);
  }
  for (const std::uint32_t frame : debt.whole) publish(frame);
  for (const std::uint32_t frame : debt.torn) abandon(frame);
  for (const std::uint32_t frame : debt.pinned) unpin(frame);
  if (debt.tickets != 0) forget_tickets(debt.tickets);
}

// ---- tickets

int CacheSection::take_ticket() {
  for (int tried = 0; tried < kMaxAnnounced; ++tried) {
    const std::uint32_t ticket = section_.next_ticket++ % kMaxAnnounced;
    if (section_.tickets[ticket].load(std::memory_order_relaxed) != 0) continue;
    section_.tickets[ticket].store(1 + static_cast<std::uint32_t>(member_), std::memory_order_release);
    section_.active |= std::uint32_t{1} << ticket;
    return static_cast<int>(ticket);
  }
  set_wants_sweep(true);
  return -1;
}

void CacheSection::end_ticket(int ticket) {
  section_.active &= ~bit_of(ticket);
  section_.tickets[ticket].store(0, std::memory_order_release);
}

void CacheSection::forget_tickets(std::uint32_t tickets) {
  for (; tickets != 0; tickets &= tickets - 1) {
    const int ticket = std::countr_zero(tickets);
    section_.active &= ~bit_of(ticket);
    section_.tickets[ticket].store(kTicketDirty, std::memory_order_release);
    while (const std::uint32_t frame = lists_.first(ticket)) {  // none goes back: the ticket is not active
      lists_.remove(frame);
      push_by_rank(frame, word_of(frame).row);
    }
  }
  set_wants_sweep(true);
}

std::uint32_t CacheSection::dirty_tickets() const {
  std::uint32_t dirty = 0;
  for (int ticket = 0; ticket < kMaxAnnounced; ++ticket)
    if (section_.tickets[ticket].load(std::memory_order_relaxed) == kTicketDirty) dirty |= bit_of(ticket);
  return dirty;
}

std::uint64_t CacheSection::clean_some(std::uint64_t entry, std::uint32_t tickets) {
  const std::uint64_t end = std::min(entry + kCleanedAtOnce, table_.size());
  for (; entry < end; ++entry)
    if (CacheRow& cleaned = table_.entry(entry); (cleaned.wanted & tickets) != 0) cleaned.wanted &= ~tickets;
  return entry;
}

void CacheSection::end_cleaned(std::uint32_t tickets) {
  for (; tickets != 0; tickets &= tickets - 1)
    section_.tickets[std::countr_zero(tickets)].store(0, std::memory_order_release);
}

// ---- rows

FrameWord CacheSection::word_of(std::uint32_t frame) const {
  return FrameWord::unpack(lists_.frame(frame).word.load(std::memory_order_relaxed));
}

std::uint32_t CacheSection::frame_of(std::int64_t row) const {
  const CacheRow* const known = table_.find(row);
  if (known == nullptr || known->frame == 0) return 0;
  const FrameWord word = word_of(known->frame);
  return word.row == row && word.state != FrameState::kEmpty ? known->frame : 0;
}

void CacheSection::forget_frame(std::int64_t row, std::uint32_t frame) {
  if (CacheRow* const known = table_.find(row); known != nullptr && known->frame == frame) known->frame = 0;
}

void CacheSection::push_by_rank(std::uint32_t frame, std::int64_t row) {
  const CacheFrame& pushed = lists_.frame(frame);
  lists_.push(frame, lists_.bucket_of(lists_.rank(wanted_of(row), pushed.heat)));
}

void CacheSection::settle(std::int64_t row) {
  const std::uint32_t frame = frame_of(row);
  if (frame == 0) return;
  const CacheFrame& settled = lists_.frame(frame);
  if (settled.bucket == kNoBucket) return;  // pinned, or being filled
  if (lists_.bucket_of(lists_.rank(wanted_of(row), settled.heat)) == settled.bucket) return;
  lists_.remove(frame);
  push_by_rank(frame, row);
}

bool CacheSection::want(std::int64_t row, int ticket) {
  CacheRow* const wanted = table_.place(row, section_.active, CacheTable::Over::kNobody);
  if (wanted == nullptr) return true;
  const std::uint32_t bit = bit_of(ticket), before = wanted->wanted & section_.active & ~bit;
  wanted->wanted |= bit;
  static_cast<void>(FAILPOINT("cache.mid_announce"));
  if (before != 0) return false;  // its next use is what it was
  if (!has_frame(row)) return true;
  settle(row);
  return false;
}

std::uint32_t CacheSection::pin(std::int64_t row) {
  const std::uint32_t frame = frame_of(row);
  if (frame == 0 || word_of(frame).state != FrameState::kValid) return 0;
  lists_.remove(frame);
  if (my_pins_[frame - 1]++ == 0) {
    std::atomic<std::uint64_t>& pins = lists_.frame(frame).pins;
    pins.store(pins.load(std::memory_order_relaxed) | my_bit(), std::memory_order_relaxed);
  }
  static_cast<void>(FAILPOINT("cache.mid_take"));
  return frame;
}

void CacheSection::unpin(std::uint32_t frame) {
  if (--my_pins_[frame - 1] != 0) return;
  CacheFrame& pinned = lists_.frame(frame);
  const std::uint64_t others = pinned.pins.load(std::memory_order_relaxed) & ~my_bit();
  pinned.pins.store(others, std::memory_order_release);
  if (others == 0) push_by_rank(frame, word_of(frame).row);
}

std::uint32_t CacheSection::claim(std::int64_t row, std::uint8_t heat, int rank) {
  std::uint32_t frame = lists_.first(kEmptyBucket);
  if (frame != 0) {
    lists_.remove(frame);
  } else if (section_.fresh < shape().num_frames) {
    frame = ++section_.fresh;
  } else {
    const CacheLists::Worst worst = lists_.worst();
    if (worst.number == 0) set_wants_sweep(true);
    if (worst.number == 0 || worst.rank <= rank) return 0;
    frame = worst.number;
    lists_.remove(frame);
    forget_frame(word_of(frame).row, frame);
    add(section_.valid, -1);
    add(section_.evicted, 1);
    if (const std::uint32_t next = lists_.worst().number; next != 0) {  // perhaps the next that goes
      table_.prefetch(word_of(next).row);
      if (lists_.frame(next).next != 0) prefetch_frame_record(lists_.frame(next).next);
    }
  }
  CacheFrame& claimed = lists_.frame(frame);
  claimed.bucket = kNoBucket;
  claimed.heat = heat;
  claimed.word.store(FrameWord{.state = FrameState::kReading, .owner = member_, .row = row}.pack(),
                     std::memory_order_release);
  static_cast<void>(FAILPOINT("cache.mid_claim"));
  table_.find(row)->frame = frame;
  return frame;
}

void CacheSection::publish(std::uint32_t frame) {
  const std::int64_t row = word_of(frame).row;
  lists_.frame(frame).word.store(FrameWord{.state = FrameState::kValid, .owner = 0, .row = row}.pack(),
                                 std::memory_order_release);
  static_cast<void>(FAILPOINT("cache.mid_publish"));
  add(section_.valid, 1);
  add(section_.kept, 1);
  push_by_rank(frame, row);
}

void CacheSection::abandon(std::uint32_t frame) {
  forget_frame(word_of(frame).row, frame);
  empty(frame);
}

void CacheSection::empty(std::uint32_t frame) {
  lists_.frame(frame).word.store(FrameWord{}.pack(), std::memory_order_release);
  lists_.push(frame, kEmptyBucket);
}

void CacheSection::prefetch_row(std::int64_t row) const { table_.prefetch(row); }

void CacheSection::prefetch_frame(std::int64_t row) const {
  const CacheRow* const known = table_.find(row);
  if (known != nullptr && known->frame != 0) prefetch_frame_record(known->frame);
}

void CacheSection::prefetch_neighbours(std::int64_t row) const {
  const CacheRow* const known = table_.find(row);
  if (known == nullptr || known->frame == 0) return;
  const CacheFrame& frame = lists_.frame(known->frame);
  if (frame.prev != 0) prefetch_line_to_write(&lists_.frame(frame.prev));
  if (frame.next != 0) prefetch_line_to_write(&lists_.frame(frame.next));
}

void CacheSection::prefetch_frame_record(std::uint32_t frame) const {
  prefetch_line_to_write(&lists_.frame(frame));
  prefetch_line_to_write(&my_pins_[frame - 1]);
}

void CacheSection::prefetch_row_of(std::uint32_t frame) const { prefetch_row(word_of(frame).row); }

// ---- after deaths

void CacheSection::rebuild(std::uint64_t dead) {
  section_.active = 0;
  for (int ticket = 0; ticket < kMaxAnnounced; ++ticket) {
    const std::uint32_t word = section_.tickets[ticket].load(std::memory_order_acquire);
    if (word == 0 || word == kTicketDirty) continue;
    if ((dead >> (word - 1) & 1) != 0)
      section_.tickets[ticket].store(kTicketDirty, std::memory_order_release);
    else
      section_.active |= bit_of(ticket);
  }
  lists_.clear();
  std::int64_t valid = 0;
  for (std::uint32_t frame = 1; frame <= section_.fresh; ++frame) {
    static_cast<void>(FAILPOINT("cache.mid_rebuild"));
    if (rebuild_frame(frame, dead)) ++valid;
  }
  section_.valid.store(valid, std::memory_order_relaxed);
}

/// True where it holds a row.
bool CacheSection::rebuild_frame(std::uint32_t number, std::uint64_t dead) {
  CacheFrame& frame = lists_.frame(number);
  frame.bucket = kNoBucket;
  const std::uint64_t pins = frame.pins.load(std::memory_order_relaxed) & ~dead;
  frame.pins.store(pins, std::memory_order_relaxed);
  const FrameWord word = FrameWord::unpack(frame.word.load(std::memory_order_acquire));
  const bool torn = word.state == FrameState::kReading && (dead >> word.owner & 1) != 0;
  CacheRow* known = nullptr;
  if (word.state != FrameState::kEmpty && !torn)
    known = table_.place(word.row, section_.active, CacheTable::Over::kWishes);
  if (word.state == FrameState::kEmpty || torn ||
      (known == nullptr && word.state == FrameState::kValid && pins == 0)) {
    forget_frame(word.row, number);
    empty(number);
    return false;
  }
  frame.heat = heat_(word.row);
  if (known != nullptr) known->frame = number;
  if (word.state != FrameState::kValid) return false;
  if (pins == 0) push_by_rank(number, word.row);
  return true;
}

}  // namespace hopfeed
