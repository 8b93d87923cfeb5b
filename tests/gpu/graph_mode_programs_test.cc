// --graph-mode and --gpu-device of programs: what they print, and how they end.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "gpu/device/cuda_engine.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

class GraphModePrograms : public ::testing::Test {
 protected:
  GraphModePrograms() {
    testing::write_tiny_dataset(folder_.path() / "graph",
                                testing::random_graph({.num_nodes = 100, .num_edges = 900, .num_train = 40}));
  }
  Words sample(const Words& more) const {
    return with({testing::program("hopfeed-sample"), folder(), "--fanouts", "3,3", "--batch-size", "8"},
                more);
  }
  Words server(const Words& more) const {
    return with({testing::program("hopfeed-server"), "--data", folder(), "--listen",
                 "unix:" + (folder_.path() / "socket").string(), "--max-memory", "64M"},
                more);
  }
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string folder() const { return (folder_.path() / "graph").string(); }
  static bool is_one_line(const std::string& text) {
    return !text.empty() && text.find('\n') == text.size() - 1;
  }
  static void expect_refused(const Words& words, const std::string& part) {
    const testing::ProgramResult result = testing::run_program(words);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(is_one_line(result.err)) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }

  testing::TempFolder folder_;
};

TEST_F(GraphModePrograms, Auto_SaysOnceWhichWasTaken_AndTheBatchesAreTheSame) {
  const testing::ProgramResult cpu = testing::run_program(sample({"--graph-mode", "cpu"}));
  ASSERT_EQ(cpu.exit_code, 0) << cpu.err;
  EXPECT_EQ(cpu.err.find("--graph-mode"), std::string::npos) << cpu.err;
  for (const char* workers : {"0", "2"}) {
    const testing::ProgramResult taken =
        testing::run_program(sample({"--graph-mode", "auto", "--num-workers", workers}));
    ASSERT_EQ(taken.exit_code, 0) << taken.err;
    EXPECT_EQ(taken.out, cpu.out);
    const std::string said = "--graph-mode auto: ";
    const std::size_t at = taken.err.find(said);
    ASSERT_NE(at, std::string::npos) << taken.err;
    EXPECT_EQ(taken.err.find(said, at + 1), std::string::npos) << taken.err;
    const std::string why = gpu::why_no_gpu();
    if (why.empty()) continue;
    EXPECT_NE(taken.err.find(said + "cpu, " + why + "\n"), std::string::npos) << taken.err;
  }
}

TEST_F(GraphModePrograms, WithoutAGpu_ModesThatWantOneEndInOneLine) {
  const std::string why = gpu::why_no_gpu();
  if (why.empty()) GTEST_SKIP() << "there is a GPU here";
  for (const std::string mode : {"uva", "cuda"}) {
    expect_refused(sample({"--graph-mode", mode}), "graph mode " + mode + ": " + why);
    expect_refused(server({"--graph-mode", mode}), "graph mode " + mode + ": " + why);
  }
}

TEST_F(GraphModePrograms, OptionsThatExcludeEachOther_AreOneLine) {
  expect_refused(sample({"--gpu-device", "1"}), "--gpu-device is 1 and --graph-mode is cpu");
  expect_refused(server({"--gpu-device", "1"}), "--gpu-device is 1 and --graph-mode is cpu");
  expect_refused(sample({"--graph-mode", "gpu"}), "--graph-mode");
  expect_refused(sample({"--graph-mode", "uva", "--gpu-device", "-1"}), "--gpu-device");
  expect_refused({testing::program("hopfeed-sample"), "--servers", "unix:" + folder(), "--graph-mode", "uva"},
                 "--graph-mode is uva, and servers sample where theirs says");
}

TEST_F(GraphModePrograms, RowsOnAGpuAreOfBatchesThatStayThere) {
  expect_refused(
      sample({"--gpu-cache", "0.5"}),
      "--gpu-cache is of batches that stay in a GPU's memory, and these do not; choose --graph-mode uva");
  expect_refused(sample({"--device-batches"}), "choose graph mode uva or cuda");
}

TEST_F(GraphModePrograms, RowsOfTheGraphOnAGpuAreOfUva) {
  for (const char* mode : {"cpu", "cuda"}) {
    const std::string line = std::string(
                                 "--gpu-graph-cache is of a GPU that reads the graph in the host's "
                                 "memory, and --graph-mode is ") +
                             mode + "; choose --graph-mode uva, or leave --gpu-graph-cache out";
    expect_refused(sample({"--graph-mode", mode, "--gpu-graph-cache", "0.5"}), line);
    expect_refused(sample({"--graph-mode", mode, "--gpu-graph-cache", "0.5", "--at", "0,0,8"}), line);
    expect_refused(server({"--graph-mode", mode, "--gpu-graph-cache", "auto"}), line);
  }
  expect_refused(sample({"--graph-mode", "uva", "--gpu-graph-cache", "2"}), "--gpu-graph-cache is '2'");
  expect_refused(server({"--graph-mode", "uva", "--gpu-graph-cache", "4GX"}), "--gpu-graph-cache is '4GX'");
  expect_refused(
      {testing::program("hopfeed-sample"), "--servers", "unix:" + folder(), "--gpu-graph-cache", "0.5"},
      "--gpu-graph-cache is of sampling on this machine, and with --servers the servers sample");
}

TEST_F(GraphModePrograms, AServerWithAuto_Serves) {
  testing::BackgroundProgram program(server({"--graph-mode", "auto"}));
  EXPECT_EQ(program.read_line(), "listening on unix:" + (folder_.path() / "socket").string());
  const testing::ProgramResult there = testing::run_program(
      {testing::program("hopfeed-sample"), "--servers", "unix:" + (folder_.path() / "socket").string(),
       "--fanouts", "3,3", "--batch-size", "8", "--graph-mode", "auto"});
  EXPECT_EQ(there.exit_code, 0) << there.err;
  EXPECT_EQ(there.err.find("--graph-mode"), std::string::npos) << "the server chooses: " << there.err;
  EXPECT_EQ(there.out, testing::run_program(sample({})).out);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 0);
}

}  // namespace
}  // namespace hopfeed
