// hopfeed-top as a user meets it: beside a hopfeed-sample that runs, and where there is nothing to see.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "channel/channel_view.h"
#include "channel/memory.h"
#include "core/base/owned_fd.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class TopProgram : public LoaderTestWithin<120> {
 protected:
  static std::vector<std::string> sample(const char* epochs) {
    return sample_command({"--num-workers", "2", "--epochs", epochs});
  }
  static testing::ProgramResult top(int pid, std::vector<std::string> more = {"--once"}) {
    more.insert(more.begin(), {testing::program("hopfeed-top"), std::to_string(pid)});
    return testing::run_program(more);
  }
  static void expect_refused(const testing::ProgramResult& result, const std::string& part) {
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.err.rfind("hopfeed-top: ", 0), 0U) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
};

/// The channel was full all the time. A worker that is looked at between two of its waits has waited for
/// less.
bool all_waited(const nlohmann::json& loader) {
  const nlohmann::json& workers = loader["workers"];
  return loader["workers_waited_for_slot"] > 0.9 &&
         std::all_of(workers.begin(), workers.end(), [](const nlohmann::json& worker) {
           return worker["now"] == "waits for a slot" && worker["waited_for_slot"] > 0.9;
         });
}

TEST_F(TopProgram, OnceBesideATrainerThatKeepsItsBatch_ShowsSlotsWorkersAndWhoWaits) {
  Loader running(options());
  running.begin_epoch(0);
  const auto held = running.next();
  const testing::TempFolder out;
  const std::string file = out.path() / "top.json";
  testing::ProgramResult result;
  nlohmann::json report;
  do {  // the test's watchdog bounds it
    result = top(getpid(), {"--once", "--json", file});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::ifstream stored(file);
    report = nlohmann::json::parse(stored);
    ASSERT_EQ(report["loaders"].size(), 1U);
  } while (!all_waited(report["loaders"][0]));
  const std::string before = "the workers waited for a free slot ";
  const std::size_t at = result.out.find(before);
  ASSERT_NE(at, std::string::npos) << result.out;
  EXPECT_GE(std::atoi(result.out.c_str() + at + before.size()), 90) << result.out;
  EXPECT_EQ(report["process"], getpid());
  const nlohmann::json& loader = report["loaders"][0];
  EXPECT_EQ(loader["steps"], 15);
  EXPECT_EQ(loader["slots"]["held"], 1);
  EXPECT_EQ(loader["slots"]["ready"], 5);
  EXPECT_EQ(loader["taken"], 1);
  EXPECT_GT(loader["slot_bytes"], 0);
  ASSERT_EQ(loader["workers"].size(), 2U);
  std::vector<int> pids;
  for (const nlohmann::json& worker : loader["workers"]) pids.push_back(worker["process"]);
  std::vector<int> children = running.worker_pids();
  std::sort(pids.begin(), pids.end());
  std::sort(children.begin(), children.end());
  EXPECT_EQ(pids, children);
}

TEST_F(TopProgram, EachScreensReport_IsInPlaceOfTheOneBefore) {
  Loader running(options());
  running.begin_epoch(0);
  const testing::TempFolder out;
  const std::string file = out.path() / "top.json";
  testing::BackgroundProgram top({testing::program("hopfeed-top"), std::to_string(getpid()), "--json", file});
  std::set<std::filesystem::file_time_type> seen;
  while (seen.size() < 4) {  // the test's watchdog bounds it
    std::this_thread::sleep_for(50ms);
    std::error_code not_yet;
    const auto written = std::filesystem::last_write_time(file, not_yet);
    if (not_yet || !seen.insert(written).second) continue;
    std::ifstream stored(file);
    EXPECT_EQ(nlohmann::json::parse(stored)["loaders"].size(), 1U);
  }
  top.signal(SIGINT);
  EXPECT_EQ(top.wait(60s), 0);
  const std::filesystem::directory_iterator files(out.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "more than the report is left";
}

TEST_F(TopProgram, WhenTheProcessEnds_TopEndsToo) {
  testing::BackgroundProgram running(sample("100000"));
  running.read_line();
  testing::BackgroundProgram top({testing::program("hopfeed-top"), std::to_string(running.pid())});
  EXPECT_NE(top.read_line().find("rank 0 of 1"), std::string::npos);
  const int pid = running.pid();
  running.kill();
  EXPECT_NE(top.read_rest().find("process " + std::to_string(pid) + " has ended\n"), std::string::npos);
  EXPECT_EQ(top.wait(60s), 0);
}

TEST_F(TopProgram, Interrupted_LeavesQuietly) {
  testing::BackgroundProgram running(sample("100000"));
  running.read_line();
  testing::BackgroundProgram top({testing::program("hopfeed-top"), std::to_string(running.pid())});
  top.read_line();
  top.signal(SIGINT);
  EXPECT_EQ(top.wait(60s), 0);
}

TEST_F(TopProgram, ALoaderThatIsWatched_GivesTheSameLines) {
  const std::string alone = testing::run_program(sample("1")).out;
  testing::BackgroundProgram running(sample("100000"));
  running.read_line();
  std::vector<std::string> beside = sample("1");
  beside.insert(beside.begin(), {"/bin/sh", "-c",
                                 "\"$0\" \"$@\" & \"" + testing::program("hopfeed-top") +
                                     "\" $! --once >/dev/null 2>&1; wait $!"});
  const testing::ProgramResult watched = testing::run_program(beside);
  EXPECT_EQ(watched.out, alone);
}

TEST_F(TopProgram, NothingToLookAt_IsOneLineThatSaysWhy) {
  testing::BackgroundProgram running(sample("100000"));
  running.read_line();
  testing::BackgroundProgram none({"/bin/sleep", "60"});
  expect_refused(top(none.pid()), "process " + std::to_string(none.pid()) + " has no loader");
  const int gone = none.pid();
  none.kill();
  expect_refused(top(gone), "there is no process " + std::to_string(gone));
  const int worker = testing::children_of(running.pid()).at(0);
  expect_refused(top(worker),
                 "is a sampling worker; its loader is in process " + std::to_string(running.pid()));
  expect_refused(testing::run_program({testing::program("hopfeed-top")}), "PID");
  expect_refused(top(0), "PID");
}

TEST_F(TopProgram, AChannelOfAnotherVersion_IsRefusedByItsVersion) {
  const ChannelShape shape{.num_slots = 1, .num_workers = 1, .slot_stride = kPageBytes};
  const auto memory = make_shared_memory(ChannelView::bytes_needed(shape));
  ChannelView::format(*memory, shape).control().version = 99;
  expect_refused(top(getpid()), "version 99");
}

TEST_F(TopProgram, AChannelThatIsNone_IsRefused) {
  const OwnedFd half_made(memfd_create("hopfeed-channel", MFD_CLOEXEC | MFD_ALLOW_SEALING), "memfd_create");
  expect_refused(top(getpid()), "no sealed channel");
}

TEST_F(TopProgram, ProcessOfAnotherUser_IsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "only root can start hopfeed-top as another user";
  testing::BackgroundProgram running(sample("100000"));
  running.read_line();
  const testing::ProgramResult result =
      testing::run_program({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                            testing::program("hopfeed-top"), std::to_string(running.pid())});
  if (result.exit_code == 127) GTEST_SKIP() << "that user may not reach the programs: " << result.err;
  expect_refused(result, "belongs to another user");
}

}  // namespace
}  // namespace hopfeed
