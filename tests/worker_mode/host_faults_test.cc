// What the machine does to a program: docs/faults.md, F7, F27, F29, F31, F33 and F35, through hopfeed-sample
// as a user runs it. Each ends with the right batches or with one line, never with a signal, and leaves
// nothing.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/sanitized.h"
#include "tests/worker_mode/faults_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

using testing::kSanitized;

class HostFaults : public Faults {
 protected:
  static std::string command(const std::filesystem::path& dataset = path(1)) {
    return sample_line({"--num-workers", "2"}, dataset);
  }
  static testing::ProgramResult shell(const std::string& line) {
    return testing::run_program({"/bin/sh", "-c", line});
  }
  static std::string whole_epoch() {
    std::string text;
    for (const std::string& line : expected(options())) text += line + "\n";
    return text;
  }
  static bool found(const std::string& program) {
    return shell("command -v " + program + " > /dev/null").exit_code == 0;
  }
  static std::size_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }
  /// A failure in one line of hopfeed-sample's own.
  static void expect_one_line(const testing::ProgramResult& result, const std::string& what) {
    EXPECT_LT(result.exit_code, 128) << what << ": died of a signal\n" << result.err;
    EXPECT_EQ(lines_in(result.err), 1U) << what << "\n" << result.err;
    EXPECT_EQ(result.err.rfind("hopfeed-sample: ", 0), 0U) << what << "\n" << result.err;
  }
};

// ---- environment

TEST_F(HostFaults, TokenOfServers_IsNotInTheEnvironmentOfWorkers) {
  const auto environment_of = [](const std::string& process) {
    std::ostringstream text;
    text << std::ifstream("/proc/" + process + "/environ", std::ios::binary).rdbuf();
    return text.str();
  };
  ASSERT_EQ(setenv("HOPFEED_TOKEN", "a-token-of-some-length", 1), 0);
  ASSERT_EQ(setenv("HOPFEED_TOKENS", "another", 1), 0);
  LoaderOptions two = options();
  two.execution.num_workers = 2;
  const Loader loader(two);
  unsetenv("HOPFEED_TOKEN");
  unsetenv("HOPFEED_TOKENS");
  ASSERT_EQ(loader.worker_pids().size(), 2U);
  for (const int pid : loader.worker_pids()) {
    const std::string environment = environment_of(std::to_string(pid));
    EXPECT_EQ(environment.find("HOPFEED_TOKEN="), std::string::npos);
    EXPECT_NE(environment.find("HOPFEED_TOKENS=another"), std::string::npos) << "all else is there";
  }
}

// ---- memory

/// A memory cgroup (version 1, or 2 where the controller is delegated) with a limit, for the time of a scope.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::size_t bytes) {
    const std::string name = "hopfeed-test-" + std::to_string(getpid());
    for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
      folder_ = std::filesystem::path(root) / name;
      std::error_code error;
      if (!std::filesystem::create_directory(folder_, error)) continue;
      for (const char* limit : {"memory.limit_in_bytes", "memory.max"}) {
        std::ofstream file(folder_ / limit);
        if (std::filesystem::exists(folder_ / limit) && (file << bytes << std::flush)) made_ = true;
      }
      std::ofstream(folder_ / "memory.swappiness") << 0;  // an overrun is a kill, whatever swap there is
      std::ofstream(folder_ / "memory.swap.max") << 0;
      if (made_) return;
      std::filesystem::remove(folder_, error);
    }
  }
  ~MemoryGroup() {
    std::error_code ignored;
    for (int i = 0; made_ && i < 100 && !std::filesystem::remove(folder_, ignored); ++i)
      std::this_thread::sleep_for(10ms);  // its last process may still be leaving
  }
  bool made() const { return made_; }
  /// What this process takes from now on counts. False where that is not allowed.
  bool take(int pid) const {
    std::ofstream file(folder_ / "cgroup.procs");
    return static_cast<bool>(file << pid << std::flush);
  }
  /// A shell command that joins before it does the rest.
  std::string join() const { return "echo $$ > " + (folder_ / "cgroup.procs").string() + "; exec "; }

 private:
  std::filesystem::path folder_;
  bool made_ = false;
};

// F7
TEST_F(HostFaults, ChannelAboveTheMemoryCgroup_IsOneLineAndNoKill) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer needs more memory than the cgroup of this test has";
  const MemoryGroup group(60 << 20);
  if (!group.made()) GTEST_SKIP() << "needs the right to make a memory cgroup";
  const testing::ProgramResult refused = shell(group.join() + command() + " --channel-size 200M");
  expect_one_line(refused, "200 MB of 60");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_NE(refused.err.find("--channel-size 200 MiB"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("hopfeed-test-"), std::string::npos) << refused.err;
  EXPECT_NE(refused.err.find("lower --channel-size"), std::string::npos) << refused.err;
  const testing::ProgramResult fits = shell(group.join() + command() + " --channel-size 8M");
  EXPECT_EQ(fits.out, whole_epoch()) << fits.err;
}

// F31, F1: the kernel kills a worker for the memory that its group does not have; the next one is outside of
// the group.
TEST_F(HostFaults, WorkerKilledByAMemoryCgroup_TrainerGetsTheSameBytes) {
  const MemoryGroup group(1 << 20);
  if (!group.made()) GTEST_SKIP() << "needs the right to make a memory cgroup";
  const testing::TempFolder scratch;
  LoaderOptions o = options();
  o.dataset = (scratch.path() / "larger").string();
  o.batch.fanouts = {-1, -1};  // a scratch of several times the limit
  o.deal.batch_size = 1'024;
  o.execution.channel_size = 64 << 20;
  testing::write_tiny_dataset(
      o.dataset, testing::random_graph({.num_nodes = 60'000, .num_edges = 500'000, .num_train = 4'096}));
  Loader loader(o);
  for (const int pid : loader.worker_pids()) {
    if (!group.take(pid)) GTEST_SKIP() << "needs the right to move a process into a memory cgroup";
  }
  EXPECT_EQ(loaded(loader), expected(o));
  EXPECT_GE(loader.stats().worker_deaths, 1);
  EXPECT_EQ(loader.stats().batches_remade, loader.stats().worker_deaths) << "each died with a batch in hand";
}

// F31
TEST_F(HostFaults, AddressSpaceOfAnySize_GivesTheBatchesOrOneLine) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow memory fits into no such limit";
  const std::string want = whole_epoch();
  int refused = 0, whole = 0;
  for (int mib = 8; mib <= 2'048; mib += std::max(mib / 12, 2)) {
    const testing::ProgramResult result =
        shell("ulimit -v " + std::to_string(mib * 1024) + "; exec " + command() + " --channel-size 8M");
    if (result.err.find("error while loading shared libraries") != std::string::npos)
      continue;  // not in our hands
    if (result.exit_code == 0) {
      EXPECT_EQ(result.out, want) << mib << " MiB";
      ++whole;
    } else {
      expect_one_line(result, std::to_string(mib) + " MiB");
      ++refused;
    }
  }
  EXPECT_GT(refused, 2);
  EXPECT_GT(whole, 2);
}

// ---- files

TEST_F(HostFaults, AnyNumberOfOpenFiles_GivesTheBatchesOrOneLine) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer opens files of its own, and complains where it cannot";
  const std::string want = whole_epoch();
  int refused = 0, whole = 0;
  for (int files = 4; files < 110; files += files < 12 ? 1 : 7) {
    const testing::ProgramResult result = shell("ulimit -n " + std::to_string(files) + "; exec " + command());
    if (result.err.find("error while loading shared libraries") != std::string::npos)
      continue;  // not in our hands
    if (result.exit_code == 0) {
      EXPECT_EQ(result.out, want) << files << " files";
      ++whole;
      continue;
    }
    expect_one_line(result, std::to_string(files) + " files");
    EXPECT_NE(result.err.find("open files"), std::string::npos) << files << ": " << result.err;
    ++refused;
  }
  EXPECT_GT(refused, 2);
  EXPECT_GT(whole, 2);
}

TEST_F(HostFaults, FolderThatCannotBeLookedInto_IsNotTakenForMissing) {
  const testing::TempFolder scratch;
  std::filesystem::create_symlink("b", scratch.path() / "a");
  std::filesystem::create_symlink("a", scratch.path() / "b");
  const testing::ProgramResult result = shell(command(scratch.path() / "a"));
  expect_one_line(result, "links in a circle");
  EXPECT_NE(result.err.find("Too many levels of symbolic links"), std::string::npos) << result.err;
}

// F27
TEST_F(HostFaults, FileTruncatedWhileWorkersReadIt_IsOneLineThatNamesIt) {
  for (const char* name : {"part-0000/nodes/node/x.npy", "part-0000/edges/node__to__node/indices.npy",
                           "part-0000/edges/node__to__node/rows.npy"}) {
    const testing::TempFolder copy;
    const std::filesystem::path dataset = copy.path() / "data";
    std::filesystem::copy(path(1), dataset, std::filesystem::copy_options::recursive);
    const std::string mark = testing::new_mark(), errors = (copy.path() / "errors").string();
    testing::BackgroundProgram program(
        {"/bin/sh", "-c", "exec " + command(dataset) + " --epochs 1000000 2> " + errors}, {mark});
    program.read_line();
    std::filesystem::resize_file(dataset / name, 0);
    program.read_rest();
    const int code = program.wait(60s);
    std::ifstream file(errors);
    const std::string said((std::istreambuf_iterator<char>(file)), {});
    expect_one_line({.exit_code = code, .out = "", .err = said}, name);
    EXPECT_EQ(code, 2) << name;
    EXPECT_NE(said.find(name), std::string::npos) << said;
    EXPECT_TRUE(testing::none_marked(mark, 20s));
  }
}

/// The bits of a float.
float float_of(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// F29: payloads and signs of NaN, infinities, denormals and -0 reach the trainer as they were imported.
TEST_F(HostFaults, NonFiniteFeatures_ArriveBitByBit) {
  const std::uint32_t planted[] = {0x7fc00000, 0xffc00001, 0x7f800001, 0xffbfffff, 0x7fffffff, 0x7fadbeef,
                                   0x7f800000, 0xff800000, 0x00000001, 0x80000000, 0x807fffff, 0x3f800000};
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 9, .num_train = 230});
  for (std::size_t i = 0; i < graph.x.size(); ++i) graph.x[i] = float_of(planted[i * 7 % std::size(planted)]);
  const testing::TempFolder scratch;
  testing::write_tiny_dataset(scratch.path() / "planted", graph, testing::random_cut(graph, 2, 5));
  LoaderOptions o = options();
  o.dataset = (scratch.path() / "planted").string();
  Loader loader(o);
  loader.begin_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    const auto x = batch->view().get("x", Store::kNode).as<float>();
    const auto n_id = batch->view().n_id();
    for (std::size_t i = 0; i < n_id.size(); ++i)
      ASSERT_EQ(std::memcmp(&x[9 * i], &graph.x[9 * n_id[i]], 9 * sizeof(float)), 0) << "node " << n_id[i];
  }
}

// F29: whoever asks hears of them, batch by batch; the batches beside are as without the question.
TEST_F(HostFaults, NonFiniteFeatures_AreNamedToWhomAsksForThem) {
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 9, .num_train = 230});
  const std::int64_t node =
      graph.splits.at("train")[40];  // the seed at this position, which no other batch has among its seeds
  graph.x[static_cast<std::size_t>(9 * node + 7)] = float_of(0xffbfffff);
  const testing::TempFolder scratch;
  LoaderOptions o = options();
  o.dataset = (scratch.path() / "planted").string();
  o.batch.fanouts = {};
  o.shuffle = false;
  o.execution.check_finite = true;
  testing::write_tiny_dataset(o.dataset, graph, testing::random_cut(graph, 2, 5));
  const std::vector<std::string> want = expected(o);
  Loader loader(o);
  loader.begin_epoch(0);
  for (std::size_t step : {0, 1}) EXPECT_EQ(line_of(loader.next()->view()), want[step]);
  const std::string error = error_of([&] { loader.next(); });
  EXPECT_EQ(error.rfind("invalid: batch (epoch 0, first 32, count 16): attribute 'x' of node " +
                            std::to_string(node) + " is NaN or infinite in column 7;",
                        0),
            0U)
      << error;
  EXPECT_EQ(loaded(loader, {.start = 48}), std::vector<std::string>(want.begin() + 3, want.end()));
  const std::string sample =
      testing::program("hopfeed-sample") + " " + o.dataset + " --no-shuffle --batch-size 16 --fanouts 1";
  expect_one_line(shell(sample + " --at 0,32,16 --check-finite"), "--at");
  EXPECT_EQ(shell(sample + " --at 0,32,16").exit_code, 0);
}

// ---- clocks

// F33
TEST_F(HostFaults, WallClockYearsOff_ChangesNothing) {
  if (!found("faketime")) GTEST_SKIP() << "needs faketime (scripts/setup.sh installs it)";
  if (kSanitized) GTEST_SKIP() << "faketime's library and a sanitizer's both want to be loaded first";
  for (const char* shift : {"-3650d", "+3650d"}) {
    const testing::ProgramResult result =
        shell("FAKETIME_DONT_FAKE_MONOTONIC=1 faketime -f '" + std::string(shift) + "' " + command());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, whole_epoch()) << shift;
  }
}

// F33: it steps a year back and a year forward while batches are awaited.
TEST_F(HostFaults, WallClockStepsDuringARun_NobodyIsTakenForDead) {
  if (!found("faketime")) GTEST_SKIP() << "needs faketime (scripts/setup.sh installs it)";
  if (kSanitized) GTEST_SKIP() << "faketime's library and a sanitizer's both want to be loaded first";
  const testing::TempFolder scratch;
  const std::filesystem::path clock = scratch.path() / "clock";
  const auto set_clock = [&](const char* shift) {
    std::ofstream(scratch.path() / "new") << shift << "\n";
    std::filesystem::rename(scratch.path() / "new", clock);
  };
  set_clock("+0");
  const std::string report = (scratch.path() / "report.json").string();
  testing::BackgroundProgram program(
      {"/bin/sh", "-c",
       "exec env -u FAKETIME faketime -f '+0' env -u FAKETIME " + command() + " --epochs 400 --json " +
           report},
      {"FAKETIME_TIMESTAMP_FILE=" + clock.string(), "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"});
  for (const char* shift : {"-365d", "+365d", "-3650d", "+0"}) {
    for (int i = 0; i < 15 * 50; ++i) program.read_line();
    set_clock(shift);
  }
  program.read_rest();
  EXPECT_EQ(program.wait(60s), 0);
  std::ifstream file(report);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("\"worker_deaths\": 0"), std::string::npos) << text;
}

// ---- signals

// F35
TEST_F(HostFaults, StopSignalAtARandomStep_EndsWith130AndLeavesNothing) {
  const std::string want = whole_epoch();
  int step = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTERM, SIGINT}) {
    const std::string mark = testing::new_mark();
    testing::BackgroundProgram program(
        {"/bin/sh", "-c", "exec " + command() + " --epochs 1000000 2> /dev/null"}, {mark});
    std::string said;
    step = 1 + (step * 7 + 4) % 15;
    for (int i = 0; i < step; ++i) said += program.read_line() + "\n";
    program.signal(signal);
    said += program.read_rest();
    EXPECT_EQ(program.wait(60s), 130) << "signal " << signal << " after " << step << " batches";
    EXPECT_EQ(said.back(), '\n') << "the last line is whole";
    EXPECT_EQ(said.substr(0, want.size()), want.substr(0, said.size()));
    EXPECT_TRUE(testing::none_marked(mark, 20s));
  }
}

// F35: SIGPIPE is ignored; who reads the lines may leave.
TEST_F(HostFaults, NobodyReadsTheLinesAnyMore_IsOneLine) {
  const testing::ProgramResult result =
      shell("{ " + command() + " --epochs 1000000; echo \"exit code $?\" >&2; } | head -n 1");
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1);
  EXPECT_NE(result.err.find("cannot write to standard output"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("exit code 1\n"), std::string::npos) << result.err;
}

// F35: the batch that it waits for does not come, because both workers are stopped.
TEST_F(HostFaults, StopSignal_WhereWorkersAreStopped_EndsAllTheSame) {
  const std::string mark = testing::new_mark();
  testing::BackgroundProgram program(
      {"/bin/sh", "-c", "exec " + command() + " --epochs 1000000 2> /dev/null"}, {mark});
  program.read_line();
  for (const int pid : testing::children_of(program.pid())) ::kill(pid, SIGSTOP);
  std::atomic<int> lines{0};
  std::thread reader([&] {
    try {
      for (;; ++lines) program.read_line();
    } catch (const Error&) {  // the end
    }
  });
  for (int seen = -1;
       seen != lines;) {  // until it has taken what was ready and waits for the stopped workers
    seen = lines;
    std::this_thread::sleep_for(1s);
  }
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 130);
  reader.join();
  EXPECT_TRUE(testing::none_marked(mark, 20s));
}

}  // namespace
}  // namespace hopfeed
