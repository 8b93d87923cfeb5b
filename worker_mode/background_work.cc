// See background_work.h.
#include "worker_mode/background_work.h"

#include <utility>

#include "core/base/quiet_thread.h"

namespace hopfeed {

BackgroundWork::~BackgroundWork() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BackgroundWork::start(std::function<void()> work) {
  if (!thread_.joinable())
    thread_ = start_quiet_thread("cannot start a thread for the loader", [this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    thrown_ = nullptr;
    done_ = false;
  }
  under_way_ = true;
  changed_.notify_all();
}

bool BackgroundWork::finish(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, limit, [this] { return done_; })) return false;
  under_way_ = false;
  if (const std::exception_ptr thrown = std::exchange(thrown_, nullptr)) std::rethrow_exception(thrown);
  return true;
}

void BackgroundWork::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return leaving_ || work_; });
    if (!work_) return;
    const std::function<void()> work = std::exchange(work_, nullptr);
    lock.unlock();
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    thrown_ = thrown;
    done_ = true;
    changed_.notify_all();
  }
}

}  // namespace hopfeed
