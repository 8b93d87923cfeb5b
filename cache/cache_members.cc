// See cache_members.h.
#include "cache/cache_members.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>

#include "core/base/failpoint.h"

namespace hopfeed {
namespace {

constexpr int kSweeper = kMaxCacheMembers;  // the byte of whoever sweeps
constexpr std::int64_t kSweepNanoseconds = 1'000'000'000;

std::int64_t steady_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct flock byte_lock(short type, int byte) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = 1;
  return lock;
}

}  // namespace

CacheMembers::CacheMembers(const CacheMemory& memory, Sections sections)
    : memory_(memory), sections_(sections), pid_(getpid()) {
  sweep();
  for (int m = 0; m < kMaxCacheMembers && member_ < 0; ++m) {
    if (memory_.header().members[m].load(std::memory_order_acquire) != 0 || !lock_byte(m)) continue;
    // Whoever had the slot in between and died with it is left to the next sweep.
    if (memory_.header().members[m].exchange(1, std::memory_order_acq_rel) == 0)
      member_ = m;
    else
      unlock_byte(m);
  }
  for (const auto& section : sections_) section->set_member(member_);
  static_cast<void>(FAILPOINT("cache.joined"));
}

CacheMembers::~CacheMembers() {
  if (!is_mine() || member_ < 0) return;  // the lock goes with the last descriptor
  bool owes = false;
  for (const auto& section : sections_) {
    if (!section->owes()) continue;
    const CacheSection::Lock lock(*section);  // pays
    owes = owes || !lock;
  }
  if (!owes) memory_.header().members[member_].store(0, std::memory_order_release);
}

bool CacheMembers::is_mine() const { return getpid() == pid_; }

bool CacheMembers::lock_byte(int byte) {
  struct flock lock = byte_lock(F_WRLCK, byte);
  return fcntl(memory_.fd(), F_OFD_SETLK, &lock) == 0;
}

void CacheMembers::unlock_byte(int byte) {
  struct flock lock = byte_lock(F_UNLCK, byte);
  fcntl(memory_.fd(), F_OFD_SETLK, &lock);
}

void CacheMembers::sweep_if_wanted() {
  if (std::ranges::none_of(sections_, [](const auto& section) { return section->wants_sweep(); })) return;
  const std::int64_t now = steady_nanoseconds();
  std::int64_t next = next_sweep_.load(std::memory_order_relaxed);
  if (now < next || !next_sweep_.compare_exchange_strong(next, now + kSweepNanoseconds)) return;
  for (const auto& section : sections_) section->set_wants_sweep(false);
  sweep();
}

/// Slots that are in use by nobody, whose locks are then held.
std::uint64_t CacheMembers::find_dead() {
  std::uint64_t dead = 0;
  for (int m = 0; m < kMaxCacheMembers; ++m) {
    if (m == member_ || memory_.header().members[m].load(std::memory_order_acquire) == 0 || !lock_byte(m))
      continue;
    dead |= std::uint64_t{1} << m;
  }
  return dead;
}

void CacheMembers::sweep() {
  const MutexLock one_of_this_process(sweep_mutex_);
  if (!lock_byte(kSweeper)) return;
  const std::uint64_t dead = find_dead();
  bool whole = true;
  for (const auto& section : sections_) whole = sweep_section(*section, dead) && whole;
  static_cast<void>(FAILPOINT("cache.mid_sweep"));
  for (std::uint64_t left = dead; left != 0; left &= left - 1) {
    const int m = std::countr_zero(left);
    if (whole) {
      memory_.header().swept.fetch_add(1, std::memory_order_relaxed);
      memory_.header().members[m].store(0, std::memory_order_release);
    }
    unlock_byte(m);
  }
  unlock_byte(kSweeper);
}

/// False where the section's mutex was not had: the dead keep their slots until the next sweep.
bool CacheMembers::sweep_section(CacheSection& section, std::uint64_t dead) {
  std::uint32_t dirty = 0;
  {
    const CacheSection::Lock lock(section);
    if (!lock) return false;
    if (dead != 0) section.rebuild(dead);
    dirty = section.dirty_tickets();
  }
  if (dirty == 0) return true;
  for (std::uint64_t entry = 0; entry < section.entries();) {  // others have the mutex in between
    const CacheSection::Lock lock(section);
    if (!lock) return false;
    entry = section.clean_some(entry, dirty);
  }
  const CacheSection::Lock lock(section);
  if (!lock) return false;
  section.end_cleaned(dirty);
  return true;
}

}  // namespace hopfeed
