// Fork and join over an index range. Callers arrange their work so that the result is the same with any
// number of threads: each index is written by one thread only, and sums run in index order inside it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace hopfeed {

/// Calls `body(worker, begin, end)` for `threads` ranges that tile [0, count), the first on the calling
/// thread. Rethrows the exception of the lowest worker that threw.
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
    for (std::int64_t worker = 1; worker < workers; ++worker) others.emplace_back(run, worker);
    run(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace hopfeed
