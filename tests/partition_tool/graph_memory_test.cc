// What a graph takes, and the refusal, on made-up machines.
#include "partition_tool/graph_memory.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace hopfeed {
namespace {

TEST(GraphMemory, CountsRowsNeighboursAndStoredEdgeIds) {
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .num_edges = 0}), 24'000u);
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .num_edges = 500}), 26'000u);
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .num_edges = 500, .stored_edge_ids = true}), 28'000u);
}

TEST(GraphMemory, IdsThatNeed64BitsCountTwice) {
  const std::int64_t many = (std::int64_t{1} << 31) + 1;
  EXPECT_EQ(graph_bytes({.num_nodes = many, .num_edges = 10}), static_cast<std::uint64_t>(many) * 32 + 80);
  EXPECT_EQ(graph_bytes({.num_nodes = 0, .num_edges = many, .stored_edge_ids = true}),
            static_cast<std::uint64_t>(many) * 12);
}

TEST(GraphMemory, TheLargestSizesDoNotWrap) {
  const std::int64_t most = std::int64_t{1} << 48;
  EXPECT_GT(graph_bytes({.num_nodes = most, .num_edges = most, .stored_edge_ids = true}),
            std::uint64_t{1} << 53);
}

TEST(GraphMemory, TooLarge_IsOneLineWithNeedLimitAndKnobs) {
  const AvailableMemory machine{.bytes = 27'999, .source = "MemAvailable"};
  const GraphSize size{.num_nodes = 1'000, .num_edges = 500, .stored_edge_ids = true};
  try {
    require_graph_memory(size, "the graph", "lower --edges", machine);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_STREQ(error.what(),
                 "the graph needs 28000 bytes of memory, 27999 bytes are available (limit: MemAvailable); "
                 "lower --edges");
  }
  require_graph_memory(size, "the graph", "", {.bytes = 28'000, .source = ""});
}

}  // namespace
}  // namespace hopfeed
