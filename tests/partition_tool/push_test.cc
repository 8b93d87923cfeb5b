// hopfeed-partition push on one machine: what lands where, what is refused, and that an interrupted push goes
// on. push_ssh_test.cc has the same over ssh.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "core/base/json_text.h"
#include "core/dataset/dataset.h"
#include "tests/partition_tool/program_fixture.h"
#include "tests/support/dataset_files.h"
#include "tests/support/processes.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::listing;
using testing::ToolResult;

class PushProgram : public PartitionProgram {
 protected:
  void SetUp() override {
    if (std::system("rsync --version >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "rsync is not installed (Debian: apt install rsync)";
    make_small("whole");
    succeed("partition whole cut --parts 3");
  }
  std::map<std::string, std::string> files(const std::string& folder) const {
    return testing::files_of(work() / folder);
  }
  /// What a machine with these partitions must have of the dataset.
  std::map<std::string, std::string> share(const std::string& folder,
                                           const std::set<char>& partitions) const {
    std::map<std::string, std::string> kept;
    for (const auto& [path, bytes] : files(folder))
      if (!path.starts_with("part-") || partitions.contains(path[8])) kept[path] = bytes;
    return kept;
  }
  /// The last byte becomes another; size and time stay.
  void damage(const std::string& name) const {
    const fs::path path = work() / name;
    const auto time = fs::last_write_time(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const auto last = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(last);
    file.close();
    fs::last_write_time(path, time);
  }
  /// Makes the dataset "large" and pushes it slowly; the signal comes when its edges are there and its
  /// features on their way.
  ToolResult push_large_until(const std::string& signal, const std::string& environment = "") {
    succeed("generate large --nodes 20000 --edges 100000 --features 64 --classes 3 --seed 1");
    return shell(environment +
                 " {} push large --to 0=there --bandwidth 500K & pid=$!; while kill -0 $pid && "
                 "! [ -s there/part-0000/nodes/node/x.npy ]; do sleep 0.05; done; kill -" +
                 signal + " $pid; wait $pid");
  }
  /// Runs with an rsync that says `said` and ends with `code` as soon as it shall copy.
  ToolResult with_fake_rsync(const std::string& said, int code) {
    write("fake/rsync", "#!/bin/sh\necho \"" + said + "\" >&2\nexit " + std::to_string(code) + "\n");
    fs::permissions(work() / "fake/rsync", fs::perms::owner_all);
    return shell("PATH=$PWD/fake:$PATH {} push cut --to 0-2=node7:/data/x");
  }
};

TEST_F(PushProgram, EachMachineGetsItsPartitionsAndWhatAllNeed) {
  const ToolResult result = succeed("push cut --to 0,2=first --to '1=with space' --json report.json");
  EXPECT_NE(result.out.find("first: partitions 0 and 2, "), std::string::npos) << result.out;
  EXPECT_EQ(files("first"), share("cut", {'0', '2'}));
  EXPECT_EQ(files("with space"), share("cut", {'1'}));
  const nlohmann::json report = read_json("report.json");
  EXPECT_EQ(report["machines"].size(), 2U);
  EXPECT_EQ(report["machines"][0]["sent_files"], share("cut", {'0', '2'}).size() - 1);
  EXPECT_EQ(report["machines"][1]["partitions"], nlohmann::json::array({1}));
  EXPECT_EQ(report["pushed_nowhere"], nlohmann::json::array());
}

TEST_F(PushProgram, AFolderWithSomePartitions_OpensAsThat) {
  succeed("push cut --to 0,2=first --to 1=second");
  const Dataset some(work() / "first", {.some_partitions = true});
  EXPECT_EQ(some.partitions(), (std::vector<int>{0, 2}));
}

TEST_F(PushProgram, AFolderWithSomePartitions_IsVerifiedByChecksums) {
  for (const std::string cut : {"cut", "sharded"}) {
    if (cut == "sharded") succeed("partition whole sharded --parts 3 --ids sharded --halo 1");
    const std::string to = cut + "-some";
    succeed("push " + cut + " --to 0,2=" + to + " --to 1=" + cut + "-rest");
    const auto whole = files(to);
    EXPECT_NE(succeed("verify " + to)
                  .out.find(to + ": ok, " + std::to_string(whole.size() - 1) + " files, fingerprint "),
              std::string::npos);
    for (const auto& [path, bytes] : whole) {
      if (path == "meta.json" || bytes.empty()) continue;
      std::string damaged = bytes;
      damaged.back() = static_cast<char>(damaged.back() ^ 1);
      write(to + "/" + path, damaged);
      const ToolResult result = run("verify " + to);
      EXPECT_EQ(result.exit_code, 2) << path;
      EXPECT_NE(result.complaint().find(path + ": its checksum is "), std::string::npos) << result.err;
      write(to + "/" + path, bytes);
    }
    fs::remove(work() / to / whole.rbegin()->first);
    EXPECT_EQ(run("verify " + to).exit_code, 2) << whole.rbegin()->first << " is not there";
  }
}

// Nothing that a machine gets grows with the graph but its own share.
TEST_F(PushProgram, WithShardedIds_NoMachineGetsThoseOfAllNodes) {
  succeed("partition whole sharded --parts 3 --ids sharded --halo 1");
  succeed("push sharded --to 0=first --to 1,2=second");
  EXPECT_EQ(files("first"), share("sharded", {'0'}));
  EXPECT_EQ(files("second"), share("sharded", {'1', '2'}));
  const Dataset dataset(work() / "first", {.some_partitions = true});
  EXPECT_EQ(dataset.partitions(), (std::vector<int>{0}));
  for (const auto& [path, bytes] : files("first"))
    EXPECT_TRUE(path == "meta.json" || path.starts_with("part-0000/")) << path;
  succeed("push sharded --to 0-2=all");
  succeed("verify all");
}

TEST_F(PushProgram, ADatasetOfAnEarlierRelease_IsAWarningWhereAMachineGetsSomePartitions) {
  std::string meta = testing::file_bytes(work() / "cut/meta.json");
  const std::string name = "\"nodes/node/original_ids.npy\": {";
  const std::size_t at = meta.find(name);
  ASSERT_NE(at, std::string::npos);
  meta.erase(at, meta.find("},", at) + 2 - at);
  fs::remove(work() / "cut/nodes/node/original_ids.npy");
  write("cut/meta.json", seal_meta(meta));
  succeed("push cut --to 0-2=all");
  EXPECT_NE(run("push cut --to 0-1=some --to 2=other").complaint().find("cut by an earlier release"),
            std::string::npos);
}

TEST_F(PushProgram, AllPartitionsInOneFolder_AreTheDataset) {
  succeed("push cut --to 0-2=there");
  succeed("verify there");
  EXPECT_EQ(files("there"), files("cut"));
}

TEST_F(PushProgram, ASecondPushSendsNothing_AndAnotherPartitionIsAdded) {
  run("push cut --to 0=there");
  run("push cut --to 0=there --json report.json");
  EXPECT_EQ(read_json("report.json")["machines"][0]["sent_files"], 0);
  run("push cut --to 1-2=there");
  EXPECT_EQ(files("there"), files("cut"));
}

TEST_F(PushProgram, APartitionThatIsPushedNowhere_IsAWarning) {
  const ToolResult result = run("push cut --to 1=there");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.complaint(), "hopfeed-partition: warning: partitions 0 and 2 of cut are pushed nowhere\n");
}

TEST_F(PushProgram, DryRun_ShowsWhatWouldGoWhereAndWritesNothing) {
  const ToolResult result = succeed("push cut --to 0-1=first --to 2=second --dry-run");
  EXPECT_NE(result.out.find("second: partition 2, "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("  part-0001: "), std::string::npos) << result.out;
  EXPECT_EQ(listing(work()), (std::set<std::string>{"whole", "cut"}));
}

TEST_F(PushProgram, BadInput_IsOneLineThatNamesItAsItWasTyped) {
  refuse("push cut", "--to is required");
  refuse("push none --to 0=there", "no dataset folder none");
  refuse("push cut --to 0-3=there", "--to is '0-3=there'; there is no partition 3: cut has 3, from 0 to 2");
  refuse("push cut --to 0,0=there", "it names partition 0 twice");
  refuse("push cut --to 2-1=there", "2-1 is no range");
  refuse("push cut --to 1e3=there", "--to is '1e3=there'; give PARTITIONS=HOST:PATH");
  refuse("push cut --to there", "--to is 'there'; give PARTITIONS=HOST:PATH");
  refuse("push cut --to 0-2=host:", "name the folder on host");
  refuse("push cut --to 0-2=host::module", "rsync daemons are not served");
  refuse("push cut --to 0-2=rsync://host/module", "rsync daemons are not served");
  refuse("push cut --to 0-2=-oProxyCommand=x:y", "begins with '-'");
  refuse("push cut --to 0-1=there --to 2=./x/../there", "'0-1=there' names the same machine and folder");
  refuse("push cut --to 0-1=me@node:/x --to 2=node:/x/", "'0-1=me@node:/x' names the same machine");
  refuse("push cut --to 0-1=there --to 2=there/x", "one folder lies in the other");
  refuse("push cut --to 0-2=cut", "the dataset's own folder");
  refuse("push cut --to 0-2=none/there", "none/there: the folder above does not exist there");
  refuse("push cut --to 0-2=there --timeout 0", "--timeout");
  refuse_shell("PATH=/nowhere {} push cut --to 0-2=there", "there is no rsync on this machine", 2);
}

TEST_F(PushProgram, APartitionThatIsNotInThisFolder_IsNamed) {
  succeed("push cut --to 0-1=some --to 2=other");
  refuse("push some --to 0-2=there", "some lacks part-0002/");
  run("push some --to 0=there");
  EXPECT_EQ(files("there"), share("cut", {'0'}));
  fs::resize_file(work() / "other/part-0002/nodes/node/x.npy", 100);
  refuse("push other --to 2=more", "has 100 bytes where meta.json says");
}

TEST_F(PushProgram, AFolderThatHoldsSomethingElse_StaysAsItIs) {
  succeed("generate another --nodes 50 --edges 400 --features 8 --classes 3 --seed 2");
  succeed("partition whole cut2 --parts 2");
  write("mine/notes.txt", "mine");
  write("file", "mine");
  write("odd/meta.json", "{}");
  const auto another = files("another"), other_cut = files("cut2");
  refuse("push cut --to 0-2=another", "another holds another dataset (");
  refuse("push cut --to 0-2=cut2", "cut2 holds another cut of the same dataset (");
  refuse("push cut --to 0-2=mine", "mine holds something else ('notes.txt')");
  refuse("push cut --to 0-2=odd", "odd has a meta.json that is damaged");
  refuse("push cut --to 0-2=file", "file");
  refuse("push cut --to 0-1=fresh --to 2=another", "another holds another dataset (");  // fresh is not begun
  EXPECT_EQ(files("another"), another);
  EXPECT_EQ(files("cut2"), other_cut);
}

TEST_F(PushProgram, AnInterruptedPush_IsNoDatasetAndGoesOn) {
  const ToolResult stopped = push_large_until("TERM");
  EXPECT_NE(stopped.err.find("interrupted; what was pushed stays there; run it again"), std::string::npos)
      << stopped.err;
  EXPECT_FALSE(fs::exists(work() / "there/meta.json"));
  ASSERT_TRUE(fs::exists(work() / "there/.meta.json.pushing"));
  refuse("push cut --to 0-2=there", "there begins to be another dataset (");
  succeed("push large --to 0=there --json report.json");
  EXPECT_EQ(files("there"), files("large"));
  const nlohmann::json machine = read_json("report.json")["machines"][0];
  EXPECT_LT(machine["sent_files"], machine["files"]);
}

TEST_F(PushProgram, AFullDisk_IsOneLineAndThePushGoesOnWhenThereIsRoom) {
  const std::string disk = "unshare --mount --map-root-user sh -c 'mount -t tmpfs -o size=2M tmpfs disk && ";
  fs::create_directory(work() / "disk");
  if (shell(disk + "true'").exit_code != 0)
    GTEST_SKIP() << "needs the right to mount a small tmpfs (unshare)";
  succeed("generate large --nodes 20000 --edges 100000 --features 64 --classes 3 --seed 1");
  refuse_shell(disk + "{} push large --to 0=disk/there'", "disk/there is full: ", 1);
  const ToolResult gone_on =
      shell(disk + "(" + "{} push large --to 0=disk/there || mount -o remount,size=40M disk" +
            "; exec {} push large --to 0=disk/there)'");
  EXPECT_EQ(gone_on.exit_code, 0) << gone_on.err;
}

TEST_F(PushProgram, AKilledPush_TakesItsRsyncWithIt) {
  const std::string mark = testing::new_mark();
  push_large_until("KILL", mark);
  EXPECT_TRUE(testing::none_marked(mark, std::chrono::seconds(20)));
  EXPECT_FALSE(fs::exists(work() / "there/meta.json"));
  succeed("push large --to 0=there");
  EXPECT_EQ(files("there"), files("large"));
}

TEST_F(PushProgram, WhatAKilledRsyncLeft_IsSweptByTheNextPush) {
  write("there/..meta.json.pushing.Ab12Cd", "half");
  write("there/.meta.json.Ab12Cd", "half");
  succeed("push cut --to 0-2=there");
  EXPECT_EQ(files("there"), files("cut"));
}

TEST_F(PushProgram, AFileThatDiffersThere_IsNamedAndTheFolderIsNoDatasetUntilItIsMended) {
  run("push cut --to 0=there");
  damage("there/part-0000/nodes/node/x.npy");
  const ToolResult result = run("push cut --to 0=there");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("there: part-0000/nodes/node/x.npy differs there from cut"), std::string::npos)
      << result.err;
  EXPECT_FALSE(fs::exists(work() / "there/meta.json"));
  EXPECT_EQ(run("push cut --to 0=there --checksum").exit_code, 0);
  EXPECT_EQ(files("there"), share("cut", {'0'}));
}

TEST_F(PushProgram, WhatRsyncComplainsOf_IsOneLineThatSaysWhatToDo) {
  const struct {
    const char* said;
    int code;
    const char* part;
    int exit_code;
  } cases[] = {
      {"rsync: [receiver] write failed on 'x': No space left on device (28)", 11,
       "node7:/data/x is full: write failed on 'x': No space left on device (28); make room there", 1},
      {"rsync: mkstemp: Disk quota exceeded (122)", 23, "node7:/data/x is full", 1},
      {"sh: 1: rsync: not found", 127, "there is no rsync on node7", 2},
      {"rsync: [sender] Failed to exec ssh: No such file or directory (2)", 14, "cannot start 'ssh'", 2},
      {"ssh: connect to host node7 port 22: Connection timed out", 255,
       "node7 does not answer: ssh: connect to host node7 port 22: Connection timed out", 1},
      {"Host key verification failed.", 255, "node7 lets nobody in: Host key verification failed.", 1},
      {"me@node7: Permission denied (publickey).", 255, "node7 lets nobody in", 1},
      {"io timeout after 60 seconds -- exiting", 30, "node7:/data/x said nothing for 60 s (--timeout)", 1},
      {"rsync: connection unexpectedly closed (12 bytes received so far) [sender]", 12,
       "node7:/data/x: the copy ended early (rsync's exit code 12)", 1},
      {"rsync: mkdir 'x' failed: Permission denied (13)", 11, "may not be written or read", 1},
      {"rsync: something new", 99, "rsync failed with exit code 99: something new", 1},
  };
  for (const auto& fault : cases) {
    const ToolResult result = with_fake_rsync(fault.said, fault.code);
    EXPECT_EQ(result.exit_code, fault.exit_code) << fault.said;
    EXPECT_NE(result.complaint().find(fault.part), std::string::npos) << result.err;
    EXPECT_EQ(std::ranges::count(result.complaint(), '\n'), 1) << result.err;
  }
}

TEST_F(PushProgram, AHostThatSaysNothing_IsGivenUp) {
  write("mute", "#!/bin/sh\nexec sleep 300\n");
  fs::permissions(work() / "mute", fs::perms::owner_all);
  refuse("push cut --to 0-2=node7:/x --ssh ./mute --timeout 1", "node7:/x said nothing for 1 s (--timeout)",
         1);
}

TEST_F(PushProgram, NoShellReadsAPath) {
  succeed("push cut --to '0-2=a$(touch bad);touch bad'");
  EXPECT_EQ(listing(work()), (std::set<std::string>{"whole", "cut", "a$(touch bad);touch bad"}));
}

}  // namespace
}  // namespace hopfeed
