// Which memory a batch gets, and in which steps: small batches beside large ones.
#include <gtest/gtest.h>

#include "tests/channel/conformance_fixture.h"

namespace hopfeed {
namespace {

constexpr std::size_t kPages = 16;

class SlotMemory : public Channel {
 protected:
  static constexpr ChannelShape kShape{.num_slots = 3, .num_workers = 2, .slot_stride = kPages * kPageBytes};
  static PlannedBatch expecting(std::uint64_t sequence, std::size_t bytes) {
    PlannedBatch planned = batch(sequence);
    planned.expected_bytes = bytes;
    return planned;
  }
  /// A batch of so many bytes has been in a slot, which is free again.
  std::uint32_t leave(WorkerPort& worker, std::uint64_t sequence, std::size_t bytes) {
    pool_->plan(expecting(sequence, bytes));
    const std::uint32_t slot = fill(worker, bytes, 1).slot;
    pool_->take(slot);
    pool_->release(slot);
    return slot;
  }
  std::uint32_t slot_of_next(WorkerPort& worker, std::uint64_t sequence, std::size_t bytes) {
    pool_->plan(expecting(sequence, bytes));
    return claim(worker).slot;
  }
};

TEST_P(SlotMemory, SmallBatch_LeavesTheLargeSlotToALargeOne) {
  open(kShape, {.channel_size = 3 * kPages * kPageBytes, .allowance = 0});
  WorkerPort worker = port(), other = port(1);
  const std::uint32_t large = leave(worker, 0, kPages * kPageBytes);
  const std::uint32_t small = slot_of_next(worker, 1, 100);
  EXPECT_NE(small, large) << "though it was freed last";
  EXPECT_EQ(slot_of_next(other, 2, kPages * kPageBytes - 1), large);
}

TEST_P(SlotMemory, BatchLikeTheLastOne_GetsItsSlot) {
  open(kShape, {.channel_size = 3 * kPages * kPageBytes, .allowance = 0});
  WorkerPort worker = port();
  const std::uint32_t slot = leave(worker, 0, 4 * kPageBytes);
  EXPECT_EQ(leave(worker, 1, 3 * kPageBytes), slot);
  EXPECT_EQ(leave(worker, 2, 0), slot) << "nothing is known of it";
}

TEST_P(SlotMemory, LargeGrant_ComesInStepsWhichTheBellTells_AndASmallOneBehindItAtOnce) {
  open(kShape, {.channel_size = 3 * kPages * kPageBytes, .allowance = 0, .reserve_step = 4 * kPageBytes});
  WorkerPort worker = port(), other = port(1);
  pool_->plan(batch(0));
  pool_->plan(batch(1));
  Claim large = claim(worker), small = claim(other);
  worker.ask(large, kPages * kPageBytes);
  other.ask(small, 100);
  view_->control().loader_event.listen();
  rang(planner_bell_);
  pool_->serve_grants();
  EXPECT_EQ(other.grant(small, 100), WorkerPort::Grant::kGranted);
  EXPECT_EQ(worker.grant(large, kPages * kPageBytes), WorkerPort::Grant::kWaiting);
  int steps = 1;
  for (; rang(planner_bell_); ++steps) pool_->serve_grants();
  EXPECT_EQ(steps, static_cast<int>(kPages) / 4);
  EXPECT_EQ(worker.grant(large, kPages * kPageBytes), WorkerPort::Grant::kGranted);
}

TEST_P(SlotMemory, GrantUnderWay_KeepsItsRoom) {
  open(kShape, {.channel_size = 20 * kPageBytes, .allowance = 0, .reserve_step = 4 * kPageBytes});
  WorkerPort worker = port(), other = port(1);
  pool_->plan(batch(0));
  pool_->plan(batch(1));
  Claim first = claim(worker), second = claim(other);
  worker.ask(first, kPages * kPageBytes);
  other.ask(second, 8 * kPageBytes);
  for (int i = 0; i < 8; ++i) pool_->serve_grants();
  EXPECT_EQ(worker.grant(first, kPages * kPageBytes), WorkerPort::Grant::kGranted);
  EXPECT_EQ(other.grant(second, 8 * kPageBytes), WorkerPort::Grant::kWaiting);
  EXPECT_LE(pool_->granted(), 20 * kPageBytes);
}

INSTANTIATE_TEST_SUITE_P(Memory, SlotMemory, kMechanisms, name_of);

}  // namespace
}  // namespace hopfeed
