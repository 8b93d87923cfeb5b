// F28: a disk that is full, fails, has a quota, or a writer that is killed. The old dataset is there or the
// new one is, whole; the complaint is one line; and what is left over is gone after the next run.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/base/failpoint.h"
#include "tests/partition_tool/run_program.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::kSanitized;
using testing::listing;
using testing::TempFolder;
using testing::ToolResult;

class DiskFaults : public ::testing::Test {
 protected:
  static constexpr const char* kOld =
      "{} generate d --nodes 40 --edges 200 --features 4 --classes 3 --seed 1";
  static constexpr const char* kNew =
      "{} generate d --nodes 60 --edges 300 --features 4 --classes 3 --seed 2 --overwrite --threads 1";

  DiskFaults() {
    EXPECT_EQ(shell(kOld).exit_code, 0);
    old_ = content("d");
    fs::create_directory(work_.path() / "clean");
    EXPECT_EQ(shell("cd clean; " + std::string(kNew)).exit_code, 0);
    new_ = content("clean/d");
    fs::remove_all(work_.path() / "clean");
  }
  ToolResult shell(const std::string& command) const {
    return testing::run_shell(scratch_.path(), "cd " + work_.path().string() + "; " + command);
  }
  std::map<std::string, std::string> content(const std::string& name) const {
    return testing::files_of(work_.path() / name);
  }
  void back_to_old() const {
    fs::remove_all(work_.path() / "d");
    ASSERT_EQ(shell(kOld).exit_code, 0);
    ASSERT_EQ(content("d"), old_);
  }
  /// One line, nothing left, the old dataset as it was.
  void expect_refused(const ToolResult& result, const std::string& what, const std::string& part) const {
    EXPECT_EQ(result.exit_code, 1) << what << "\n" << result.err;
    const std::string complaint = result.complaint();
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 1) << what << "\n" << result.err;
    EXPECT_NE(complaint.find(part), std::string::npos) << what << "\n" << complaint;
    EXPECT_EQ(listing(work_.path()), std::set<std::string>{"d"}) << what;
    EXPECT_EQ(content("d"), old_) << what;
  }

  const TempFolder work_, scratch_;
  std::map<std::string, std::string> old_, new_;
};

TEST_F(DiskFaults, KilledAtEachStepOfWriting_TheOldOrTheNewIsThereAndTheNextRunCleansUp) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  int steps = 0;
  for (bool killed = true; killed; ++steps) {
    const ToolResult result =
        shell("HOPFEED_FAIL=dataset.write=kill@" + std::to_string(steps + 1) + " exec " + kNew);
    killed = result.exit_code != 0;
    EXPECT_TRUE(result.exit_code == 128 + 9 || !killed) << result.exit_code;
    const std::map<std::string, std::string> found = content("d");
    EXPECT_TRUE(found == old_ || found == new_) << "killed at step " << steps + 1;
    EXPECT_EQ(shell(kNew).exit_code, 0) << "after a kill at step " << steps + 1;
    EXPECT_EQ(content("d"), new_) << "after a kill at step " << steps + 1;
    EXPECT_EQ(listing(work_.path()), std::set<std::string>{"d"}) << "after a kill at step " << steps + 1;
    back_to_old();
  }
  EXPECT_GT(steps, static_cast<int>(new_.size())) << "a step for each file at least";
}

TEST_F(DiskFaults, FullAtEachStepOfWriting_IsOneLineAndTheOldStays) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  int refused = 0;
  for (int step = 1; step <= 20; ++step) {
    const ToolResult result =
        shell("HOPFEED_FAIL=dataset.write=error@" + std::to_string(step) + " exec " + kNew);
    if (result.exit_code == 0) {  // a step that cannot fail
      back_to_old();
      continue;
    }
    expect_refused(result, "step " + std::to_string(step), "No space left on device");
    ++refused;
  }
  EXPECT_GT(refused, 8);
}

TEST_F(DiskFaults, FilesLimitedInSize_AreOneLineAndTheOldStays) {
  const std::string large =
      "{} generate d --nodes 600 --edges 9000 --features 16 --classes 3 --seed 2 --overwrite --threads 1";
  int refused = 0;
  for (int blocks = 3; blocks < 80; blocks += 3) {  // of 1 KiB; below 3 the complaint itself finds no room
    const ToolResult result = shell("bash -c 'ulimit -f " + std::to_string(blocks) + "; exec " + large + "'");
    if (result.exit_code == 0) break;
    expect_refused(result, std::to_string(blocks) + " KiB", "File too large");
    EXPECT_NE(result.complaint().find("(ulimit -f)"), std::string::npos) << result.complaint();
    ++refused;
  }
  EXPECT_GT(refused, 5);
}

TEST_F(DiskFaults, FsyncThatFails_IsOneLineAndTheOldStays) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer looks for leaks by tracing, which strace does already";
  if (shell("strace -o /dev/null true").exit_code != 0)
    GTEST_SKIP() << "needs strace, and the right to trace";
  int refused = 0;
  for (int n = 1; n <= 40; ++n) {
    const ToolResult result = shell(
        "strace -f -qq -o /dev/null -e trace=fsync -e inject=fsync:error=EIO:when=" + std::to_string(n) +
        " " + kNew);
    if (content("d") == new_) break;  // behind the rename: the dataset is there
    expect_refused(result, "fsync " + std::to_string(n), "Input/output error");
    ++refused;
  }
  EXPECT_GT(refused, 8);
}

TEST_F(DiskFaults, KilledAtTheNthSystemCallThatWrites_TheOldOrTheNewIsThere) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer looks for leaks by tracing, which strace does already";
  if (shell("strace -o /dev/null true").exit_code != 0)
    GTEST_SKIP() << "needs strace, and the right to trace";
  const int step = testing::long_tests() ? 1 : 9;
  std::printf("every %dth system call (each with HOPFEED_LONG_TESTS=1)\n", step);
  const std::string calls = "write,mkdir,linkat,rename,renameat2,fsync,openat,unlinkat";
  int kills = 0;
  for (int n = 1; n < 2'000; n += step) {
    const ToolResult result = shell("strace -f -qq -o /dev/null -e trace=" + calls + " -e inject=" + calls +
                                    ":signal=KILL:when=" + std::to_string(n) + " " + kNew);
    const std::map<std::string, std::string> found = content("d");
    ASSERT_TRUE(found == old_ || found == new_) << "killed at call " << n;
    if (result.exit_code == 0) break;
    ++kills;
    ASSERT_EQ(shell(kNew).exit_code, 0) << "after a kill at call " << n;
    ASSERT_EQ(content("d"), new_) << "after a kill at call " << n;
    ASSERT_EQ(listing(work_.path()), std::set<std::string>{"d"}) << "after a kill at call " << n;
    back_to_old();
  }
  EXPECT_GT(kills, 5);
}

// The disk is a small one of its own, in a mount namespace that ends with the command.
TEST_F(DiskFaults, SmallDisks_AreOneLineAndTheOldStays) {
  if (shell("unshare -m true").exit_code != 0) GTEST_SKIP() << "needs the right to mount (unshare -m)";
  int refused = 0;
  for (const int kib : {100, 200, 400, 1'000, 3'000}) {
    const TempFolder disk;
    const std::string at = disk.path().string();
    const ToolResult result = shell(
        "unshare -m sh -c 'mount -t tmpfs -o size=" + std::to_string(kib) + "k tmpfs " + at + " && cd " + at +
        " && {} generate d --nodes 40 --edges 200 --features 4 --classes 3 --seed 1 >/dev/null && " +
        "{ {} generate d --nodes 20000 --edges 200000 --features 16 --classes 4 --seed 2 --overwrite; "
        "code=$?; ls -A; "
        "{} verify d >/dev/null && echo verified; exit $code; }'");
    EXPECT_EQ(result.exit_code, 1) << kib << " KiB\n" << result.err;
    EXPECT_NE(result.complaint().find("No space left on device"), std::string::npos) << kib << " KiB\n"
                                                                                     << result.err;
    for (const char* part : {"; it needs ", " are free; choose a folder on a larger disk"})
      EXPECT_NE(result.complaint().find(part), std::string::npos) << kib << " KiB\n" << result.err;
    EXPECT_TRUE(result.out.ends_with(" are available\nd\nverified\n")) << kib << " KiB\n" << result.out;
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace hopfeed
