// How many rows a device's memory holds.
#include "gpu/memory/device_memory_budget.h"

#include <gtest/gtest.h>

#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

using gpu::BudgetedRows;

constexpr std::int64_t kOffsets[] = {0, 1'000, 1'000, 5'000};
const BudgetedRows kFeatures{.partition_offsets = kOffsets, .row_bytes = 400};
const BudgetedRows kLabels{.partition_offsets = kOffsets, .row_bytes = 8};

std::size_t bytes_at(double ratio) {
  const BudgetedRows attrs[] = {kFeatures, kLabels};
  return gpu::held_bytes({.millionths = static_cast<std::uint32_t>(ratio * 1e6)}, attrs);
}

HeldShare fit(const CacheSize& cache, std::size_t free = 1 << 30) {
  const BudgetedRows attrs[] = {kFeatures, kLabels};
  return gpu::fit_share(cache, attrs, free);
}

TEST(DeviceMemoryBudget, AShareIsOfEachPartition) {
  const HeldShare share = fit({.ratio = 0.25});
  EXPECT_EQ(share.ratio(), 0.25);
  EXPECT_EQ(gpu::held_rows(share, kOffsets), (std::vector<std::int64_t>{250, 0, 1'000}));
  EXPECT_EQ(bytes_at(0.25), 100'096u + 400'000 + 2'048 + 8'064);  // each partition at a multiple of 128
  EXPECT_EQ(gpu::held_rows(fit({.ratio = 1}), kOffsets), (std::vector<std::int64_t>{1'000, 0, 4'000}));
  EXPECT_EQ(fit({.ratio = 0}), HeldShare{});
}

TEST(DeviceMemoryBudget, BytesHoldAsManyRowsAsTheyTake) {
  const HeldShare share = fit({.bytes = 1'000'000});
  const BudgetedRows attrs[] = {kFeatures, kLabels};
  EXPECT_LE(gpu::held_bytes(share, attrs), 1'000'000u);
  EXPECT_GT(gpu::held_bytes({.millionths = share.millionths + 1'000}, attrs), 1'000'000u);
  EXPECT_EQ(fit({.bytes = 1 << 30}).ratio(), 1);
}

TEST(DeviceMemoryBudget, AutoLeavesMostOfTheMemoryToTheTrainer) {
  const HeldShare share = fit({.automatic = true}, 4'000'000);
  EXPECT_EQ(share, fit({.bytes = 1'000'000}));
  EXPECT_EQ(fit({.automatic = true}, 0), HeldShare{});
  EXPECT_EQ(fit({.automatic = true}).ratio(), 1);
  EXPECT_EQ(fit({.automatic = true, .bytes = 1'000'000}), share) << "bytes bound what fits";
}

TEST(DeviceMemoryBudget, WhatDoesNotFitIsOneLineThatNamesTheOption) {
  expect_refused([] { fit({.ratio = 0.5}, 1'000'000); }, "--gpu-cache is 0.5, which takes ",
                 ErrorCode::kNoSpace);
  expect_refused([] { fit({.bytes = 30 << 20}, 20 << 20); },
                 "--gpu-cache is 30 MiB, and 20 MiB of the GPU's memory are free", ErrorCode::kNoSpace);
  expect_refused([] { fit({.bytes = 100}); }, "--gpu-cache is 100 bytes, which has no room for one row",
                 ErrorCode::kNoSpace);
  expect_refused([] { fit({.ratio = 1.5}); }, "--gpu-cache is 1.5; give a share from 0 to 1");
}

TEST(DeviceMemoryBudget, OfNoRowsOrFarTooMany_DoesNotWrap) {
  const std::int64_t none[] = {0, 0}, many[] = {0, std::int64_t{1} << 40};
  const BudgetedRows nothing[] = {{.partition_offsets = none, .row_bytes = 400}},
                     huge[] = {{.partition_offsets = many, .row_bytes = std::int64_t{1} << 40}};
  EXPECT_EQ(gpu::fit_share({.bytes = 100}, nothing, 1'000), HeldShare{});
  EXPECT_EQ(gpu::fit_share({.automatic = true}, huge, 1'000), HeldShare{});
  expect_refused([&] { gpu::fit_share({.ratio = 1}, huge, 1'000); }, "which takes ", ErrorCode::kNoSpace);
}

}  // namespace
}  // namespace hopfeed
