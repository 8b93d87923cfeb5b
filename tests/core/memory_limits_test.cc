// The reader of memory limits on made-up files: cgroup versions 1 and 2, nested limits, containers, nonsense.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

class MemoryLimits : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void machine(std::uint64_t available_kib) {
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   " +
                              std::to_string(available_kib) + " kB\n");
  }
  void version2(const std::string& own, const std::string& mount_root = "/") {
    write("proc/self/cgroup", "0::" + own + "\n");
    write("proc/self/mountinfo", "30 23 0:26 " + mount_root +
                                     " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  /// The limit of a group and what it uses, in the files of version 2 or of version 1.
  void group(const std::string& folder, const std::string& limit, const std::string& used) {
    const bool first = folder.rfind("memory", 0) == 0;  // the mount of version 1
    write("sys/fs/cgroup/" + folder + (first ? "/memory.limit_in_bytes" : "/memory.max"), limit + "\n");
    write("sys/fs/cgroup/" + folder + (first ? "/memory.usage_in_bytes" : "/memory.current"), used + "\n");
  }
  void group(const std::string& folder, std::uint64_t limit_mib, std::uint64_t used_mib) {
    group(folder, std::to_string(limit_mib << 20), std::to_string(used_mib << 20));
  }
  AvailableMemory available() const { return available_memory(root_.path()); }

  testing::TempFolder root_;
};

constexpr std::uint64_t kMiB = 1 << 20;

TEST_F(MemoryLimits, WithoutCgroups_TheMachineCounts) {
  machine(1024 * 1024);
  EXPECT_EQ(available().bytes, 1024 * kMiB);
  EXPECT_EQ(available().source, "MemAvailable");
}

TEST_F(MemoryLimits, NothingReadable_IsNoLimit) {
  EXPECT_EQ(available().bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(available().source, "unknown");
}

TEST_F(MemoryLimits, Version2_TheTightestLevelOnTheWayUpCounts) {
  machine(8 * 1024 * 1024);
  version2("/jobs/mine/step");
  group("jobs/mine/step", "max", "1048576");
  group("jobs/mine", 500, 200);
  write("sys/fs/cgroup/jobs/mine/memory.stat",
        "anon 1\nfile 2\ninactive_file 10485760\nactive_file 5242880\n");
  group("jobs", 1000, 200);
  EXPECT_EQ(available().bytes, 315 * kMiB) << "page cache can be taken back";
  EXPECT_NE(available().source.find("jobs/mine/memory.max"), std::string::npos);
  group("jobs", 1000, 900);
  EXPECT_EQ(available().bytes, 100 * kMiB);
  group("jobs", 1000, 2000);
  EXPECT_EQ(available().bytes, 0U) << "over the limit already";
}

TEST_F(MemoryLimits, Version1_WithItsOwnMountAndNames) {
  machine(8 * 1024 * 1024);
  write("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/jobs/a\n0::/\n");
  write("proc/self/mountinfo",
        "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  group("memory", "9223372036854771712", "123456");
  group("memory/jobs/a", 64, 20);
  write("sys/fs/cgroup/memory/jobs/a/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 0\n");
  EXPECT_EQ(available().bytes, 45 * kMiB);
}

TEST_F(MemoryLimits, ContainerThatSeesOnlyItsOwnGroup_ReadsTheMount) {
  machine(8 * 1024 * 1024);
  version2("/docker/abc", "/docker/abc");
  group(".", 60, 10);
  EXPECT_EQ(available().bytes, 50 * kMiB);
  version2("/", "/");  // with a cgroup namespace
  EXPECT_EQ(available().bytes, 50 * kMiB);
}

TEST_F(MemoryLimits, Nonsense_IsNoLimit) {
  machine(1024);
  write("proc/self/cgroup", "nonsense\n0:\n::\n");
  write("proc/self/mountinfo", "x\n - \n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  EXPECT_EQ(available().bytes, kMiB);
}

TEST_F(MemoryLimits, ThisMachineHasSome) {
  EXPECT_GT(available_memory().bytes, kMiB);
  EXPECT_NE(available_memory().source, "unknown");
}

TEST_F(MemoryLimits, TooLittle_IsOneLineWithNeededAvailableAndKnob) {
  require_memory(kMiB, {.bytes = kMiB, .source = "MemAvailable"}, "the channel", "lower channel_size");
  try {
    require_memory(100 * kMiB, {.bytes = 60 * kMiB, .source = "memory.max"}, "the channel",
                   "lower channel_size");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_STREQ(
        error.what(),
        "the channel needs 100 MiB of memory, 60 MiB are available (limit: memory.max); lower channel_size");
  }
}

}  // namespace
}  // namespace hopfeed
