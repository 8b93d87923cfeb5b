// What a graph takes, and the refusal, on made-up machines.
#include "partition_tool/graph_memory.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace hopfeed {
namespace {

TEST(GraphMemory, CountsRowsNeighboursAndStoredEdgeIds) {
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .held_edges = 0}), 52'000u);
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .held_edges = 500}), 54'000u);
  EXPECT_EQ(graph_bytes({.num_nodes = 1'000, .held_edges = 500, .stored_edge_ids = true}), 56'000u);
}

TEST(GraphMemory, IdsThatNeed64BitsCountTwice) {
  const std::int64_t many = (std::int64_t{1} << 31) + 1;
  EXPECT_EQ(graph_bytes({.num_nodes = many, .num_sources = many, .held_edges = 10}),
            static_cast<std::uint64_t>(many) * 56 + 80);
  EXPECT_EQ(graph_bytes({.num_nodes = 0, .held_edges = many, .stored_edge_ids = true}),
            static_cast<std::uint64_t>(many) * 12);
}

TEST(GraphMemory, TheLargestSizesDoNotWrap) {
  const std::int64_t most = std::int64_t{1} << 48;
  EXPECT_GT(
      graph_bytes({.num_nodes = most, .num_sources = most, .held_edges = most, .stored_edge_ids = true}),
      std::uint64_t{1} << 54);
}

TEST(GraphMemory, TooLarge_IsOneLineWithNeedLimitAndKnobs) {
  const AvailableMemory machine{.bytes = 55'999, .source = "MemAvailable"};
  const GraphSize size{.num_nodes = 1'000, .held_edges = 500, .stored_edge_ids = true};
  try {
    require_graph_memory(size, "the graph", "lower --edges", machine);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_STREQ(error.what(),
                 "the graph needs 56000 bytes of memory, 55999 bytes are available (limit: MemAvailable); "
                 "lower --edges");
  }
  require_graph_memory(size, "the graph", "", {.bytes = 56'000, .source = ""});
}

}  // namespace
}  // namespace hopfeed
