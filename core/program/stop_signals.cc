// See stop_signals.h.
#include "core/program/stop_signals.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace hopfeed {
namespace {

constexpr long kOneWishMs = 2'000;  // launchers send two signals for one
constexpr unsigned kDrainSeconds = 20;
constexpr int kInterrupted = 130;

std::atomic<long> asked_at{-1};  // milliseconds, of the first signal; lock-free, so fit for a handler
static_assert(std::atomic<long>::is_always_lock_free);

void note(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  long never = -1;
  const long milliseconds = 1'000 * now.tv_sec + now.tv_nsec / 1'000'000;
  if (asked_at.compare_exchange_strong(never, milliseconds)) {
    alarm(kDrainSeconds);
    return;
  }
  if (milliseconds - never >= kOneWishMs) _exit(128 + signal);
}

void give_up(int) { _exit(kInterrupted); }

}  // namespace

void stop_on_signals() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = give_up;
  sigaction(SIGALRM, &action, nullptr);
}

bool stop_asked() { return asked_at.load() >= 0; }

void stop_if_asked() {
  if (stop_asked()) throw Interrupted{};
}

}  // namespace hopfeed
