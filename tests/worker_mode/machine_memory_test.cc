// One copy of memory for all processes of a machine.
#include "channel/machine_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/owned_fd.h"
#include "core/base/sha256.h"
#include "tests/support/sanitized.h"
#include "tests/support/watchdog.h"
#include "worker_mode/worker_process.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class MachineMemoryTest : public testing::WatchedTest<60> {
 protected:
  /// A name of this test's own.
  static std::string name() {
    static std::atomic<int> number{0};
    return "test " + std::to_string(getpid()) + " " + std::to_string(++number);
  }
  static OwnedFd made(const std::string& text) { return memfd_of("test", text.data(), text.size()); }
  static std::string text_of(int fd) {
    char text[64] = "";
    const ssize_t got = pread(fd, text, sizeof(text), 0);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  }
  static ino_t inode(int fd) {
    struct stat status {};
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
  }
  /// A socket under the name, as any process of the machine may have: bound, or connected to who has it.
  static OwnedFd squatter(const std::string& content, int (*call)(int, const sockaddr*, socklen_t),
                          int flags = 0) {
    const std::string text = "hopfeed-" + std::to_string(geteuid()) + "-" +
                             sha256(std::as_bytes(std::span(content.data(), content.size())));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), text.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    OwnedFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
    if (call(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return {};
    return fd;
  }
};

TEST_F(MachineMemoryTest, WhoAsksForTheSameGetsTheSame) {
  const std::string content = name();
  int makings = 0;
  const auto make = [&] { return ++makings, made("rows"); };
  const MachineMemory first(content, make), second(content, make), other(name(), make);
  EXPECT_EQ(makings, 2);
  EXPECT_TRUE(first.made_here());
  EXPECT_FALSE(second.made_here());
  EXPECT_EQ(inode(first.fd()), inode(second.fd()));
  EXPECT_NE(inode(first.fd()), inode(other.fd()));
  EXPECT_EQ(text_of(second.fd()), "rows");
}

TEST_F(MachineMemoryTest, IsSharedByProcessesAndOutlivesItsMaker) {
  if (testing::kThreadSanitized)
    GTEST_SKIP() << "ThreadSanitizer starts no threads in a fork of a process with threads";
  const std::string content = name();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t maker = fork();
  ASSERT_GE(maker, 0);
  if (maker == 0) {
    const MachineMemory memory(content, [] { return made("of another process"); });
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  close(ready[1]);  // where the other one dies, the read below ends
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const MachineMemory memory(content, [] { return made("of this one"); });
  EXPECT_FALSE(memory.made_here());
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  EXPECT_EQ(text_of(memory.fd()), "of another process");
  const MachineMemory later(content, [] { return made("of this one"); });
  EXPECT_TRUE(later.made_here());
  close(ready[0]);
}

TEST_F(MachineMemoryTest, OthersWaitWhileItIsMade) {
  const std::string content = name();
  std::atomic<int> makings{0};
  std::vector<std::thread> threads;
  std::vector<ino_t> inodes(8);
  std::latch all_have_it(std::ssize(inodes));
  for (std::size_t i = 0; i < inodes.size(); ++i) {
    threads.emplace_back([&, i] {
      const MachineMemory memory(content, [&] {
        ++makings;
        std::this_thread::sleep_for(300ms);
        return made("slowly");
      });
      inodes[i] = inode(memory.fd());
      all_have_it.arrive_and_wait();  // the memory is gone with the last one that has it
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(makings, 1);
  EXPECT_EQ(inodes, std::vector<ino_t>(inodes.size(), inodes[0]));
}

TEST_F(MachineMemoryTest, WhereMakingFails_TheNextOneMakesIt) {
  const std::string content = name();
  std::atomic<bool> begun{false};
  std::thread failing([&] {
    EXPECT_THROW(MachineMemory(content,
                               [&]() -> OwnedFd {
                                 begun = true;
                                 std::this_thread::sleep_for(200ms);
                                 throw Error(ErrorCode::kNoSpace, "no memory");
                               }),
                 Error);
  });
  while (!begun) std::this_thread::sleep_for(1ms);
  const MachineMemory memory(content, [] { return made("at last"); });
  EXPECT_TRUE(memory.made_here());
  failing.join();
}

TEST_F(MachineMemoryTest, WhoDoesNotAnswerIsNotWaitedFor) {
  if (testing::kThreadSanitized)
    GTEST_SKIP() << "ThreadSanitizer starts no threads in a fork of a process with threads";
  const std::string content = name();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t maker = fork();
  ASSERT_GE(maker, 0);
  if (maker == 0) {
    const MachineMemory memory(content, [] { return made("of a stopped process"); });
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  close(ready[1]);  // where the other one dies, the read below ends
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(maker, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(maker, &status, WUNTRACED), maker);
  ASSERT_TRUE(WIFSTOPPED(status));
  const MachineMemory memory(content, [] { return made("of this one"); });
  EXPECT_TRUE(memory.made_here());
  kill(maker, SIGKILL);
  waitpid(maker, nullptr, 0);
  close(ready[0]);
}

// The name is known to everybody, and anybody may take it.
TEST_F(MachineMemoryTest, WhoTakesNobodyInIsNotWaitedFor) {
  const std::string content = name();
  const OwnedFd listener = squatter(content, bind);
  ASSERT_TRUE(listener);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  std::vector<OwnedFd> before;  // until no more are taken
  while (OwnedFd one = squatter(content, connect, SOCK_NONBLOCK)) before.push_back(std::move(one));
  ASSERT_FALSE(before.empty());
  const MachineMemory memory(content, [] { return made("of this one"); });
  EXPECT_TRUE(memory.made_here());
}

TEST_F(MachineMemoryTest, ANameThatNobodyListensUnderIsNotWaitedFor) {
  const std::string content = name();
  const OwnedFd bound = squatter(content, bind);
  ASSERT_TRUE(bound);
  const MachineMemory memory(content, [] { return made("of this one"); });
  EXPECT_TRUE(memory.made_here());
}

TEST_F(MachineMemoryTest, ForkCanLetGoOfIt) {
  const std::string content = name();
  auto memory = std::make_unique<MachineMemory>(content, [] { return made("rows"); });
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    memory.reset();
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  const MachineMemory again(content, [] { return made("others"); });
  EXPECT_FALSE(again.made_here());
}

}  // namespace
}  // namespace hopfeed
