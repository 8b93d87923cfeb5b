// The program with sharded ids: how they are asked for, what is said of them, and that every command reads
// them as it reads others.
#include <gtest/gtest.h>

#include "core/dataset/dataset.h"
#include "tests/partition_tool/program_fixture.h"
#include "tests/support/dataset_files.h"

namespace hopfeed {
namespace {

class ShardedProgram : public PartitionProgram {
 protected:
  ShardedProgram() {
    succeed("generate made --kind bipartite --users 300 --items 200 --interactions 4000 --seed 1");
    succeed("split-links made whole --num-val 0.1 --num-test 0.1");
    cut("whole", "replicated", "replicated"), cut("whole", "sharded", "sharded");
  }
  void cut(const std::string& from, const std::string& to, const std::string& ids,
           const std::string& more = "") {
    succeed("partition " + from + " " + to + " --parts 3 --method random --ids " + ids + " " + more);
  }
  DatasetMeta meta(const std::string& name) const { return Dataset(work() / name).meta(); }
  /// But for the commands that wrote them.
  void expect_same(const std::string& one, const std::string& other) const {
    auto files = testing::files_of(work() / one), others = testing::files_of(work() / other);
    files.erase("meta.json"), others.erase("meta.json");
    EXPECT_EQ(files, others) << one << " " << other;
    EXPECT_EQ(meta(one).fingerprint, meta(other).fingerprint);
  }
};

TEST_F(ShardedProgram, AreAskedForAndTold) {
  EXPECT_FALSE(meta("replicated").sharded_ids);
  EXPECT_TRUE(meta("sharded").sharded_ids);
  cut("whole", "small", "auto", "--json cut.json");
  EXPECT_FALSE(meta("small").sharded_ids) << "500 nodes are few";
  EXPECT_EQ(read_json("cut.json")["ids"], "replicated");
  cut("sharded", "again", "sharded", "--halo 1 --json cut.json");
  EXPECT_EQ(read_json("cut.json")["ids"], "sharded");
  EXPECT_EQ(read_json("cut.json")["node_types"]["user"]["remote_sources"].size(), 3U);
  succeed("verify again");
  const testing::ToolResult shown = succeed("inspect again --json about.json");
  EXPECT_NE(shown.out.find("ids: sharded, each partition has a range of them"), std::string::npos)
      << shown.out;
  EXPECT_NE(shown.out.find("ids of "), std::string::npos) << shown.out;
  EXPECT_EQ(read_json("about.json")["ids"], "sharded");
  EXPECT_EQ(read_json("about.json")["node_types"][0]["halo_sources"].size(), 3U);
  EXPECT_NE(succeed("inspect replicated").out.find("ids: replicated"), std::string::npos);
}

TEST_F(ShardedProgram, BadInput_IsOneLine) {
  refuse("partition whole out --parts 1 --ids sharded",
         "--ids sharded deals ids out to partitions, and --parts 1 makes one; leave one of them out");
  refuse("partition whole out --parts 2 --ids halved", "--ids");
}

TEST_F(ShardedProgram, EveryCommandReadsThem) {
  make_small("small");
  cut("small", "small-replicated", "replicated"), cut("small", "small-sharded", "sharded");
  const auto same = [&](const std::string& command, const std::string& of, const std::string& options) {
    succeed(command + " " + of + "replicated one --overwrite " + options);
    succeed(command + " " + of + "sharded other --overwrite " + options);
    expect_same("one", "other");
  };
  same("split-links", "small-", "--num-val 0.2");
  same("to-undirected", "small-", "");
  same("deduplicate", "small-", "");
  same("add-self-loops", "small-", "");
  same("convert", "small-", "--attr x=float16");
  same("cluster", "small-", "--clusters 4 --method random");
  same("co-occurrence", "", "--edge-type interacts");
}

TEST_F(ShardedProgram, HotnessKeepsThem) {
  cut("whole", "halo", "sharded", "--halo 1");
  for (const char* policy : {"degree", "vip"}) {
    succeed("hotness halo ordered --overwrite --policy " + std::string(policy));
    succeed("verify ordered");
    EXPECT_TRUE(meta("ordered").sharded_ids);
    EXPECT_TRUE(meta("ordered").has_halos());
  }
  expect_same("ordered", "halo");
}

TEST_F(ShardedProgram, InspectReadsAFolderWithSomePartitions) {
  std::filesystem::remove_all(work() / "sharded/part-0001");
  EXPECT_NE(succeed("inspect sharded").out.find("on this machine: partitions 0, 2"), std::string::npos);
  refuse("partition sharded out --parts 2", "part-0001 of sharded is not on this machine");
}

}  // namespace
}  // namespace hopfeed
