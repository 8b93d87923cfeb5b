// Files that are there whole or not at all, whatever ends their writer.
#include "core/base/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename());
  return names;
}

void replace(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

/// How a child ends that runs `body` and then kills itself.
int status_of_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      _exit(9);
    }
    kill(getpid(), SIGKILL);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

bool killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

/// The parameter: on a file system without files that have no name.
class AtomicFiles : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    if (!kFailpointsEnabled) GTEST_SKIP() << "failpoints are compiled out of this build";
    setenv("HOPFEED_FAIL", "file.unnamed=error@*", 1);
  }
  void TearDown() override { unsetenv("HOPFEED_FAIL"); }
  const testing::TempFolder folder_;
  const fs::path path_ = folder_.path() / "out";
};

TEST_P(AtomicFiles, Committed_IsThereWholeAndAloneWithTheUsualRights) {
  replace(path_, "the old");
  replace(path_, "the new");
  EXPECT_EQ(contents(path_), "the new");
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out"});
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(static_cast<mode_t>(fs::status(path_).permissions()), 0666 & ~mask);
}

TEST_P(AtomicFiles, NotCommitted_TheOldStaysAndNothingBeside) {
  replace(path_, "the old");
  {
    AtomicFile file(path_);
    file.write("half of the n");
    EXPECT_EQ(contents(path_), "the old");
  }
  EXPECT_EQ(contents(path_), "the old");
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out"});
}

TEST_P(AtomicFiles, WriterKilled_TheOldStaysAndTheNextLeavesNothingBeside) {
  replace(path_, "the old");
  const int status = status_of_child([&] {
    AtomicFile file(path_);
    file.write("half of the n");
    kill(getpid(), SIGKILL);
  });
  ASSERT_TRUE(killed(status));
  EXPECT_EQ(contents(path_), "the old");
  if (!GetParam()) {
    EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out"}) << "at once";
  }
  replace(path_, "the new");
  EXPECT_EQ(contents(path_), "the new");
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out"});
}

TEST_P(AtomicFiles, FileTooLarge_IsOneLineThatNamesItAndTheOldStays) {
  replace(path_, "the old");
  const int status = status_of_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      replace(path_, std::string(2000, 'x'));
    } catch (const Error& error) {
      const std::string message = error.what();
      if (message.find(path_.string()) != std::string::npos && message.find("ulimit -f") != std::string::npos)
        return;
    }
    _exit(8);
  });
  EXPECT_TRUE(killed(status)) << "the error came and said so; status " << status;
  EXPECT_EQ(contents(path_), "the old");
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out"});
}

INSTANTIATE_TEST_SUITE_P(, AtomicFiles, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "NamedFromTheStart" : "Unnamed"; });

TEST(AtomicFile, WhereNoFileCanBe_IsOneLineThatNamesThePlace) {
  const testing::TempFolder folder;
  const std::string places[] = {folder.path().string(), "/dev/null", (folder.path() / "no" / "file").string(),
                                folder.path().string() + "/no/", "/proc/hopfeed-no-such"};
  for (const std::string& place : places) {
    try {
      AtomicFile file(place, "--out: ");
      ADD_FAILURE() << place << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("--out: "), 0U) << error.what();
      EXPECT_NE(std::string(error.what()).find(place), std::string::npos) << error.what();
    }
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

// /dev/stdout is such a link; a file in its place would take everybody's.
TEST(AtomicFile, OfALinkThatStandsForADescriptor_IsRefusedAndTheLinkStays) {
  const testing::TempFolder folder;
  const fs::path link = folder.path() / "stdout", target = "/proc/self/fd/1", plain = folder.path() / "plain";
  fs::create_symlink(target, link);
  EXPECT_EQ(descriptor_behind(link), 1);
  EXPECT_THROW(AtomicFile file(link), Error);
  EXPECT_EQ(fs::read_symlink(link), target);
  fs::create_symlink(folder.path() / "elsewhere", plain);
  for (const fs::path& path : {plain, folder.path() / "none", fs::path("/dev/null")})
    EXPECT_EQ(descriptor_behind(path), std::nullopt) << path;
}

TEST(AtomicFile, OfAnotherMachine_IsLeftAloneForADay) {
  const testing::TempFolder folder;
  const fs::path path = folder.path() / "out", theirs = folder.path() / ".out.tmp-0123abcd-4026531836-77-123";
  std::ofstream(theirs) << "being written";
  replace(path, "ours");
  EXPECT_TRUE(fs::exists(theirs));
  fs::last_write_time(theirs, fs::file_time_type::clock::now() - std::chrono::hours(25));
  replace(path, "ours again");
  EXPECT_FALSE(fs::exists(theirs));
}

TEST(AtomicFile, NamedWithoutAFolder_LiesInTheWorkingFolder) {
  const testing::TempFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  replace("out", "here");
  fs::current_path(before);
  EXPECT_EQ(contents(folder.path() / "out"), "here");
}

}  // namespace
}  // namespace hopfeed
