// What only a memfd has to promise: seals, no name, attachment by another process, errors instead of SIGBUS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>

#include "channel/memory.h"
#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

class MemfdMemory : public testing::WatchedTest<> {};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

// F8
TEST_F(MemfdMemory, PeerCannotTruncateOrGrowIt) {
  const auto memory = make_shared_memory(16 * kPageBytes);
  const pid_t child =
      fork();  // the test has no other threads than the watchdog's, and the child only calls the kernel
  if (child == 0) {
    const bool shrunk = ftruncate(memory->fd(), kPageBytes) == 0 || errno != EPERM;
    const bool grown = ftruncate(memory->fd(), 32 * kPageBytes) == 0 || errno != EPERM;
    const bool unsealed = fcntl(memory->fd(), F_ADD_SEALS, F_SEAL_WRITE) == 0;
    _exit(shrunk || grown || unsealed ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(MemfdMemory, WhatOneMappingWritesTheOtherReads) {
  const auto memory = make_shared_memory(16 * kPageBytes);
  memory->reserve(0, 16 * kPageBytes);
  const auto other = attach_shared_memory(memory->fd());
  ASSERT_EQ(other->size(), memory->size());
  EXPECT_NE(other->data(), memory->data());
  std::strcpy(reinterpret_cast<char*>(memory->data() + 5 * kPageBytes), "over here");
  EXPECT_STREQ(reinterpret_cast<const char*>(other->data() + 5 * kPageBytes), "over here");
}

TEST_F(MemfdMemory, HasNoNameAndLeavesNoDescriptorBehind) {
  auto entries = [](const char* folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
  };
  const std::size_t names = entries("/dev/shm"), descriptors = entries("/proc/self/fd");
  {
    const auto memory = make_shared_memory(16 * kPageBytes);
    const auto other = attach_shared_memory(memory->fd());
    EXPECT_EQ(entries("/dev/shm"), names);
    EXPECT_EQ(entries("/proc/self/fd"), descriptors + 2);
  }
  EXPECT_EQ(entries("/proc/self/fd"), descriptors);
}

// F9
TEST_F(MemfdMemory, AttachingToSomethingElse_IsAnError) {
  EXPECT_NE(message_of([] { attach_shared_memory(9'999); }).find("corrupt"), std::string::npos);
  const int plain = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(plain, 8192), 0);
  EXPECT_NE(message_of([&] { attach_shared_memory(plain); }).find("no sealed channel"), std::string::npos);
  const int empty = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(fcntl(empty, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_NE(message_of([&] { attach_shared_memory(empty); }).find("empty"), std::string::npos);
  close(plain);
  close(empty);
}

TEST_F(MemfdMemory, LargeRangesCostNothingUntilReserved) {
  const auto memory = make_shared_memory(std::size_t{1} << 40);
  EXPECT_EQ(memory->allocated(), 0U);
  EXPECT_EQ(reinterpret_cast<std::size_t>(memory->data()) % kHugePageBytes, 0U)
      << "could not be on huge pages";
  memory->reserve(std::size_t{1} << 39, 4 * kHugePageBytes);
  EXPECT_EQ(memory->allocated(), 4 * kHugePageBytes);
  memory->punch(std::size_t{1} << 39, 4 * kHugePageBytes);
  EXPECT_EQ(memory->allocated(), 0U);
}

// F7
TEST_F(MemfdMemory, RefusedReservation_IsAnErrorAndNoSignal) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  const auto memory = make_shared_memory(16 * kPageBytes);
  setenv("HOPFEED_FAIL", "memory.reserve=error@1", 1);
  const std::string message = message_of([&] { memory->reserve(0, kPageBytes); });
  unsetenv("HOPFEED_FAIL");
  EXPECT_NE(message.find("no space: cannot reserve 4096 bytes"), std::string::npos) << message;
}

}  // namespace
}  // namespace hopfeed
