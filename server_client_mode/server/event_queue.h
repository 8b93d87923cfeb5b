// An EventQueue has lines of the event log on their way to whoever reads them. A thread of its own writes
// them, so that a reader who has stopped holds up nobody; what comes while kMaxEventBytes wait finds no
// place.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace hopfeed {

class EventQueue {
 public:
  using Write = std::function<void(const std::string& line)>;
  /// Its end waits so long for lines that are on their way.
  static constexpr std::chrono::milliseconds kFarewell{1'000};

  /// `write` may wait for as long as it likes, and must not throw. Throws kNoSpace where no thread can start.
  explicit EventQueue(Write write);
  /// A `write` that has not come back by kFarewell is left behind, with its thread.
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /// Pushes a line; any thread, never waits. Returns false where there is no place.
  bool try_push(std::string line);
  /// Pushes a line that has a place at any time.
  void push(std::string line);

 private:
  struct State;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace hopfeed
