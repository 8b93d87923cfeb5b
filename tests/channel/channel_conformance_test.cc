// What every kind of channel memory has to do, step by step: one suite, run over heap memory (where
// ThreadSanitizer sees each access) and over a sealed memfd. channel_crowd_test.cc has everything at once.
#include <unistd.h>

#include <string>

#include "core/base/error.h"
#include "tests/channel/conformance_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

constexpr ChannelShape kSmall{.num_slots = 3, .num_workers = 2, .slot_stride = 8 * kPageBytes};
constexpr SlotPoolOptions kRoomy{.channel_size = 24 * kPageBytes, .allowance = 8 * kPageBytes};

// ---- memory

TEST_P(Channel, PunchedMemoryReadsAsZerosAndIsNotCounted) {
  memory_ = GetParam().make(64 * kPageBytes);
  EXPECT_EQ(memory_->allocated(), 0U);
  memory_->reserve(kPageBytes, 8 * kPageBytes);
  EXPECT_EQ(memory_->allocated(), 8 * kPageBytes);
  std::memset(memory_->data() + kPageBytes, 7, 8 * kPageBytes);
  memory_->reserve(kPageBytes, 9 * kPageBytes);  // keeps what is there
  EXPECT_EQ(memory_->data()[kPageBytes], std::byte{7});
  memory_->punch(2 * kPageBytes, 8 * kPageBytes);
  EXPECT_EQ(memory_->allocated(), kPageBytes);
  EXPECT_EQ(memory_->data()[kPageBytes], std::byte{7});
  EXPECT_EQ(memory_->data()[2 * kPageBytes], std::byte{0});
}

TEST_P(Channel, FormattedChannel_IsOpenedWithTheSameShape) {
  open(kSmall, kRoomy);
  const ChannelView other = ChannelView::open(*memory_);
  EXPECT_EQ(other.shape().num_slots, 3U);
  EXPECT_EQ(other.shape().num_workers, 2U);
  EXPECT_EQ(other.shape().slot_stride, 8 * kPageBytes);
}

// F9
TEST_P(Channel, HalfMadeWrongVersionOrWrongSize_IsAnErrorAtOnce) {
  open(kSmall, kRoomy);
  auto code_of_open = [&] {
    try {
      ChannelView::open(*memory_);
      return std::string("opened");
    } catch (const Error& error) {
      return std::string(to_string(error.code()));
    }
  };
  ControlBlock& control = view_->control();
  EXPECT_EQ(code_of_open(), "opened");
  control.magic = 0;
  EXPECT_EQ(code_of_open(), "corrupt");
  control.magic = kChannelMagic;
  control.version = kChannelVersion + 1;
  EXPECT_EQ(code_of_open(), "version");
  control.version = kChannelVersion;
  for (std::uint32_t slots : {0U, 4U, 1'025U, 0xFFFFFFFFU}) {
    control.num_slots = slots;
    EXPECT_EQ(code_of_open(), "corrupt") << slots;
  }
  control.num_slots = 3;
  for (std::uint64_t stride :
       {std::uint64_t{0}, std::uint64_t{1}, 9 * std::uint64_t{kPageBytes}, ~std::uint64_t{0} - 4095}) {
    control.slot_stride = stride;
    EXPECT_EQ(code_of_open(), "corrupt") << stride;
  }
  control.slot_stride = kSmall.slot_stride;
  control.total_bytes += kPageBytes;
  EXPECT_EQ(code_of_open(), "corrupt");
  const std::unique_ptr<ChannelMemory> tiny = GetParam().make(64);
  std::memset(tiny->data(), 0, 64);
  EXPECT_THROW(ChannelView::open(*tiny), Error);
}

// ---- claims

TEST_P(Channel, LowestSequence_IsClaimedFirst) {
  open(kSmall, kRoomy);
  for (std::uint64_t sequence : {7, 5, 6}) ASSERT_TRUE(pool_->plan(batch(sequence)));
  EXPECT_FALSE(pool_->plan(batch(8))) << "every slot is planned";
  WorkerPort worker = port();
  for (std::uint64_t sequence : {5, 6, 7}) {
    Claim mine = claim(worker);
    EXPECT_EQ(mine.batch, batch(sequence));
    EXPECT_EQ(SlotWord::unpack(view_->slot(mine.slot).word.load()).owner, 1U);
  }
  EXPECT_FALSE(worker.claim(1ms));
}

TEST_P(Channel, OfTwoThatFoundTheSameSlot_OneTakesIt) {
  open(kSmall, kRoomy);
  pool_->plan(batch(0));
  WorkerPort first = port(0), second = port(1);
  const auto a = first.find_planned(), b = second.find_planned();
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(second.take(*b));
  EXPECT_FALSE(first.take(*a));
}

TEST_P(Channel, CandidateOfAnOldGeneration_IsNotTaken) {
  open({.num_slots = 1, .num_workers = 2, .slot_stride = kPageBytes}, kRoomy);
  pool_->plan(batch(0));
  WorkerPort worker = port();
  const auto stale = worker.find_planned();
  pool_->abandon();
  pool_->plan(batch(1));  // same slot, same state, another batch
  EXPECT_FALSE(worker.take(*stale));
  EXPECT_EQ(claim(worker).batch.sequence, 1U);
}

// ---- blocks

TEST_P(Channel, BlockIsViewedInItsSlotAndGivenBack) {
  open(kSmall, kRoomy);
  pool_->plan(batch(0));
  WorkerPort worker = port();
  Claim mine = fill(worker, 5'000, 0x5A);
  EXPECT_FALSE(pool_->find_ready(1));
  const auto finished = pool_->find_ready(0);
  ASSERT_TRUE(finished);
  pool_->take(finished->slot);
  EXPECT_EQ(finished->block.size(), 5'000U);
  EXPECT_EQ(finished->block.data(), view_->slot_bytes(mine.slot, 1).data());
  EXPECT_EQ(finished->block[4'999], std::byte{0x5A});
  EXPECT_EQ(state(mine.slot), SlotState::kHeld);
  EXPECT_EQ(pool_->num_held(), 1U);
  const SlotTimes& times = view_->slot(mine.slot).times;
  EXPECT_LE(times.planned, times.claimed);
  EXPECT_LE(times.claimed, times.published);
  EXPECT_LE(times.published, times.taken);
  pool_->release(finished->slot);
  EXPECT_EQ(state(mine.slot), SlotState::kFree);
}

TEST_P(Channel, AnnouncedBatch_IsKnownUntilItIsMadeAgain) {
  open({.num_slots = 2, .num_workers = 1, .slot_stride = 4096}, {.channel_size = 8192, .allowance = 0});
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) ASSERT_TRUE(pool_->plan(batch(sequence)));
  WorkerPort worker = port();
  Claim mine = claim(worker);
  EXPECT_FALSE(pool_->announced(0));
  const std::uint32_t events = view_->control().loader_event.load();
  worker.announce(mine);
  EXPECT_TRUE(pool_->announced(0));
  EXPECT_FALSE(pool_->announced(1));
  EXPECT_NE(view_->control().loader_event.load(), events) << "who waits for it is woken";
  EXPECT_FALSE(pool_->find_ready(0)) << "a hint, no promise";
  EXPECT_EQ(pool_->reclaim(1), 1);
  EXPECT_FALSE(pool_->announced(0));
}

TEST_P(Channel, SlotFreedLast_IsPlannedFirstAndKeepsItsMemory) {
  open(kSmall, kRoomy);
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  for (int i = 0; i < 3; ++i) fill(worker, 4 * kPageBytes, i);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->take(pool_->find_ready(sequence)->slot);
  for (std::uint32_t slot : {2U, 0U, 1U}) pool_->release(slot);
  EXPECT_EQ(pool_->granted(), 12 * kPageBytes);
  pool_->plan(batch(3));
  Claim mine = claim(worker);
  EXPECT_EQ(mine.slot, 1U);
  worker.ask(mine, 4 * kPageBytes);
  EXPECT_EQ(worker.grant(mine, 4 * kPageBytes), WorkerPort::Grant::kGranted)
      << "the loader need not be asked";
}

TEST_P(Channel, ErrorOfABatch_ComesInItsPlace) {
  open(kSmall, kRoomy);
  pool_->plan(batch(0));
  WorkerPort worker = port();
  Claim mine = claim(worker);
  EXPECT_TRUE(worker.publish_error(mine, ErrorCode::kCorrupt, std::string(5'000, 'x')));
  const auto finished = pool_->find_ready(0);
  ASSERT_TRUE(finished && finished->error);
  EXPECT_EQ(finished->error->code(), ErrorCode::kCorrupt);
  EXPECT_EQ(std::string(finished->error->what()), std::string(sizeof(SlotRecord::error) - 1, 'x'))
      << "cut, never overrun";
}

TEST_P(Channel, BlockLargerThanAnySlot_IsRefused) {
  open(kSmall, kRoomy);
  pool_->plan(batch(0));
  WorkerPort worker = port();
  Claim mine = claim(worker);
  worker.ask(mine, kSmall.slot_stride);
  EXPECT_THROW(worker.ask(mine, kSmall.slot_stride + 1), Error);
}

// ---- deaths

TEST_P(Channel, DeadOwnersSlot_IsPlannedAgainWithTheSameBatch) {
  open(kSmall, kRoomy);
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) pool_->plan(batch(sequence));
  WorkerPort dead = port(0), other = port(1);
  Claim lost = claim(dead);
  dead.ask(lost, 3 * kPageBytes);
  pool_->serve_grants();
  std::memset(dead.block(lost, kPageBytes).data(), 0xEE, kPageBytes);
  Claim kept = claim(other);
  const std::uint32_t before = generation(lost.slot);
  EXPECT_EQ(pool_->reclaim(1), 1);
  EXPECT_EQ(state(lost.slot), SlotState::kPlanned);
  EXPECT_EQ(generation(lost.slot), before + 1);
  EXPECT_EQ(state(kept.slot), SlotState::kFilling) << "the living worker keeps its own";
  Claim again = claim(other);
  EXPECT_EQ(again.batch, lost.batch);
  EXPECT_FALSE(dead.publish(lost, kPageBytes)) << "whatever the dead worker left undone stays undone";
  EXPECT_EQ(pool_->reclaim(1), 0);
}

// F11
TEST_P(Channel, OwnerWordThatNamesAPid_IsNobodysSlot) {
  open(kSmall, kRoomy);
  pool_->plan(batch(0));
  WorkerPort worker = port();
  Claim mine = claim(worker);
  SlotWord forged = SlotWord::unpack(view_->slot(mine.slot).word.load());
  forged.owner = static_cast<std::uint32_t>(getpid());
  view_->slot(mine.slot).word.store(forged.pack());
  EXPECT_EQ(pool_->reclaim(1), 0);
  EXPECT_EQ(pool_->filling().at(0).owner, static_cast<std::uint32_t>(getpid()));
  EXPECT_FALSE(worker.publish(mine, 0));
}

// ---- leaving an epoch

TEST_P(Channel, EpochLeft_FreesPlannedAndReadyAtOnceAndFillingWhenItIsFinished) {
  open(kSmall, kRoomy);
  WorkerPort worker = port(), slow = port(1);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  Claim ready = fill(worker, 100, 1);
  Claim filling = claim(slow);
  pool_->abandon();
  EXPECT_EQ(state(ready.slot), SlotState::kFree);
  EXPECT_EQ(state(2), SlotState::kFree);
  EXPECT_EQ(state(filling.slot), SlotState::kFilling);
  EXPECT_EQ(slow.grant(filling, 100), WorkerPort::Grant::kAbandoned) << "it need not write";
  EXPECT_TRUE(slow.publish(filling, 0));
  EXPECT_FALSE(pool_->find_ready(1)) << "freed unseen";
  pool_->sweep();
  EXPECT_EQ(state(filling.slot), SlotState::kFree);
}

TEST_P(Channel, EpochLeftWhileABatchIsViewed_TheViewStays) {
  open(kSmall, kRoomy);
  WorkerPort worker = port();
  pool_->plan(batch(0));
  fill(worker, 100, 9);
  const auto finished = pool_->find_ready(0);
  pool_->take(finished->slot);
  pool_->abandon();
  EXPECT_EQ(state(finished->slot), SlotState::kHeld);
  EXPECT_EQ(finished->block[99], std::byte{9});
}

TEST_P(Channel, OwnerOfALeftBatchDies_ItsSlotIsFree) {
  open(kSmall, kRoomy);
  WorkerPort worker = port();
  pool_->plan(batch(0));
  Claim mine = claim(worker);
  pool_->abandon();
  EXPECT_EQ(pool_->reclaim(1), 0) << "nothing to make again";
  EXPECT_EQ(state(mine.slot), SlotState::kFree);
}

// ---- the bound

TEST_P(Channel, FullChannel_MakesTheOthersWaitButNotTheLowest) {
  open(kSmall, {.channel_size = 8 * kPageBytes, .allowance = 8 * kPageBytes});
  WorkerPort a = port(0), b = port(1);
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) pool_->plan(batch(sequence));
  Claim low = claim(a), high = claim(b);
  b.ask(high, 8 * kPageBytes);
  pool_->serve_grants();
  EXPECT_EQ(b.grant(high, 8 * kPageBytes), WorkerPort::Grant::kGranted) << "within channel_size";
  a.ask(low, 8 * kPageBytes);
  pool_->serve_grants();
  EXPECT_EQ(a.grant(low, 8 * kPageBytes), WorkerPort::Grant::kGranted) << "the allowance";
  EXPECT_EQ(pool_->granted(), 16 * kPageBytes);
  a.publish(low, 8 * kPageBytes);
  pool_->take(pool_->find_ready(0)->slot);
  pool_->release(low.slot);
  EXPECT_EQ(pool_->granted(), 8 * kPageBytes) << "beyond the bound a freed slot keeps nothing";
}

TEST_P(Channel, RoomIsMadeInTheSlotFreedLongestAgo) {
  open(kSmall, {.channel_size = 12 * kPageBytes, .allowance = 8 * kPageBytes});
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->plan(batch(sequence));
  for (int i = 0; i < 3; ++i) fill(worker, 4 * kPageBytes, 1);
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) pool_->take(pool_->find_ready(sequence)->slot);
  for (std::uint32_t slot : {1U, 2U, 0U}) pool_->release(slot);
  pool_->plan(batch(3));  // slot 0
  Claim mine = claim(worker);
  worker.ask(mine, 6 * kPageBytes);
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(mine, 6 * kPageBytes), WorkerPort::Grant::kGranted);
  EXPECT_EQ(view_->slot(1).granted.load(), 0U);
  EXPECT_EQ(view_->slot(2).granted.load(), 4 * kPageBytes);
  EXPECT_LE(memory_->allocated(), ChannelView::fixed_bytes(kSmall) + 12 * kPageBytes);
}

TEST_P(Channel, CallerHoldsTheMemoryThatItsNextBatchNeeds_IsStuckAndSaysHowMuch) {
  open(kSmall, {.channel_size = kPageBytes, .allowance = 8 * kPageBytes});
  WorkerPort worker = port();
  for (std::uint64_t sequence = 0; sequence < 2; ++sequence) pool_->plan(batch(sequence));
  fill(worker, 8 * kPageBytes, 1);
  pool_->take(pool_->find_ready(0)->slot);
  Claim mine = claim(worker);
  worker.ask(mine, 8 * kPageBytes);
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(mine, 8 * kPageBytes), WorkerPort::Grant::kWaiting);
  const auto stuck = pool_->stuck(1);
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->held, 8 * kPageBytes);
  EXPECT_EQ(stuck->wanted, 8 * kPageBytes);
  pool_->release(0);
  EXPECT_FALSE(pool_->stuck(1));
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(mine, 8 * kPageBytes), WorkerPort::Grant::kGranted);
}

INSTANTIATE_TEST_SUITE_P(Memory, Channel, kMechanisms, name_of);

}  // namespace
}  // namespace hopfeed
