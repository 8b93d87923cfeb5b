// See stop_signals.h.
#include "core/program/stop_signals.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "core/program/patient_write.h"

namespace hopfeed {
namespace {

constexpr long kOneWishMs = 2'000;  // launchers send two signals for one
constexpr unsigned kDrainSeconds = 20;
constexpr int kInterrupted = 130;

std::atomic<long> asked_at{-1};  // milliseconds, of the first signal; lock-free, so fit for a handler
static_assert(std::atomic<long>::is_always_lock_free);

long now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return 1'000 * time.tv_sec + time.tv_nsec / 1'000'000;
}

void note(int signal) {
  long never = -1;
  const long milliseconds = now();
  if (asked_at.compare_exchange_strong(never, milliseconds)) {
    alarm(kDrainSeconds);
    return;
  }
  if (milliseconds - never >= kOneWishMs) _exit(128 + signal);
}

void give_up(int) {
  // A reader who has stopped does not hold up this end too.
  if (write_patiently(STDERR_FILENO, program_invocation_short_name, kLastLinePatienceMs))
    write_patiently(STDERR_FILENO, ": interrupted; it did not come to its end within 20 s, and is ended\n",
                    kLastLinePatienceMs);
  _exit(kInterrupted);
}

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

bool stop_asked_for(std::chrono::milliseconds time) {
  const long asked = asked_at.load();
  return asked >= 0 && now() - asked >= time.count();
}

void stop_if_asked() {
  if (stop_asked()) throw Interrupted{};
}

}  // namespace hopfeed
