// A ThreadPool is threads that run what is posted to its executor, beside the server's event loop.
// boost::asio::thread_pool waits for ever where the system lets it start some of its threads and not all.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <thread>
#include <vector>

namespace hopfeed {

class ThreadPool {
 public:
  using executor_type = boost::asio::io_context::executor_type;
  /// Throws as start_quiet_thread() does, with no thread left, where one cannot be started.
  explicit ThreadPool(std::size_t num_threads);
  ~ThreadPool();  // what is under way is done, what has not begun is dropped
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  executor_type get_executor() { return context_.get_executor(); }
  /// Returns once all that was posted is done. Nothing is posted after it.
  void join();

 private:
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<executor_type> work_{context_.get_executor()};
  std::vector<std::thread> threads_;
};

}  // namespace hopfeed
