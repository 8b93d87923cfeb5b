// Where the time went, on times made by hand.
#include "stream/slot_waits.h"

#include <gtest/gtest.h>

#include "channel/futex.h"
#include "channel/memory.h"

namespace hopfeed {
namespace {

/// A batch that was planned at 100, claimed at 200, sampled at 500, gathered at 800, published at 810.
constexpr SlotTimes kTimes{.planned = 100, .claimed = 200, .sampled = 500, .gathered = 800, .published = 810};

TEST(SplitWait, AWaitOverAllStages_IsSplitWhereTheyMeet) {
  EXPECT_EQ(split_wait(50, 900, kTimes), (WaitStages{.sampling = 450, .gather = 300, .handover = 100}));
}

TEST(SplitWait, AWaitThatBeginsLater_CountsOnlyWhatIsLeftOfTheStage) {
  EXPECT_EQ(split_wait(600, 900, kTimes), (WaitStages{.gather = 200, .handover = 100}));
  EXPECT_EQ(split_wait(805, 900, kTimes), (WaitStages{.handover = 95}));
  EXPECT_EQ(split_wait(850, 850, kTimes), WaitStages{});
}

TEST(SplitWait, ABatchMadeAgainAfterADeath_CountsAsSampling) {
  SlotTimes again = kTimes;  // planned long ago; the second worker took it at 700
  again.claimed = 700;
  again.sampled = 1'000;
  again.gathered = 1'300;
  EXPECT_EQ(split_wait(300, 1'400, again), (WaitStages{.sampling = 700, .gather = 300, .handover = 100}));
}

TEST(SplitWait, TimesThatWereNeverWritten_LoseNothing) {
  EXPECT_EQ(split_wait(10, 40, SlotTimes{}), (WaitStages{.handover = 30}));
  EXPECT_EQ(split_wait(10, 40, SlotTimes{.sampled = 90, .gathered = 20}), (WaitStages{.sampling = 30}));
}

TEST(WaitText, NamesTheStageThatBindsFirst) {
  EXPECT_EQ(to_text({.for_sampling = 0.12, .for_gather = 0.03, .for_slot = 0.4}),
            "waiting for sampling 12%, for gather 3%; the workers waited for a free slot 40%");
  EXPECT_EQ(to_text({.for_sampling = 0.03,
                     .for_gather = 0.3,
                     .for_handover = 0.01,
                     .for_slot = 0.02,
                     .for_memory = 0.2}),
            "waiting for gather 30%, for sampling 3%, for the handover 1%; "
            "the workers waited for memory 20%, for a free slot 2%");
  EXPECT_EQ(to_text({.for_sampling = 0.004}), "no waiting for batches");
}

TEST(WaitText, WithoutWorkers_SpeaksOfNone) {
  EXPECT_EQ(own_work_text({.for_sampling = 0.21, .for_gather = 0.3, .for_handover = 0.1, .for_slot = 0.4}),
            "next() made the batches here: gather 30%, sampling 21%, the rest of it 10%");
  EXPECT_EQ(own_work_text({}), "next() made the batches here, in no time");
}

TEST(WaitTimes, SharesAreOfTheTrainersTimeAndOfAllWorkers) {
  const WaitTimes before{.for_sampling = 1, .for_slot = 10};
  const WaitTimes after{
      .for_sampling = 2, .for_gather = 0.5, .for_handover = 0.1, .for_slot = 18, .for_memory = 2};
  const WaitTimes shares = (after - before).shares_of(10, 20);
  EXPECT_DOUBLE_EQ(shares.for_sampling, 0.1);
  EXPECT_DOUBLE_EQ(shares.for_gather, 0.05);
  EXPECT_DOUBLE_EQ(shares.for_handover, 0.01);
  EXPECT_DOUBLE_EQ(shares.trainer(), 0.16);
  EXPECT_DOUBLE_EQ(shares.for_slot, 0.4);
  EXPECT_DOUBLE_EQ(shares.for_memory, 0.1);
  EXPECT_DOUBLE_EQ(after.shares_of(0, 0).for_sampling, 0) << "an epoch without time has no shares";
}

TEST(WaitTimes, AWorkerThatStillWaits_IsCountedUpToNow) {
  const ChannelShape shape{.num_slots = 1, .num_workers = 2, .slot_stride = kPageBytes};
  const auto memory = make_heap_memory(ChannelView::bytes_needed(shape));
  const ChannelView view = ChannelView::format(*memory, shape);
  view.worker(0).waited_for_slot = 2'000'000'000;
  view.worker(1).waited_for_slot = 1'000'000'000;
  view.worker(1).waiting_since = monotonic_now() - 5'000'000'000;
  view.worker(1).waited_for_grant = 500'000'000;
  view.control().loader.waited_for_gather = 250'000'000;
  const WaitTimes waits = wait_times(view);
  EXPECT_GE(waits.for_slot, 8);
  EXPECT_LT(waits.for_slot, 100);
  EXPECT_DOUBLE_EQ(waits.for_memory, 0.5);
  EXPECT_DOUBLE_EQ(waits.for_gather, 0.25);
  EXPECT_DOUBLE_EQ(waits.for_sampling, 0);
}

}  // namespace
}  // namespace hopfeed
