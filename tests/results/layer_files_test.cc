// Promises of shards: whole or not there, told by name, and refused where they are damaged.
#include "results/layer_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/failpoint.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

constexpr RunId kRun{.high = 0x0123456789ABCDEF, .low = 7};

std::vector<std::byte> some_rows(std::size_t bytes) {
  std::vector<std::byte> rows(bytes);
  for (std::size_t i = 0; i < bytes; ++i) rows[i] = static_cast<std::byte>(i * 31);
  return rows;
}

struct LayerFiles : ::testing::Test {
  testing::TempFolder folder;
  LayerFolder layers{.path = folder.path() / "layers", .run = kRun};
  LayerName name{.table = "h1", .node_type = "paper"};
  std::vector<std::byte> rows = some_rows(5 * 12);
  ShardRows shard{.partition = 3, .first = 4096, .count = 5, .row_bytes = 12};
};

TEST_F(LayerFiles, AShardIsReadAsItWasWritten) {
  EXPECT_FALSE(layers.has(name, 3, 4096));
  layers.write(name, shard, rows);
  EXPECT_TRUE(layers.has(name, 3, 4096));
  const LayerShard read(layers.shard_path(name, 3, 4096), kRun);
  EXPECT_EQ(read.first(), 4096);
  EXPECT_EQ(read.rows(), 5);
  EXPECT_EQ(read.row_bytes(), 12);
  EXPECT_TRUE(std::ranges::equal(read.bytes(), rows));
}

TEST_F(LayerFiles, FirstRowsOfAPartitionRise_OtherFilesAreNone) {
  for (const std::int64_t first : {8192, 0, 1'000'000}) {
    shard.first = first;
    layers.write(name, shard, rows);
  }
  shard.partition = 30;
  layers.write(name, shard, rows);
  testing::write_bytes(layers.table_folder(name) / "p000003-r5.rows.tmp", "x");
  testing::write_bytes(layers.table_folder(name) / ".p000003-r000000000000007.rows", "x");
  EXPECT_EQ(layers.firsts(name, 3), (std::vector<std::int64_t>{0, 8192, 1'000'000}));
  EXPECT_TRUE(layers.firsts(name, 4).empty());
  EXPECT_TRUE(layers.firsts({.table = "h2", .node_type = "paper"}, 3).empty());
  layers.remove(name);
  EXPECT_TRUE(layers.firsts(name, 3).empty());
}

TEST_F(LayerFiles, EachDamagedByteIsRefused) {
  layers.write(name, shard, rows);
  const std::filesystem::path path = layers.shard_path(name, 3, 4096);
  const std::string whole = testing::file_bytes(path);
  ASSERT_EQ(whole.size(), rows.size() + sizeof(ShardFoot));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    testing::write_bytes(path, damaged);
    expect_refused([&] { LayerShard(path, kRun); }, path.string(), ErrorCode::kCorrupt);
  }
  for (const std::size_t size : {std::size_t{0}, sizeof(ShardFoot) - 1, whole.size() - 1}) {
    testing::write_bytes(path, whole.substr(0, size));
    expect_refused([&] { LayerShard(path, kRun); }, path.string(), ErrorCode::kCorrupt);
  }
}

TEST_F(LayerFiles, RowsOfAnotherRunAreRefused) {
  layers.write(name, shard, rows);
  expect_refused([&] { LayerShard(layers.shard_path(name, 3, 4096), {.high = 1, .low = 1}); }, "another run");
}

TEST_F(LayerFiles, ADiskThatIsFullInMidShardLeavesNothing) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  ::setenv("HOPFEED_FAIL", "results.shard=error@1", 1);
  expect_refused([&] { layers.write(name, shard, rows); }, "p000003-r000000000004096.rows",
                 ErrorCode::kNoSpace);
  ::unsetenv("HOPFEED_FAIL");
  EXPECT_TRUE(testing::files_of(folder.path()).empty());
}

TEST(LayerNames, ArePartsOfPathsAndNothingElse) {
  for (const char* table : {"", ".", "..", ".h", "H1", "a/b", "h1 "})
    EXPECT_FALSE(is_layer_name({.table = table, .node_type = "paper"})) << table;
  for (const char* type : {"", ".", "..", "a/b"})
    EXPECT_FALSE(is_layer_name({.table = "h1", .node_type = type})) << type;
  EXPECT_FALSE(is_layer_name({.table = std::string(65, 'a'), .node_type = "paper"}));
  EXPECT_TRUE(is_layer_name({.table = "m2.cites-3_x", .node_type = "Paper ü"}));
}

TEST(RunIds, AreTheirOwnText) {
  EXPECT_EQ(to_text(kRun), "0123456789abcdef0000000000000007");
  EXPECT_EQ(run_id_of(to_text(kRun)), kRun);
  for (const char* text : {"", "0123456789abcdef000000000000000", "0123456789ABCDEF0000000000000007",
                           "0123456789abcdef00000000000000070", "-123456789abcdef0000000000000007"})
    expect_refused([&] { run_id_of(text); }, "32 hex digits", ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace hopfeed
