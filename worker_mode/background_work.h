// BackgroundWork is a thread that does one piece of work at a time, while whoever gave it does something
// else: a batch that is sampled over several machines mostly waits.
#pragma once
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace hopfeed {

class BackgroundWork {
 public:
  BackgroundWork() = default;
  /// Waits for the end of what is under way.
  ~BackgroundWork();
  BackgroundWork(const BackgroundWork&) = delete;
  BackgroundWork& operator=(const BackgroundWork&) = delete;

  /// Starts a piece of work; only with nothing under way.
  void start(std::function<void()> work);
  bool under_way() const { return under_way_; }
  /// Waits for the end of the work, `limit` at most. Returns false where it has not ended. Throws what it
  /// threw.
  bool finish(std::chrono::milliseconds limit);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // what is to be done; empty: nothing
  std::exception_ptr thrown_;
  bool done_ = true, leaving_ = false;
  bool under_way_ = false;  // the giver's
  std::thread thread_;      // begun with the first piece
};

}  // namespace hopfeed
