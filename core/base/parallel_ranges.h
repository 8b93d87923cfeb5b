// Forks and joins over an index range. Callers arrange their work so that the result is the same with any
// number of threads: each index is written by one thread only, and sums run in index order inside it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace hopfeed {

/// Calls `body(worker, begin, end)` for `threads` ranges that tile [0, count), the first on the calling
/// thread. Where no more threads may be started (ulimit -u) that one does their ranges too. Rethrows the
/// exception of the lowest worker that threw.
template <class Body>
void parallel_ranges(int threads, std::int64_t count, const Body& body) {
  const std::int64_t workers = std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(count, 1));
  std::vector<std::exception_ptr> errors(workers);
  const auto run = [&](std::int64_t worker) {
    const std::int64_t size = count / workers, extra = count % workers;
    const std::int64_t begin = worker * size + std::min(worker, extra);
    try {
      body(static_cast<int>(worker), begin, begin + size + (worker < extra ? 1 : 0));
    } catch (...) {
      errors[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(static_cast<std::size_t>(workers - 1));
    std::int64_t started = 1;
    try {
      for (; started < workers; ++started) others.emplace_back(run, started);
    } catch (const std::system_error&) {
    }
    run(0);
    for (; started < workers; ++started) run(started);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace hopfeed
