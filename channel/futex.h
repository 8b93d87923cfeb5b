// Processes wait for a 32-bit counter in shared memory that is bumped at each event. std::atomic::wait
// wakes threads of one process only. Sleeps are bounded, because who should wake us may be dead. They are
// durations, never wall-clock times.
//
//   const std::uint32_t seen = event.load();               // first read the counter,
//   if (nothing_to_do()) futex_wait(event, seen, 100ms);   // then look, then sleep unless it moved
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "channel/bell.h"

namespace hopfeed {

/// Sleeps while `event` equals `seen`, at most `limit`; may return early.
inline void futex_wait(const std::atomic<std::uint32_t>& event, std::uint32_t seen,
                       std::chrono::nanoseconds limit) {
  timespec timeout{};
  timeout.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  timeout.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  syscall(SYS_futex, &event, FUTEX_WAIT, seen, &timeout, nullptr,
          0);  // not PRIVATE: other processes share it
}

enum class Wake { kOne, kAll };

/// Counts one event and wakes sleepers.
inline void futex_bump(std::atomic<std::uint32_t>& event, Wake wake = Wake::kAll) {
  event.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &event, FUTEX_WAKE, wake == Wake::kOne ? 1 : INT_MAX, nullptr, nullptr, 0);
}

/// Returns the nanoseconds of CLOCK_MONOTONIC, the same in all processes of the machine.
inline std::int64_t monotonic_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// A SharedEvent is bumped far more often than anybody sleeps on it: a bump asks the kernel only where
/// somebody sleeps, and who waits looks a little longer before it sleeps, since going to sleep and being
/// woken costs more than a small batch. One thread may wait for it beside sockets, through an eventfd that
/// whoever bumps is given (bell.h).
struct SharedEvent {
  static constexpr std::chrono::nanoseconds kSpin{20'000};

  std::atomic<std::uint32_t> count;
  /// Counts those that sleep, or died asleep: for the dead the bumps to come make a system call too many, and
  /// that is all.
  std::atomic<std::uint32_t> sleepers;
  /// It is 1 while somebody waits through the eventfd. It stays so until that thread is awake: were it taken
  /// down by who rings, a death between the two would lose the event.
  std::atomic<std::uint32_t> listening;
  /// One more than the core of who bumped last is a hint.
  std::atomic<std::uint32_t> bumped_on;

  std::uint32_t load() const { return count.load(); }

  /// Counts one event and wakes sleepers. `bell` is the eventfd of who may listen; -1 where nobody can. This,
  /// wait() and listen() are sequentially consistent: either the bump sees the sleeper or the listener, or
  /// these see what the bump is about.
  void bump(Wake wake = Wake::kAll, int bell = -1) {
    bumped_on.store(this_core(), std::memory_order_relaxed);
    count.fetch_add(1, std::memory_order_seq_cst);
    ring_if_asked(bell);
    if (sleepers.load(std::memory_order_seq_cst) == 0) return;
    syscall(SYS_futex, &count, FUTEX_WAKE, wake == Wake::kOne ? 1 : INT_MAX, nullptr, nullptr, 0);
  }

  /// Tells the listener alone: no futex sleeper is woken.
  void ring_if_asked(int bell) const {
    if (listening.load(std::memory_order_seq_cst) != 0) ring(bell);
  }

  /// Call this first, then look at what there is to do, then sleep on the bell.
  void listen() { listening.store(1, std::memory_order_seq_cst); }
  void stop_listening() { listening.store(0, std::memory_order_seq_cst); }

  /// Looks awake, at most `limit`, whether the counter is no longer `seen`. It does not where the last bump
  /// came from this very core: who is awaited probably needs it.
  bool moves_within(std::uint32_t seen, std::chrono::nanoseconds limit) const {
    if (bumped_on.load(std::memory_order_relaxed) == this_core()) return load() != seen;
    const std::int64_t begin = monotonic_now();
    do {
      for (int i = 0; i < 32; ++i) {
        if (count.load(std::memory_order_acquire) != seen) return true;
        __builtin_ia32_pause();
      }
    } while (monotonic_now() - begin < limit.count());
    return false;
  }

  /// Waits until the counter is no longer `seen`, at most `limit`, the first `spin` of it awake; may return
  /// early.
  void wait(std::uint32_t seen, std::chrono::nanoseconds limit, std::chrono::nanoseconds spin = kSpin) {
    if (moves_within(seen, spin)) return;
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    futex_wait(count, seen, limit);
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  static std::uint32_t this_core() { return static_cast<std::uint32_t>(sched_getcpu()) + 1; }
};

}  // namespace hopfeed
