// Slots that are released while a device still reads them: nobody's until it does not.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/channel/conformance_fixture.h"

namespace hopfeed {
namespace {

/// Memory whose device reads some slots.
class ReadByADevice final : public ChannelMemory, public DeviceSide {
 public:
  explicit ReadByADevice(std::size_t size) : host_(make_heap_memory(size)) {
    data_ = host_->data();
    size_ = host_->size();
  }
  void reserve(std::size_t offset, std::size_t bytes) override { host_->reserve(offset, bytes); }
  void punch(std::size_t offset, std::size_t bytes) override {
    EXPECT_FALSE(busy.contains(offset)) << "memory is taken from under the device";
    host_->punch(offset, bytes);
  }
  std::size_t allocated() const override { return host_->allocated(); }
  DeviceSide* device_side() override { return this; }
  std::byte* data() const override { return data_; }
  int device() const override { return 0; }
  void read(std::size_t offset, std::size_t bytes, std::byte* to) override {
    std::memcpy(to, data_ + offset, bytes);
  }
  void used_on(std::size_t offset, GpuStream /*stream*/) override { busy.insert(offset); }
  bool idle(std::size_t offset) override { return !busy.contains(offset); }

  std::set<std::size_t> busy;

 private:
  const std::unique_ptr<ChannelMemory> host_;
};

class LeavingSlots : public Channel {
 protected:
  static constexpr ChannelShape kShape{.num_slots = 2, .num_workers = 1, .slot_stride = 2 * kPageBytes};
  ReadByADevice& device() { return dynamic_cast<ReadByADevice&>(*memory_); }
  /// The batch in `slot` was taken, a stream of the device reads it, and its last view is gone.
  void take_and_release(std::uint32_t slot) {
    pool_->take(slot);
    device().used_on(view_->slot_offset(slot), {});
    pool_->release(slot);
  }
};

TEST_P(LeavingSlots, ReleasedSlotThatTheDeviceReads_IsFreedByTheSweepAfterwards) {
  open(kShape, {.channel_size = 4 * kPageBytes, .allowance = 0});
  WorkerPort worker = port();
  pool_->plan(batch(0));
  const std::uint32_t slot = fill(worker, 100, 1).slot;
  rang(planner_bell_);
  take_and_release(slot);
  EXPECT_EQ(state(slot), SlotState::kHeld);
  EXPECT_EQ(pool_->num_held(), 0U) << "not by the caller";
  EXPECT_EQ(pool_->num_leaving(), 1U);
  EXPECT_TRUE(rang(planner_bell_));
  EXPECT_GT(view_->slot(slot).times.released, 0);
  EXPECT_TRUE(pool_->plan(batch(1))) << "in the other slot";
  EXPECT_FALSE(pool_->plan(batch(2)));
  pool_->abandon();
  pool_->sweep();
  EXPECT_EQ(state(slot), SlotState::kHeld);
  device().busy.clear();
  pool_->sweep();
  EXPECT_EQ(state(slot), SlotState::kFree);
  EXPECT_EQ(pool_->num_leaving(), 0U);
  EXPECT_TRUE(pool_->plan(batch(3)));
  EXPECT_TRUE(pool_->plan(batch(4)));
}

TEST_P(LeavingSlots, MemoryOfASlotThatLeaves_IsWaitedFor_NobodyIsStuck) {
  open(kShape, {.channel_size = kPageBytes, .allowance = 0});
  WorkerPort worker = port();
  pool_->plan(batch(0));
  const std::uint32_t slot = fill(worker, 100, 1).slot;
  take_and_release(slot);
  pool_->plan(batch(1));
  Claim next = claim(worker);
  worker.ask(next, 100);
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(next, 100), WorkerPort::Grant::kWaiting);
  EXPECT_FALSE(pool_->stuck(1)) << "its memory comes back";
  device().busy.clear();
  pool_->sweep();
  pool_->serve_grants();
  EXPECT_EQ(worker.grant(next, 100), WorkerPort::Grant::kGranted);
}

INSTANTIATE_TEST_SUITE_P(Memories, LeavingSlots,
                         ::testing::Values(Mechanism{"ReadByADevice",
                                                     [](std::size_t size) -> std::unique_ptr<ChannelMemory> {
                                                       return std::make_unique<ReadByADevice>(size);
                                                     }}),
                         name_of);

}  // namespace
}  // namespace hopfeed
