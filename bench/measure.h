// Repeats work on several threads for a given time and says how much of it was done per second.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace hopfeed::bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Runs `body(thread, repetition)` on each thread until `seconds` are over; the body returns what it did (reads, bytes).
/// Gives the sum over the threads per second of wall time.
template <class Body>
double rate(int threads, double seconds, Body body) {
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::atomic<int> waiting{threads};
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      double done = 0;
      body(t, 0);  // warm
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      const double begin = now();
      double end = begin;
      for (std::int64_t repetition = 1; end - begin < seconds; ++repetition) {
        done += static_cast<double>(body(t, repetition));
        end = now();
      }
      rates[static_cast<std::size_t>(t)] = done / (end - begin);
    });
  }
  for (std::thread& thread : pool) thread.join();
  double sum = 0;
  for (double r : rates) sum += r;
  return sum;
}

}  // namespace hopfeed::bench
