// What 32 bits hold of a partition is refused at the cut, in one line: one above each limit, by its number.
#include "partition_tool/partition_limits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/remote_ranks.h"
#include "core/base/limits.h"
#include "core/dataset/halo_files.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/id_choice.h"
#include "partition_tool/partition_nodes.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

constexpr std::int64_t k2To32 = std::int64_t{1} << 32;

TEST(PartitionLimits, TooFewParts_SayHowManyItTakes) {
  require_enough_parts("paper", k2To32 - 1, 1);
  require_enough_parts("paper", 3 * (k2To32 - 1), 3);
  expect_refused([] { require_enough_parts("paper", 12'000'000'000, 2); },
                 "--parts is 2, and 12000000000 nodes of type 'paper' take 3 at least",
                 ErrorCode::kUnsupported);
  expect_refused([] { require_enough_parts("paper", k2To32, 1); }, "take 2 at least",
                 ErrorCode::kUnsupported);
}

TEST(PartitionLimits, AnUnevenCut_NamesThePartition) {
  require_rows_fit("paper", std::vector<std::int64_t>{k2To32 - 1, 5});
  expect_refused(
      [] {
        require_rows_fit("paper", std::vector<std::int64_t>{5, k2To32, 7});
      },
      "partition 1 would have 4294967296 nodes of type 'paper'", ErrorCode::kUnsupported);
}

TEST(PartitionLimits, AHaloOf2To32Nodes_IsRefused) {
  require_halo_rows(2, k2To32 - 1, "paper");
  expect_refused([] { require_halo_rows(2, k2To32, "paper"); },
                 "the halo of partition 2 would have 4294967296 nodes of type 'paper'",
                 ErrorCode::kUnsupported);
}

// A list that is cut short costs reads; one that ranks do not number is refused where it is read.
TEST(PartitionLimits, RankedRows_AreAsManyAsRanksNumber) {
  EXPECT_EQ(ranked_rows(1'000, 100), 400);
  EXPECT_EQ(ranked_rows(300, 100), 300);
  EXPECT_EQ(ranked_rows(12'000'000'000, 4'000'000'000), RemoteRanksView::kUnranked - std::int64_t{1});
}

TEST(IdChoice, AutoShardsFrom100MillionNodesOfAType) {
  DatasetMeta meta;
  meta.node_types = {{.name = "venue", .count = 5}, {.name = "paper", .count = 99'999'999}};
  EXPECT_FALSE(shards_ids("auto", 4, meta));
  EXPECT_TRUE(shards_ids("sharded", 4, meta));
  meta.node_types[1].count = 100'000'000;
  EXPECT_TRUE(shards_ids("auto", 4, meta));
  EXPECT_FALSE(shards_ids("auto", 1, meta));
  EXPECT_FALSE(shards_ids("replicated", 4, meta));
}

TEST(PartitionLimits, ThoseThatReadersMay_AreSaid) {
  using Rows = std::vector<std::int64_t>;
  EXPECT_TRUE(limits_ahead("paper", Rows{1 << 28, 1 << 28}).empty());
  const std::vector<std::string> batch = limits_ahead("paper", Rows{1 << 28, (1 << 28) + 1});
  ASSERT_EQ(batch.size(), 1U);
  EXPECT_EQ(batch[0], "'paper' has 536870913 nodes, and a batch has at most 536870912");
  const std::vector<std::string> both = limits_ahead("paper", Rows(4, k2To32 - 1));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(
      both[1],
      "partition 0 ranks 4294967294 rows of 'paper' at others at most: what is behind them is never held; "
      "give more --parts");
}

TEST(PartitionLimits, RowsLongerThanTheirTablesNumber_AreRefused) {
  const std::vector<std::string> one{"w"};
  const std::int64_t most = kMaxWeightedDegree;
  require_row_length(7, 1'000 * k2To32, {});
  require_row_length(7, most, {.weights = one});
  require_row_length(7, k2To32 - 1, {.times = one, .by_id = true});
  expect_refused([&] { require_row_length(7, most + 1, {.weights = one}); },
                 "node 7 has 2147483648 in-edges; with the weight 'w' a node has at most 2147483647",
                 ErrorCode::kUnsupported);
  expect_refused([&] { require_row_length(7, k2To32, {.times = one}); },
                 "with the time 'w' a node has at most 4294967295", ErrorCode::kUnsupported);
  expect_refused([] { require_row_length(7, k2To32, {.by_id = true}); },
                 "with the order of source ids (--by-id) a node has at most 4294967295",
                 ErrorCode::kUnsupported);
}

TEST(PartitionLimits, MoreNodesThanMetisNumbers_AreRefused) {
  require_metis_nodes((std::int64_t{1} << 31) - 1);
  expect_refused([] { require_metis_nodes(std::int64_t{1} << 31); },
                 "at most 2147483647, and the graph has 2147483648; use --method random",
                 ErrorCode::kUnsupported);
}

TEST(PartitionLimits, MemoryThatIsNotThere_IsRefusedBeforeItIsTold) {
  std::vector<std::string> told;
  const TellMemory tell = [&](const MemoryWish& wish, const AvailableMemory&) { told.push_back(wish.what); };
  const AvailableMemory machine{.bytes = 20'000, .source = "MemAvailable"};
  want_memory(tell, {.what = "a", .knobs = "", .bytes = 20'000}, machine);
  want_memory(tell, {.what = "b", .knobs = "", .bytes = 30'000, .least = 20'000}, machine);
  expect_refused([&] { want_memory(tell, {.what = "c", .knobs = "do less", .bytes = 20'001}, machine); },
                 "c needs 20001 bytes of memory, 20000 bytes are available (limit: MemAvailable); do less",
                 ErrorCode::kNoSpace);
  EXPECT_EQ(told, (std::vector<std::string>{"a", "b"}));
}

}  // namespace
}  // namespace hopfeed
