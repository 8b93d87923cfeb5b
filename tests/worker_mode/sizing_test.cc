// Tables of pure arithmetic: which cores whom, how large a channel.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "stream/batch_memory.h"
#include "stream/channel_sizing.h"
#include "worker_mode/core_placement.h"

namespace hopfeed {
namespace {

using Cores = std::vector<int>;

TEST(CorePlacement, EnoughCores_EachWorkerHasItsOwnAtTheEnd) {
  const CorePlan plan = plan_cores({.cores = {0, 1, 2, 3, 4, 5}, .num_workers = 2});
  EXPECT_EQ(plan.trainer, (Cores{0, 1, 2, 3}));
  EXPECT_EQ(plan.workers, (std::vector<Cores>{{4}, {5}}));
}

TEST(CorePlacement, RanksOfAMachine_GetDisjointShares) {
  const CorePlan first =
      plan_cores({.cores = {0, 2, 4, 6}, .local_rank = 0, .local_world = 2, .num_workers = 1});
  const CorePlan second =
      plan_cores({.cores = {0, 2, 4, 6}, .local_rank = 1, .local_world = 2, .num_workers = 1});
  EXPECT_EQ(first.trainer, Cores{0});
  EXPECT_EQ(first.workers, std::vector<Cores>{{2}});
  EXPECT_EQ(second.trainer, Cores{4});
  EXPECT_EQ(second.workers, std::vector<Cores>{{6}});
}

TEST(CorePlacement, TooFewCores_AllOfARankShareTheirs) {
  const CorePlan plan = plan_cores({.cores = {0, 1}, .local_rank = 1, .local_world = 2, .num_workers = 2});
  EXPECT_EQ(plan.trainer, Cores{1});
  EXPECT_EQ(plan.workers, (std::vector<Cores>{{1}, {1}}));
  const CorePlan alone = plan_cores({.cores = {0, 1}, .num_workers = 2});
  EXPECT_EQ(alone.workers, (std::vector<Cores>{{0, 1}, {0, 1}}));
}

TEST(CorePlacement, MoreRanksThanCores_TakeThemInTurn) {
  EXPECT_EQ(plan_cores({.cores = {3, 7}, .local_rank = 2, .local_world = 3, .num_workers = 1}).trainer,
            Cores{3});
  EXPECT_EQ(plan_cores({.cores = {3, 7}, .local_rank = 1, .local_world = 3, .num_workers = 1}).trainer,
            Cores{7});
}

TEST(CorePlacement, NothingKnown_PlacesNobody) {
  const CorePlan plan = plan_cores({.cores = {}, .num_workers = 3});
  EXPECT_TRUE(plan.trainer.empty());
  EXPECT_EQ(plan.workers, std::vector<Cores>(3));
}

constexpr std::size_t kMiB = 1 << 20;

LocalExecution two_workers() {
  LocalExecution options;
  options.num_workers = 2;
  return options;
}
AvailableMemory gib(std::uint64_t count) { return {.bytes = count << 30, .source = "MemAvailable"}; }

TEST(ChannelSizing, Default_IsFourWorstBatchesPerWorkerAndOneBeyond) {
  const ChannelPlan plan =
      plan_channel(two_workers(), true, {.worst_block = 10 * kMiB, .available = gib(16)});
  EXPECT_EQ(plan.shape.num_slots, 6U);
  EXPECT_EQ(plan.shape.slot_stride, 10 * kMiB);
  EXPECT_EQ(plan.pool.channel_size, 80 * kMiB);
  EXPECT_EQ(plan.pool.allowance, 10 * kMiB);
  EXPECT_EQ(plan.needed, ChannelView::fixed_bytes(plan.shape) + 90 * kMiB);
}

TEST(ChannelSizing, Default_HoldsASmallBatchInEachSlot) {
  LocalExecution options = two_workers();
  options.num_slots = 32;
  EXPECT_EQ(plan_channel(options, true, {.worst_block = 1'000, .available = gib(16)}).pool.channel_size,
            32 * kPageBytes);
  EXPECT_EQ(plan_channel(options, true, {.worst_block = 4 * kMiB, .available = gib(16)}).pool.channel_size,
            64 * kMiB);
}

TEST(ChannelSizing, Default_IsAtMostAQuarterOfTheMemoryThatRanksShare) {
  EXPECT_EQ(plan_channel(two_workers(), true, {.worst_block = 1'024 * kMiB, .available = gib(16)})
                .pool.channel_size,
            4'096 * kMiB);
  EXPECT_EQ(
      plan_channel(two_workers(), true, {.worst_block = 1'024 * kMiB, .available = gib(16), .local_world = 4})
          .pool.channel_size,
      1'024 * kMiB);
}

TEST(ChannelSizing, WorstBatchAboveTheMemory_IsRefusedForBoundedFanoutsAndCutForAllNeighbours) {
  LocalExecution options = two_workers();
  EXPECT_THROW(plan_channel(options, true, {.worst_block = 100'000 * kMiB, .available = gib(16)}), Error);
  const ChannelPlan plan =
      plan_channel(options, false, {.worst_block = 100'000 * kMiB, .available = gib(16)});
  EXPECT_EQ(plan.pool.channel_size + plan.pool.allowance, 12'288 * kMiB);
  EXPECT_LT(plan.needed, std::uint64_t{16} << 30);
}

TEST(ChannelSizing, ScratchOfAllWorkers_CountsAndIsNamed) {
  LocalExecution options = two_workers();
  options.num_workers = 4;
  SizingInput input{.worst_block = 10 * kMiB,
                    .scratch = {.tables = 100 * kMiB, .at_most = 3'000 * kMiB},
                    .available = gib(16)};
  const std::size_t alone =
      plan_channel(options, true, {.worst_block = 10 * kMiB, .available = gib(16)}).needed;
  EXPECT_EQ(plan_channel(options, true, input).needed, alone + 12'000 * kMiB);
  input.available = gib(11);
  try {
    plan_channel(options, true, input);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_NE(std::string(error.what()).find("scratch of 4 x 3000 MiB for the workers"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("num_workers"), std::string::npos) << error.what();
  }
  // unbounded: hardly any batch comes near the worst case
  EXPECT_EQ(plan_channel(options, false, input).needed, alone + 400 * kMiB);
}

TEST(ChannelSizing, BatchesSampledAhead_HaveScratch_AndTheCallingThreadSamplesNone) {
  LocalExecution options = two_workers();
  options.features = {.from = FeaturesFrom::kFile, .row_cache_bytes = 100 * kMiB, .window = 4};
  const SizingInput input{.worst_block = 10 * kMiB,
                          .scratch = {.tables = 10 * kMiB, .at_most = 100 * kMiB},
                          .available = gib(16)};
  const auto scratch = [&] {
    SizingInput none = input;
    none.scratch = {};
    return plan_channel(options, true, input).needed - plan_channel(options, true, none).needed;
  };
  EXPECT_EQ(scratch(), 2 * 5 * 100 * kMiB);
  options.num_workers = 0;
  EXPECT_EQ(scratch(), 100 * kMiB);
}

TEST(ChannelSizing, RanksOfOneMachine_ShareItsMemory) {
  LocalExecution options = two_workers();
  options.channel_size = 9'000 * kMiB;
  EXPECT_NO_THROW(plan_channel(options, true, {.worst_block = 10 * kMiB, .available = gib(16)}));
  try {
    plan_channel(options, true, {.worst_block = 10 * kMiB, .available = gib(16), .local_world = 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("8192 MiB are available (limit: MemAvailable, shared by 2 ranks)"),
        std::string::npos)
        << error.what();
  }
}

TEST(ChannelSizing, AbsurdWorstCase_StaysWithinTheAddressSpace) {
  LocalExecution options = two_workers();
  options.num_slots = 1'024;
  const ChannelPlan plan =
      plan_channel(options, false, {.worst_block = ~std::size_t{0} / 2, .available = gib(64)});
  EXPECT_LE(ChannelView::bytes_needed(plan.shape), (std::size_t{1} << 45) + (1U << 22));
}

TEST(ChannelSizing, WorstBatchAboveTheLargestBlock_GetsASlotOfThat) {
  LocalExecution options = two_workers();
  for (const std::size_t worst : {kMaxBlockBytes, kMaxBlockBytes + 1}) {
    const ChannelPlan plan = plan_channel(options, false, {.worst_block = worst, .available = gib(64)});
    EXPECT_EQ(plan.shape.slot_stride, kMaxBlockBytes);
  }
}

TEST(ChannelSizing, AbsurdChannelSize_IsRefusedBeforeAnySumWraps) {
  LocalExecution options = two_workers();
  options.channel_size = ~std::size_t{0} - 10;
  EXPECT_THROW(plan_channel(options, true, {.worst_block = 10 * kMiB, .available = gib(16)}), Error);
}

TEST(BatchMemory, Default_IsTheShareOfAWorkerInWhatIsFreeBesideTheChannel) {
  EXPECT_EQ(bytes_of_worker({.sharers = 3, .channels = 1024 * kMiB}, gib(16)), 5 * 1024 * kMiB);
  EXPECT_EQ(bytes_of_worker({.given = 7 * kMiB, .sharers = 3}, gib(16)), 7 * kMiB);
  EXPECT_EQ(bytes_of_worker({.sharers = 4, .channels = 32 * 1024 * kMiB}, gib(16)), 64 * kMiB)
      << "small batches are made on a full machine too";
}

}  // namespace
}  // namespace hopfeed
