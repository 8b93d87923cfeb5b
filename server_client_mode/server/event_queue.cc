// See event_queue.h.
#include "server_client_mode/server/event_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "core/base/limits.h"
#include "core/base/quiet_thread.h"

namespace hopfeed {

/// Shared with the thread, which may outlive the queue.
struct EventQueue::State {
  explicit State(Write given) : write(std::move(given)) {}
  const Write write;
  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  std::deque<std::string> lines;
  std::size_t bytes = 0;
  bool ending = false, ended = false;

  void push_locked(std::string line) {
    bytes += line.size();
    lines.push_back(std::move(line));
    changed.notify_all();
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return ending || !lines.empty(); });
      if (lines.empty()) break;
      const std::string line = std::move(lines.front());
      lines.pop_front();
      bytes -= line.size();
      lock.unlock();
      write(line);
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

EventQueue::EventQueue(Write write)
    : state_(std::make_shared<State>(std::move(write))),
      thread_(start_quiet_thread("cannot start a thread for events", [state = state_] { state->run(); })) {}

EventQueue::~EventQueue() {
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_for(lock, kFarewell, [this] { return state_->ended; });
    state_->lines.clear();  // a thread that is left behind writes no more
  }
  if (ended)
    thread_.join();
  else
    thread_.detach();
}

bool EventQueue::try_push(std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->bytes + line.size() > kMaxEventBytes) return false;
  state_->push_locked(std::move(line));
  return true;
}

void EventQueue::push(std::string line) {
  const std::lock_guard lock(state_->mutex);
  state_->push_locked(std::move(line));
}

}  // namespace hopfeed
