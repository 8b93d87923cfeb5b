// Members of the dynamic cache that die or hang, wherever that is: the others have the right bytes, and after
// the next join no frame and no ticket is lost.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cache/cache_memory.h"
#include "cache/dynamic_cache.h"
#include "core/base/failpoint.h"
#include "tests/cache/cache_inspector.h"
#include "tests/cache/dynamic_cache_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::CacheShape;
using testing::kRows;
using testing::make_cache;
using testing::RowTaker;

// Each row has an entry in the cache's table; or those that matter, in buckets that overflow at times.
constexpr CacheShape kEachRow{.rows = 300, .frames = 40}, kFewPlaces{.rows = 4'000, .frames = 60};

/// A child that ends with what `run` returns. The parent's other thread is the watchdog's, which sleeps.
pid_t forked(const std::function<int()>& run) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  int code = 99;
  try {
    code = run();
  } catch (...) {
  }
  _exit(code);
}

/// Its exit code, 128 + signal where it was killed.
int ended(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Batches of a member, one announced ahead; 1 where a byte is wrong.
int make_batches(int fd, std::uint64_t seed, int count, const CacheShape& shape) {
  DynamicCache cache(fd);
  RowTaker a(cache.open(kRows), shape.row_bytes), b(cache.open(kRows), shape.row_bytes);
  std::mt19937_64 random(seed);
  const auto ids = [&] { return testing::skewed_ids(random, shape.rows, 1 + random() % 40); };
  a.announce(ids());
  for (int i = 0; i < count; ++i) {
    b.announce(ids());
    if (!a.take()) return 1;
    a.keep();
    std::swap(a, b);
  }
  return 0;
}

class DynamicCacheCrashes : public testing::WatchedTestWithParam<CacheShape, 240> {
 protected:
  int make_batches(int fd, std::uint64_t seed, int count) const {
    return hopfeed::make_batches(fd, seed, count, shape_);
  }
  const CacheShape shape_ = GetParam();
  const OwnedFd fd_ = make_cache(shape_);
};

INSTANTIATE_TEST_SUITE_P(Tables, DynamicCacheCrashes, ::testing::Values(kEachRow, kFewPlaces),
                         [](const auto& info) {
                           return std::string(info.param.rows == kEachRow.rows ? "EachRow" : "FewPlaces");
                         });

// ---- death

TEST_P(DynamicCacheCrashes, AMemberKilledAtEachFailpoint_OthersHaveTheirBytes_AndNothingIsLost) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  DynamicCache cache(fd_.get());
  RowTaker survivor(cache.open(kRows), shape_.row_bytes), waiting(cache.open(kRows), shape_.row_bytes);
  std::mt19937_64 random(1);
  const testing::TempFolder scratch;
  const std::string log = scratch.path() / "hits";
  for (const std::string_view name : kFailpoints) {
    if (!name.starts_with("cache.")) continue;
    for (const int hit : {1, 2, 7, 40, 300}) {
      // Lists are made anew, or members swept, after another death; the second child dies of that.
      const bool second = name == "cache.mid_rebuild" || name == "cache.mid_sweep";
      const auto dies = [&](std::string_view at, int n) {
        return ended(forked([&] {
          setenv("HOPFEED_FAIL_LOG", log.c_str(), 1);
          setenv("HOPFEED_FAIL", (std::string(at) + "=kill@" + std::to_string(n)).c_str(), 1);
          return make_batches(fd_.get(), random(), 400);
        }));
      };
      waiting.announce(testing::skewed_ids(random, shape_.rows, 30));
      if (second) {
        EXPECT_EQ(dies("cache.mid_claim", 3), 128 + SIGKILL);
      }
      const int code = dies(name, hit);
      EXPECT_TRUE(code == 128 + SIGKILL || code == 0) << name << " at hit " << hit << ": " << code;
      EXPECT_TRUE(hit > 1 || code != 0) << name << " was never hit";
      for (int i = 0; i < 5; ++i)
        ASSERT_TRUE(survivor.batch(testing::skewed_ids(random, shape_.rows, 50)))
            << name << " at hit " << hit;
      ASSERT_TRUE(waiting.take());
      waiting.keep();
      testing::expect_nothing_lost(fd_.get());
      if (HasFailure()) FAIL() << name << " at hit " << hit;
    }
  }
  EXPECT_GT(cache.counts().rebuilt, 0);
  EXPECT_GT(cache.counts().swept, 0);
  EXPECT_EQ(cache.counts().bypassed, 0) << "the dead are not waited for";
  std::set<std::string> hit;
  std::ifstream file(log);
  for (std::string name; std::getline(file, name);) hit.insert(name);
  for (const std::string_view name : kFailpoints)
    EXPECT_TRUE(!name.starts_with("cache.") || hit.contains(std::string(name))) << name;
}

TEST_P(DynamicCacheCrashes, MembersKilledAtRandomMoments_OthersHaveTheirBytes_AndNothingIsLost) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %lu\n", static_cast<unsigned long>(seed));
  std::mt19937_64 random(seed);
  std::vector<pid_t> members;
  const auto start = [&] {
    return forked([&, seed = random()] { return make_batches(fd_.get(), seed, 1'000'000'000); });
  };
  for (int i = 0; i < 3; ++i) members.push_back(start());
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    pid_t& member = members[random() % members.size()];
    kill(member, SIGKILL);
    ASSERT_EQ(ended(member), 128 + SIGKILL) << "before, a byte was wrong";
    member = start();
  }
  for (const pid_t member : members) {
    kill(member, SIGKILL);
    ASSERT_EQ(ended(member), 128 + SIGKILL);
  }
  testing::expect_nothing_lost(fd_.get());
  const DynamicCache::Counts counts = DynamicCache(fd_.get()).counts();
  EXPECT_GT(counts.swept, 0);
  std::printf("%ld swept, %ld rebuilt, %ld hits\n", static_cast<long>(counts.swept),
              static_cast<long>(counts.rebuilt), static_cast<long>(counts.hits));
  EXPECT_EQ(make_batches(fd_.get(), 1, 100), 0);
}

/// A copy of the cache as it would be had its members died at once: the kernel marks the mutexes that dead
/// threads held, and their locks on the file are gone.
OwnedFd as_if_dead(const CacheMemory& memory) {
  const OwnedFd copy =
      make_cache({.rows = memory.sections()[0]->shape.rows,
                  .frames = static_cast<std::int64_t>(memory.sections()[0]->shape.num_frames)});
  void* const to = mmap(nullptr, memory.size(), PROT_READ | PROT_WRITE, MAP_SHARED, copy.get(), 0);
  std::memcpy(to, memory.data(), memory.size());
  auto& section = *reinterpret_cast<CacheSectionRecord*>(static_cast<std::byte*>(to) + kCachePage);
  constexpr int kOwnerDied = 0x40000000;  // FUTEX_OWNER_DIED
  if (section.mutex.__data.__lock != 0) section.mutex.__data.__lock = kOwnerDied;
  munmap(to, memory.size());
  return OwnedFd(dup(copy.get()));
}

TEST_P(DynamicCacheCrashes, KilledBetweenAnyTwoInstructions_NothingIsLost) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's instructions are too many";
  const CacheShape shape{.rows = shape_.rows == kEachRow.rows ? 20 : shape_.rows, .frames = 6};
  const OwnedFd fd = make_cache(shape);
  ASSERT_EQ(hopfeed::make_batches(fd.get(), 3, 4, shape), 0);
  const pid_t child = forked([&] {
    DynamicCache cache(fd.get());
    RowTaker a(cache.open(kRows), shape.row_bytes), b(cache.open(kRows), shape.row_bytes);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 77;
    raise(SIGSTOP);
    for (const auto& [first, second] :
         {std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>{{2, 17, 1, 2}, {17, 9, 0}},
          {{0, 11, 5}, {1, 2, 3, 4}}}) {
      a.announce(first);
      b.announce(second);
      if (!a.take()) return 1;
      a.keep();
      if (!b.take()) return 1;
      b.keep();
    }
    a.announce({1, 12});
    a.rows().drop();
    return 0;
  });
  const CacheMemory memory(fd.get());
  const pthread_mutex_t& mutex = memory.sections()[0]->mutex;
  int status = 0, looked = 0, held = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "ptrace is forbidden here";
  std::vector<std::byte> before(memory.size());
  while (WIFSTOPPED(status)) {
    if (std::memcmp(before.data(), memory.data(), memory.size()) != 0) {  // else the same as a step before
      std::memcpy(before.data(), memory.data(), memory.size());
      ++looked;
      if (mutex.__data.__lock != 0) ++held;
      const OwnedFd copy = as_if_dead(memory);
      testing::expect_nothing_lost(copy.get());
      ASSERT_EQ(hopfeed::make_batches(copy.get(), 1, 2, shape), 0);
      testing::expect_nothing_lost(copy.get());
      if (HasFailure()) {
        kill(child, SIGKILL);
        FAIL() << "after " << looked << " changes";
      }
    }
    ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
    ASSERT_EQ(waitpid(child, &status, 0), child);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::printf("%d states, %d of them with the mutex held\n", looked, held);
  EXPECT_GT(held, 100);
}

// ---- hanging

TEST_P(DynamicCacheCrashes, TheMutexsOwnerIsStopped_OthersGoOnWithoutTheCache_AndWithItWhenItGoesOn) {
  const pid_t stopped = forked([&] {
    const CacheMemory memory(fd_.get());
    pthread_mutex_lock(&memory.sections()[0]->mutex);
    raise(SIGSTOP);
    pthread_mutex_unlock(&memory.sections()[0]->mutex);
    return 0;
  });
  int status = 0;
  ASSERT_EQ(waitpid(stopped, &status, WUNTRACED), stopped);
  {
    DynamicCache cache(fd_.get());  // joins all the same
    RowTaker taker(cache.open(kRows), shape_.row_bytes);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(taker.batch({1, 2, 3}));
    EXPECT_EQ(taker.hits(), 0);
    EXPECT_EQ(cache.counts().bypassed, 300) << "each batch once";
    kill(stopped, SIGCONT);
    EXPECT_EQ(ended(stopped), 0);
    ASSERT_TRUE(taker.batch({1, 2, 3}));
    ASSERT_TRUE(taker.batch({1, 2, 3}));
    EXPECT_EQ(taker.hits(), 3);
    EXPECT_EQ(cache.counts().bypassed, 300);
  }
  testing::expect_nothing_lost(fd_.get());
}

TEST_P(DynamicCacheCrashes, StoppedWhileABatchIsUnderWay_WhatItHasIsGivenBackLater) {
  DynamicCache cache(fd_.get());
  RowTaker taker(cache.open(kRows), shape_.row_bytes), other(cache.open(kRows), shape_.row_bytes);
  ASSERT_TRUE(taker.batch({1, 2, 3}));
  const auto stop = [&] {
    const pid_t stopped = forked([&]() -> int {
      const CacheMemory memory(fd_.get());
      pthread_mutex_lock(&memory.sections()[0]->mutex);
      raise(SIGSTOP);
      _exit(0);  // dies with it
    });
    int status = 0;
    EXPECT_EQ(waitpid(stopped, &status, WUNTRACED), stopped);
    return stopped;
  };
  const auto goes_on = [](pid_t stopped) {
    kill(stopped, SIGCONT);
    EXPECT_EQ(ended(stopped), 0);
  };
  // Between announce and take, between take and keep, and between the frames' filling and their publication.
  taker.announce({1, 2, 3, 4});
  pid_t stopped = stop();
  ASSERT_TRUE(taker.take());
  EXPECT_EQ(taker.hits(), 0);
  taker.keep();
  goes_on(stopped);
  taker.announce({1, 2, 5});
  ASSERT_TRUE(taker.take());
  EXPECT_EQ(taker.hits(), 2);
  stopped = stop();
  taker.keep();
  goes_on(stopped);
  const auto rows = cache.open(kRows);
  rows->announce(std::vector<std::int64_t>{6, 7});
  rows->take();
  stopped = 0;
  std::vector<std::byte> row(static_cast<std::size_t>(shape_.row_bytes));
  rows->keep([&](std::size_t i) {
    if (stopped == 0) stopped = stop();
    testing::write_row(i == 0 ? 6 : 7, row);
    return row.data();
  });
  goes_on(stopped);
  ASSERT_TRUE(other.batch({6, 7}));
  EXPECT_EQ(other.hits(), 2) << "published with the next chance";
  EXPECT_EQ(cache.counts().rebuilt, 3);
  testing::expect_nothing_lost(fd_.get());
}

TEST_P(DynamicCacheCrashes, AMemberThatHangsWithRowsPinned_KeepsThemAndNoOther) {
  const pid_t stopped = forked([&] {
    DynamicCache cache(fd_.get());
    RowTaker taker(cache.open(kRows), shape_.row_bytes);
    if (!taker.batch({1, 2, 3})) return 1;
    taker.announce({1, 2, 3});
    if (!taker.take() || taker.hits() != 3) return 1;
    raise(SIGSTOP);
    return taker.take() ? 0 : 1;
  });
  int status = 0;
  ASSERT_EQ(waitpid(stopped, &status, WUNTRACED), stopped);
  ASSERT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(make_batches(fd_.get(), 5, 200), 0);
  DynamicCache cache(fd_.get());
  RowTaker taker(cache.open(kRows), shape_.row_bytes);
  ASSERT_TRUE(taker.batch({1, 2, 3}));
  EXPECT_EQ(taker.hits(), 3);
  EXPECT_EQ(cache.counts().swept, 0);
  kill(stopped, SIGKILL);
  EXPECT_EQ(ended(stopped), 128 + SIGKILL);
  testing::expect_nothing_lost(fd_.get());
  EXPECT_EQ(cache.counts().swept, 1);
}

// ---- fork

TEST_P(DynamicCacheCrashes, AForkedChild_DoesNotTouchItsParentsBatch) {
  DynamicCache cache(fd_.get());
  RowTaker taker(cache.open(kRows), shape_.row_bytes);
  ASSERT_TRUE(taker.batch({1, 2, 3}));
  taker.announce({1, 2, 3, 4});
  const auto in_child = [&] {
    if (!taker.take() || taker.hits() != 0) return 1;
    taker.keep();
    if (!taker.batch({1, 2}) || taker.hits() != 0) return 2;
    const auto another = cache.open(kRows);
    another->announce(std::vector<std::int64_t>{1});
    if (!another->take().empty()) return 3;
    cache.~DynamicCache();
    new (&cache) DynamicCache(fd_.get());  // one of its own is a member like any other
    RowTaker own(cache.open(kRows), shape_.row_bytes);
    return own.batch({1, 2, 3}) && own.hits() == 3 ? 0 : 4;
  };
  EXPECT_EQ(ended(forked(in_child)), 0);
  ASSERT_TRUE(taker.take());
  EXPECT_EQ(taker.hits(), 3);
  taker.keep();
  EXPECT_EQ(cache.counts().reads, 3 + 3 + 4) << "of the child, its own member's";
  testing::expect_nothing_lost(fd_.get());
}

}  // namespace
}  // namespace hopfeed
