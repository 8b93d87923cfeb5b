// Memory that RecycledBytes keep: what is wanted again stays, what nobody wants goes back.
#include "core/base/trim_recycled.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "core/base/recycled_bytes.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

constexpr std::size_t kBlock = std::size_t{3} << 20, kBlocks = 20;  // 4 MiB each, as they are kept

std::size_t resident() { return testing::resident_bytes(getpid()); }

/// Takes so many blocks, writes to all of them, and gives them back.
void use(std::size_t blocks) {
  std::vector<void*> taken(blocks);
  for (void*& block : taken) block = take_recycled(kBlock), std::memset(block, 1, kBlock);
  for (void* const block : taken) give_recycled(block, kBlock);
}

TEST(TrimRecycled, WhatNobodyHasTakenSinceTheCallBeforeGoesBack) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer keeps freed memory";
  use(1);
  trim_recycled();
  trim_recycled();
  const std::size_t before = resident();
  use(kBlocks);
  EXPECT_GT(resident(), before + kBlocks * kBlock * 9 / 10) << "kept for others";
  trim_recycled();
  EXPECT_GT(resident(), before + kBlocks * kBlock * 9 / 10) << "was taken since the call before";
  use(4);
  trim_recycled();
  const std::size_t wanted = resident();
  EXPECT_GT(wanted, before + 4 * kBlock * 9 / 10) << "those that were taken stay";
  EXPECT_LT(wanted, before + 6 * kBlock) << "and no others";
  trim_recycled();
  EXPECT_LT(resident(), before + kBlock);
}

TEST(TrimRecycled, ABlockThatIsUsedAgainAndAgainStaysTheSame) {
  void* const block = take_recycled(kBlock);
  give_recycled(block, kBlock);
  for (int i = 0; i < 5; ++i) {
    trim_recycled();
    void* const again = take_recycled(kBlock);
    EXPECT_EQ(again, block);
    give_recycled(again, kBlock);
  }
}

}  // namespace
}  // namespace hopfeed
