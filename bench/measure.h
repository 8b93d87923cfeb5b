// Repeats work on several threads for a given time and says how much of it was done per second.
#pragma once
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/program/stop_signals.h"

namespace hopfeed::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Returns the median of at least one value, the upper one of two in the middle.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the seconds that the calling thread has run on a core.
inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// A Rate is what all threads did together. Where others use the machine too, `per_s` says what came out and
/// `per_cpu_s` what would have come out alone: fractions of a limit are taken between figures of that kind.
struct Rate {
  double per_s = 0;
  double per_cpu_s = 0;  // threads times the mean over their seconds on a core
  double cpu_share() const { return per_s / per_cpu_s; }
  Rate& operator+=(const Rate& other) {
    per_s += other.per_s;
    per_cpu_s += other.per_cpu_s;
    return *this;
  }
};
inline Rate mean(const Rate& a, const Rate& b) {
  return {.per_s = (a.per_s + b.per_s) / 2, .per_cpu_s = (a.per_cpu_s + b.per_cpu_s) / 2};
}

/// Runs `body(thread, repetition)` on each thread until `seconds` are over; the body returns what it did
/// (reads, bytes). Repetition 0 warms and is not counted. What a body throws is thrown on.
template <class Body>
Rate rate(int threads, double seconds, Body body) {
  std::atomic<int> waiting{threads};
  const auto arrive = [](std::atomic<int>* count) { --*count; };
  std::vector<std::future<Rate>> rates;
  const auto measure = [&](int t) {
    {
      // This also runs where the body throws, or the others would wait for ever.
      const std::unique_ptr<std::atomic<int>, decltype(arrive)> arrival(&waiting, arrive);
      body(t, 0);
    }
    while (waiting > 0) std::this_thread::yield();
    const double begin = now(), cpu_begin = thread_cpu_seconds();
    double end = begin, done = 0;
    for (std::int64_t repetition = 1; end - begin < seconds; ++repetition) {
      stop_if_asked();
      done += static_cast<double>(body(t, repetition));
      end = now();
    }
    return Rate{.per_s = done / (end - begin), .per_cpu_s = done / (thread_cpu_seconds() - cpu_begin)};
  };
  for (int t = 0; t < threads; ++t) {
    try {
      rates.push_back(std::async(std::launch::async, measure, t));
    } catch (const std::system_error& error) {
      waiting -= threads - t;  // nobody else will come
      throw Error(ErrorCode::kNoSpace, "thread " + std::to_string(t + 1) + " of " + std::to_string(threads) +
                                           " cannot start (" + error.code().message() +
                                           "); use fewer --threads");
    }
  }
  Rate sum;
  for (std::future<Rate>& of_thread : rates) sum += of_thread.get();
  return sum;
}

}  // namespace hopfeed::bench
