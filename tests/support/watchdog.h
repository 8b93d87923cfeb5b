// A test that could hang starts with a watchdog: after the limit it names the test and aborts, so that the
// core of the matter is in the log and no run waits for ever. Tests derive from WatchedTest, or from
// WatchedTestWithParam.
#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "tests/support/sanitized.h"

namespace hopfeed::testing {

// Limits are slower by this, as CTest's own (tests/CMakeLists.txt): what sanitizers slow down is not taken
// for hung.
inline constexpr int kTimesSlower = kSanitized ? 5 : 1;

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit) : thread_([this, limit] { watch(kTimesSlower * limit); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(std::chrono::seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return done_; })) return;
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::fprintf(stderr, "watchdog: %s.%s hangs for %ld s\n", test ? test->test_suite_name() : "?",
                 test ? test->name() : "?", static_cast<long>(limit.count()));
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

template <int seconds = 60>
class WatchedTest : public ::testing::Test {
  Watchdog watchdog_{std::chrono::seconds(seconds)};
};

template <class Param, int seconds = 60>
class WatchedTestWithParam : public ::testing::TestWithParam<Param> {
  Watchdog watchdog_{std::chrono::seconds(seconds)};
};

}  // namespace hopfeed::testing
