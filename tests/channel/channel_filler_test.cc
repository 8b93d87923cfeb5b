// What fillers that are no single-minded processes rely on, over every kind of channel memory: batches taken
// in any order and planned from a queue, several claims under one name, several names in one process, and
// bells. Part of the conformance suite.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "channel/batch_plan.h"
#include "tests/channel/conformance_fixture.h"

namespace hopfeed {
namespace {

constexpr ChannelShape kFillersShape{.num_slots = 3, .num_workers = 2, .slot_stride = 8 * kPageBytes};
constexpr SlotPoolOptions kFillersPool{.channel_size = 24 * kPageBytes, .allowance = 8 * kPageBytes};

class FilledChannel : public Channel {};

// ---- any order

TEST_P(FilledChannel, OvertakenBatch_IsFoundBesideOnesManySequencesLater) {
  open(kFillersShape, kFillersPool);
  WorkerPort worker = port();
  ASSERT_TRUE(pool_->plan(batch(0)));
  fill(worker, 100, 1);
  for (std::uint64_t sequence = 1; sequence < 10; ++sequence) {  // through the other slots, past batch 0
    ASSERT_TRUE(pool_->plan(batch(sequence)));
    fill(worker, 100, static_cast<int>(sequence) + 1);
    const auto finished = pool_->find_ready(sequence);
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->sequence, sequence);
    pool_->take(finished->slot);
    pool_->release(finished->slot);
    EXPECT_FALSE(pool_->find_ready(sequence)) << "taken";
  }
  const auto overtaken = pool_->find_ready(0);
  ASSERT_TRUE(overtaken);
  EXPECT_EQ(overtaken->block[99], std::byte{1});
}

TEST_P(FilledChannel, AnyReady_IsTheLowestOfThose) {
  open(kFillersShape, kFillersPool);
  WorkerPort a = port(0), b = port(1);
  for (std::uint64_t sequence : {5, 6, 7}) pool_->plan(batch(sequence));
  EXPECT_FALSE(pool_->find_any_ready());
  Claim slow = claim(a);
  for (int i = 0; i < 2; ++i) fill(b, 100, 1);
  std::vector<std::uint64_t> taken;
  while (const auto finished = pool_->find_any_ready()) {
    pool_->take(finished->slot);
    taken.push_back(finished->sequence);
  }
  EXPECT_EQ(taken, (std::vector<std::uint64_t>{6, 7}));
  EXPECT_EQ(slow.batch.sequence, 5U);
}

TEST_P(FilledChannel, WhoWaitsForOneBatchWhileOthersLieReady_IsToldOfTheirMemory) {
  open(kFillersShape, {.channel_size = kPageBytes, .allowance = 8 * kPageBytes});
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) pool_->plan(batch(sequence));
  fill(worker, 8 * kPageBytes, 1);
  Claim mine = claim(worker);
  worker.ask(mine, 8 * kPageBytes);
  pool_->serve_grants();
  const auto stuck = pool_->stuck(1);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->held, 0U);
  EXPECT_EQ(stuck->ready, 8 * kPageBytes);
}

TEST_P(FilledChannel, OneBatchAbandoned_TheOthersStay) {
  open(kFillersShape, kFillersPool);
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  fill(worker, 100, 1);
  Claim filling = claim(worker);
  pool_->abandon(9);  // nobody's
  pool_->abandon(0);  // READY
  EXPECT_FALSE(pool_->find_any_ready());
  pool_->abandon(1);  // FILLING
  EXPECT_EQ(worker.grant(filling, 100), WorkerPort::Grant::kAbandoned);
  EXPECT_TRUE(worker.publish(filling, 0));
  pool_->sweep();
  EXPECT_EQ(pool_->free_order().size(), 2U);
  EXPECT_EQ(claim(worker).batch.sequence, 2U);
}

// ---- a queue

TEST_P(FilledChannel, RequestsOfAQueue_ArePlannedAsTheyWerePushed) {
  open(kFillersShape, kFillersPool);
  QueuePlan queue(40);
  EXPECT_EQ(pool_->plan_from(queue), 0U);
  EXPECT_EQ(queue.push({.epoch = 7, .first = 900, .count = 3, .job = 2}), 40U);
  EXPECT_EQ(queue.push({.epoch = 0, .first = 5, .count = 1, .job = 0}), 41U);
  EXPECT_EQ(queue.push({.epoch = 7, .first = 5, .count = 9, .job = 1}), 42U);
  EXPECT_EQ(queue.push({.epoch = 8, .first = 0, .count = 9, .job = 1}), 43U);
  EXPECT_TRUE(queue.withdraw(41));
  EXPECT_FALSE(queue.withdraw(41));
  EXPECT_EQ(queue.push({.epoch = 9, .first = 0, .count = 9, .job = 1}), 44U);
  EXPECT_EQ(queue.left(), 4);
  EXPECT_EQ(pool_->plan_from(queue), 3U) << "a slot each";
  EXPECT_EQ(queue.left(), 1);
  EXPECT_FALSE(queue.withdraw(40)) << "it is planned";
  WorkerPort worker = port();
  EXPECT_EQ(claim(worker).batch,
            (PlannedBatch{.sequence = 40, .epoch = 7, .first = 900, .count = 3, .job = 2}));
  EXPECT_EQ(claim(worker).batch,
            (PlannedBatch{.sequence = 42, .epoch = 7, .first = 5, .count = 9, .job = 1}));
}

// ---- several claims, several names

TEST_P(FilledChannel, DeathOfAFillerWithSeveralClaims_GivesAllOfThemBack) {
  open(kFillersShape, kFillersPool);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  WorkerPort dead = port(0), other = port(1);  // both of this process
  Claim first = claim(dead), kept = claim(other), second = claim(dead);
  dead.ask(second, 100);
  pool_->serve_grants();
  EXPECT_EQ(dead.grant(second, 100), WorkerPort::Grant::kGranted);
  dead.ask(first, kPageBytes + 1);
  EXPECT_EQ(dead.grant(first, kPageBytes + 1), WorkerPort::Grant::kWaiting) << "each claim has its own grant";
  EXPECT_EQ(pool_->filling().size(), 3U);
  EXPECT_EQ(pool_->reclaim(1), 2);
  EXPECT_EQ(state(first.slot), SlotState::kPlanned);
  EXPECT_EQ(state(second.slot), SlotState::kPlanned);
  EXPECT_EQ(state(kept.slot), SlotState::kFilling);
  EXPECT_FALSE(dead.publish(second, 100));
  EXPECT_EQ(claim(other).batch, first.batch);
}

TEST_P(FilledChannel, ClaimsOfOneFiller_ArePublishedInAnyOrderAndWaitForThemselves) {
  open(kFillersShape, kFillersPool);
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) pool_->plan(batch(sequence));
  WorkerPort worker = port();
  Claim low = *worker.try_claim(), high = *worker.try_claim();
  EXPECT_FALSE(worker.try_claim());
  worker.ask(low, 100);
  EXPECT_EQ(worker.grant(low, 100), WorkerPort::Grant::kWaiting);
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(low, 100), WorkerPort::Grant::kGranted);
  EXPECT_GT(view_->worker(0).waited_for_grant.load(), 0);
  EXPECT_EQ(low.waiting_since, 0);
  EXPECT_EQ(high.waiting_since, 0) << "it did not ask";
  EXPECT_TRUE(worker.publish_error(high, ErrorCode::kIo, "no"));
  EXPECT_TRUE(worker.publish(low, 100));
  EXPECT_EQ(pool_->find_any_ready()->sequence, 0U);
}

// ---- bells

TEST_P(FilledChannel, FillersBell_IsRungOnPlanGrantAndAbandonWhileSomebodyListens) {
  open(kFillersShape, kFillersPool);
  SharedEvent& event = view_->control().work_event;
  WorkerPort worker = port();
  pool_->plan(batch(0));
  EXPECT_FALSE(rang(fillers_bell_)) << "nobody listens";
  Claim mine = claim(worker);
  event.listen();
  EXPECT_FALSE(rang(fillers_bell_)) << "what was before is to be looked for";
  pool_->plan(batch(1));
  EXPECT_TRUE(rang(fillers_bell_));
  worker.ask(mine, 100);
  EXPECT_FALSE(rang(fillers_bell_));
  pool_->serve_grants();
  EXPECT_TRUE(rang(fillers_bell_)) << "granted";
  pool_->reclaim(1);
  EXPECT_TRUE(rang(fillers_bell_)) << "planned again";
  pool_->abandon();
  EXPECT_FALSE(rang(fillers_bell_)) << "nobody fills any of it";
  pool_->plan(batch(2));
  mine = claim(worker);
  EXPECT_TRUE(rang(fillers_bell_));
  pool_->abandon(2);
  EXPECT_TRUE(rang(fillers_bell_)) << "abandoned under the filler's hands";
  EXPECT_TRUE(worker.publish(mine, 0));
  event.stop_listening();
  pool_->plan(batch(3));
  EXPECT_FALSE(rang(fillers_bell_));
}

TEST_P(FilledChannel, PlannersBell_IsRungOnAsksAndOnFinishedBatchesWhileSomebodyListens) {
  open(kFillersShape, kFillersPool);
  SharedEvent& event = view_->control().loader_event;
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  Claim first = claim(worker);
  worker.ask(first, 100);
  EXPECT_TRUE(rang(planner_bell_)) << "always: somebody keeps the slots";
  pool_->serve_grants();
  worker.publish(first, 100);
  EXPECT_FALSE(rang(planner_bell_)) << "nobody listens";
  event.listen();
  Claim second = claim(worker);
  EXPECT_FALSE(rang(planner_bell_));
  worker.publish_error(second, ErrorCode::kIo, "no");
  EXPECT_TRUE(rang(planner_bell_));
  worker.publish(claim(worker), 0);
  EXPECT_TRUE(rang(planner_bell_)) << "as long as it listens";
  pool_->reclaim(1);
  EXPECT_TRUE(rang(planner_bell_)) << "a filler that died may have finished a batch and told nobody";
}

// ---- awake or asleep

/// Runs `work` in a thread that stays on this core.
template <class Work>
void run_on(int core, Work work) {
  std::thread([&] {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0);
    work();
  }).join();
}

TEST(SharedEvent, WhoWouldKeepTheCoreFromWhomItAwaits_DoesNotStayAwake) {
  SharedEvent event{};
  const int core = sched_getcpu();
  run_on(core, [&] { event.bump(); });
  const auto begin = std::chrono::steady_clock::now();
  run_on(core, [&] { EXPECT_FALSE(event.moves_within(event.load(), std::chrono::minutes(1))); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50)) << "it stayed awake";
  run_on(core, [&] { EXPECT_TRUE(event.moves_within(event.load() - 1, std::chrono::minutes(1))); });
}

TEST(SharedEvent, WhoAwaitsAnotherCore_StaysAwakeForIt) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  SharedEvent event{};
  run_on(cores[0], [&] { event.bump(); });
  const std::uint32_t seen = event.load();
  std::atomic<bool> looks{false};
  std::thread other([&] {
    run_on(cores[0], [&] {
      while (!looks) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      event.bump();
    });
  });
  run_on(cores[1], [&] {
    looks = true;
    EXPECT_TRUE(event.moves_within(seen, std::chrono::hours(1)));
  });
  other.join();
}

INSTANTIATE_TEST_SUITE_P(Memory, FilledChannel, kMechanisms, name_of);

}  // namespace
}  // namespace hopfeed
