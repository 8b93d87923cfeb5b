// What a device has a copy of where it reads the graph in place (gpu/engine/hot_prefix.h): a prefix of rows,
// and of their neighbours, within the bytes that there are. That batches stay the same is device_rounds.h's.
#include "gpu/engine/hot_prefix.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

/// Rows of two edges each.
std::vector<RowRecord> rows_of(std::int64_t count) {
  std::vector<RowRecord> rows;
  for (std::int64_t i = 0; i <= count; ++i) rows.push_back({.offset = 2 * i, .original_id = i});
  return rows;
}

gpu::EnginePlan plan_of(const std::vector<RowRecord>& rows, std::size_t hot_bytes) {
  const auto count = static_cast<std::int64_t>(rows.size()) - 1;
  gpu::EnginePlan plan;
  plan.hot.bytes = hot_bytes;
  plan.edge_types.push_back(
      {.parts = {{.rows = rows.data(), .num_rows = count, .num_edges = 2 * count}}, .index_bytes = 4});
  return plan;
}

TEST(HotPrefix, IsAsLongAsTheBytesAllow) {
  const std::vector<RowRecord> rows = rows_of(1'000);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{500}, std::size_t{10'000}}) {
    const gpu::EnginePlan plan = plan_of(rows, bytes);
    const HeldShare share = gpu::hot_share(plan);
    EXPECT_LE(gpu::hot_bytes(plan, share), bytes);
    if (bytes == 10'000) {
      EXPECT_GT(gpu::hot_bytes(plan, share), 9'900U);
    }
  }
  const HeldShare all = gpu::hot_share(plan_of(rows, 1 << 20));
  const gpu::HotPrefix hot = gpu::HotPrefix::of(plan_of(rows, 0).edge_types[0].parts[0], all);
  EXPECT_EQ(hot.rows, 1'000);
  EXPECT_EQ(hot.edges, 2'000);
  EXPECT_EQ(hot.bytes(4), 1'001 * sizeof(RowRecord) + 2'000 * 4);
}

TEST(HotPrefix, OfAShare_IsThatShareOfTheRows) {
  const std::vector<RowRecord> rows = rows_of(1'000);
  gpu::EnginePlan plan = plan_of(rows, 0);
  EXPECT_FALSE(gpu::hot_share(plan).any()) << "0 is none";
  plan.hot.ratio = 0.25;
  EXPECT_EQ(gpu::hot_share(plan).millionths, HeldShare::kAll / 4);
  EXPECT_EQ(gpu::hot_bytes(plan, gpu::hot_share(plan)), 251 * sizeof(RowRecord) + 500 * 4);
  plan.hot.ratio = 1;
  EXPECT_EQ(gpu::hot_share(plan).millionths, HeldShare::kAll);
}

TEST(HotPrefix, Automatic_IsASixteenthOfWhatIsFree) {
  const std::vector<RowRecord> rows = rows_of(1'000);
  gpu::EnginePlan plan = plan_of(rows, 0);
  plan.hot.automatic = true;
  plan.free_bytes = 160'000;
  EXPECT_EQ(gpu::hot_share(plan), gpu::hot_share(plan_of(rows, 10'000)));
  plan.free_bytes = 0;
  EXPECT_FALSE(gpu::hot_share(plan).any()) << "what fits is never an error";
}

TEST(HotPrefix, WhatIsNotFree_IsRefusedWithFigures) {
  const std::vector<RowRecord> rows = rows_of(100'000);
  gpu::EnginePlan plan = plan_of(rows, std::size_t{30} << 20);
  plan.free_bytes = std::size_t{20} << 20;
  expect_refused([&] { gpu::hot_share(plan); },
                 "gpu_graph_cache is 30 MiB, and 20 MiB of the GPU's memory are free", ErrorCode::kNoSpace);
  plan.hot = {.ratio = 0.5};
  plan.free_bytes = 1 << 10;
  expect_refused([&] { gpu::hot_share(plan); }, "gpu_graph_cache is 0.5, which takes ", ErrorCode::kNoSpace);
}

TEST(HotPrefix, OfAGraphOnTheDevice_IsNothing) {
  const std::vector<RowRecord> rows = rows_of(10);
  gpu::EnginePlan plan = plan_of(rows, 1 << 20);
  plan.place = gpu::GraphPlace::kDevice;
  EXPECT_FALSE(gpu::hot_share(plan).any());
}

TEST(HotPrefix, WhoseOffsetCannotBe_IsNotCopied) {
  for (const std::int64_t damaged : {std::int64_t{-1}, std::int64_t{21}, INT64_MAX}) {
    std::vector<RowRecord> rows = rows_of(10);
    rows[5].offset = damaged;
    const gpu::EnginePlan plan = plan_of(rows, 1 << 20);
    EXPECT_EQ(gpu::HotPrefix::of(plan.edge_types[0].parts[0], {.millionths = HeldShare::kAll / 2}).rows, 0);
  }
}

}  // namespace
}  // namespace hopfeed
