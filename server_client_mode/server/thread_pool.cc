// See thread_pool.h.
#include "server_client_mode/server/thread_pool.h"

#include "core/base/quiet_thread.h"

namespace hopfeed {

ThreadPool::ThreadPool(std::size_t num_threads) {
  threads_.reserve(num_threads);
  try {
    while (threads_.size() < num_threads)
      threads_.push_back(start_quiet_thread("cannot start the server's threads", [this] { context_.run(); }));
  } catch (...) {
    context_.stop();
    join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  context_.stop();
  join();
}

void ThreadPool::join() {
  work_.reset();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace hopfeed
