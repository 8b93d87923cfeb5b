// F36: all interleavings of a small pool (slot_model.h). In each of them
//   - a word has changed only as the table says (slot_transitions.h),
//   - every batch that is asked for and not taken is in the queue or in exactly one slot,
//   - the memory granted is within channel_size + allowance,
//   - a trainer that holds nothing, and has nothing to take, is never told that its batch cannot have memory,
//   - what is taken is the batch of its name, whole,
//   - and something can happen until all batches are taken: nothing deadlocks, and nobody sleeps for ever.
#include "tests/channel/slot_model.h"

#include <gtest/gtest.h>

#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

class SlotModel : public testing::WatchedTest<300> {
 protected:
  void explore(const ModelOptions& options) {
    SlotModelExplorer model(options);
    model.explore();
    RecordProperty("states", std::to_string(model.states()));
    std::printf("%zu states\n", model.states());
    EXPECT_EQ(model.deadlock(), "");
    EXPECT_GT(model.states(), 1'000U);  // it did explore
    EXPECT_GT(model.ends(), 0U);
  }
};

TEST_F(SlotModel, TwoDeathsAtAnyTwoSteps_EveryBatchArrivesOnce) {
  explore({.slots = 2, .workers = 2, .pages = {1, 3, 2, 4}, .crashes = 2});
}

TEST_F(SlotModel, MemoryForLessThanOneBatch_StillFinishes) {
  explore({.slots = 3, .workers = 2, .pages = {4, 4, 3, 4, 1}, .channel_pages = 1, .crashes = 1});
}

TEST_F(SlotModel, EpochLeftAtAnyStepBesideADeath_NextEpochIsWhole) {
  explore({.slots = 2, .workers = 2, .pages = {2, 4, 3}, .crashes = 1, .leave_after = 0});
}

TEST_F(SlotModel, TrainerHoldsTwoBatches_NothingDeadlocks) {
  explore({.slots = 3, .workers = 2, .pages = {2, 4, 3, 4}, .channel_pages = 5, .crashes = 1, .hold = 2});
}

TEST_F(SlotModel, OneSlotAndThreeWorkers_TakeTurns) {
  explore({.slots = 1, .workers = 3, .pages = {1, 2, 4}, .crashes = 2});
}

TEST_F(SlotModel, TakenInAnyOrder_EveryBatchArrivesOnce) {
  explore(
      {.slots = 3, .workers = 2, .pages = {4, 1, 3, 4}, .channel_pages = 2, .crashes = 1, .any_order = true});
}

TEST_F(SlotModel, RequestsComeAtAnyMomentAndOneIsWithdrawn_TheOthersArriveOnce) {
  explore({.slots = 2, .workers = 2, .pages = {2, 4, 3}, .crashes = 1, .any_order = true, .queue = true});
}

TEST_F(SlotModel, FillerWithTwoClaimsDies_BothGoBack) {
  explore({.slots = 3, .workers = 1, .pages = {2, 4, 3, 1}, .crashes = 2, .claims = 2});
  explore({.slots = 2, .workers = 2, .pages = {4, 3, 2}, .channel_pages = 1, .crashes = 1, .claims = 2});
}

TEST_F(SlotModel, FillerAndPlannerSleepOnTheirBells_NoWakeUpIsLost) {
  const ModelOptions loops{.workers = 1, .channel_pages = 1, .claims = 2, .any_order = true, .bells = true};
  ModelOptions deaths = loops, requests = loops, epochs = loops;
  deaths.pages = {3, 2, 4};
  deaths.crashes = 1;
  explore(deaths);
  requests.pages = {4, 1};
  requests.crashes = 1;
  requests.queue = true;
  explore(requests);
  epochs.pages = {4, 1};
  epochs.leave_after = 1;
  explore(epochs);
}

TEST_F(SlotModel, FillerThatLooksBeforeItListens_SleepsForEver) {
  SlotModelExplorer model({.slots = 2,
                           .workers = 1,
                           .pages = {3, 2, 4},
                           .any_order = true,
                           .bells = true,
                           .looks_before_listening = true});
  model.explore();
  EXPECT_NE(model.deadlock(), "");
}

}  // namespace
}  // namespace hopfeed
