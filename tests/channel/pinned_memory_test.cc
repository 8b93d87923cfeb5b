// Slots that are pinned as they are granted: a slot is one pinned range, whatever it grows by.
#include "channel/pinned_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "core/base/error.h"

namespace hopfeed {
namespace {

constexpr std::size_t kBegin = 2 * kPageBytes, kStride = 8 * kPageBytes;

/// What a GPU's driver would know.
struct Pins {
  std::map<std::byte*, std::size_t> ranges;
  int refuse_from = 1 << 30, calls = 0;
  void pin(std::byte* at, std::size_t bytes) {
    if (++calls >= refuse_from) throw Error(ErrorCode::kIo, "no more pages can be locked");
    EXPECT_TRUE(ranges.emplace(at, bytes).second) << "pinned twice";
    for (const auto& [other, size] : ranges)
      EXPECT_TRUE(other == at || other + size <= at || at + bytes <= other) << "ranges overlap";
  }
  /// What each stream still does, and how often one was waited for; streams are numbers here.
  std::map<void*, bool> busy;
  int awaited = 0;
  struct Mark final : StreamMark {
    Mark(Pins& of, void* where) : pins(of), stream(where) {}
    bool done() const override { return !pins.busy[stream]; }
    void await() const override { ++pins.awaited; }
    Pins& pins;
    void* const stream;
  };
  Pinning pinning() {
    return {.pin = [this](std::byte* at, std::size_t bytes) { pin(at, bytes); },
            .unpin = [this](std::byte* at) { EXPECT_EQ(ranges.erase(at), 1U); },
            .mark = [this](GpuStream stream) { return std::make_unique<const Mark>(*this, stream.handle); },
            .slots_begin = kBegin,
            .slot_stride = kStride};
  }
};

TEST(PinnedMemory, SlotIsOneRange_WhateverItGrowsBy) {
  Pins pins;
  {
    PinnedMemory memory(make_heap_memory(kBegin + 3 * kStride), pins.pinning());
    memory.reserve(0, kPageBytes);
    EXPECT_TRUE(pins.ranges.empty()) << "records are not copied by a GPU";
    memory.reserve(kBegin, kPageBytes);
    memory.reserve(kBegin + kPageBytes, kStride - kPageBytes);
    memory.reserve(kBegin + kStride, kPageBytes);
    const std::map<std::byte*, std::size_t> wanted{{memory.data() + kBegin, kStride},
                                                   {memory.data() + kBegin + kStride, kPageBytes}};
    EXPECT_EQ(pins.ranges, wanted);
    EXPECT_EQ(memory.state().bytes, kStride + kPageBytes);
    memory.punch(kBegin, kStride);
    EXPECT_EQ(pins.ranges.size(), 1U);
    memory.reserve(kBegin, 2 * kPageBytes);
    EXPECT_EQ(pins.ranges.at(memory.data() + kBegin), 2 * kPageBytes);
  }
  EXPECT_TRUE(pins.ranges.empty()) << "nothing stays pinned";
}

TEST(PinnedMemory, SlotThatAStreamReads_IsIdleOnlyBehindIt_AndTheEndWaits) {
  Pins pins;
  int streams[2] = {};
  {
    PinnedMemory memory(make_heap_memory(kBegin + 3 * kStride), pins.pinning());
    memory.used_on(kBegin, {&streams[0]});
    EXPECT_TRUE(memory.idle(kBegin)) << "nothing is pinned: a copy is over when it returns";
    memory.reserve(kBegin, kPageBytes);
    memory.reserve(kBegin + kStride, kPageBytes);
    pins.busy = {{&streams[0], true}, {&streams[1], true}};
    for (int& stream : streams) memory.used_on(kBegin, {&stream});
    EXPECT_FALSE(memory.idle(kBegin));
    EXPECT_TRUE(memory.idle(kBegin + kStride)) << "nobody reads this one";
    pins.busy[&streams[0]] = false;
    EXPECT_FALSE(memory.idle(kBegin));
    pins.busy[&streams[1]] = false;
    EXPECT_TRUE(memory.idle(kBegin));
    pins.busy[&streams[1]] = true;
    EXPECT_TRUE(memory.idle(kBegin)) << "what it does now is for others";
    memory.used_on(kBegin, {&streams[1]});
    EXPECT_EQ(pins.awaited, 0);
  }
  EXPECT_EQ(pins.awaited, 1) << "before the pages are unlocked";
}

TEST(PinnedMemory, RefusalIsKept_AndMemoryComesAllTheSame) {
  Pins pins;
  pins.refuse_from = 2;
  PinnedMemory memory(make_heap_memory(kBegin + 3 * kStride), pins.pinning());
  memory.reserve(kBegin, kPageBytes);
  EXPECT_EQ(memory.state().refused, "");
  memory.reserve(kBegin + kStride, kPageBytes);
  EXPECT_EQ(memory.state().refused, "no more pages can be locked");
  memory.reserve(kBegin + 2 * kStride, kPageBytes);
  EXPECT_EQ(pins.calls, 2) << "it is not tried again";
  std::fill_n(memory.data() + kBegin + kStride, kPageBytes, std::byte{1});
  EXPECT_EQ(memory.state().bytes, kPageBytes);
  memory.punch(kBegin + kStride, kPageBytes);
  memory.punch(kBegin, kPageBytes);
  EXPECT_TRUE(pins.ranges.empty());
}

// A slot that grows while the system refuses: what was pinned of it is not any more, and nothing is lost.
TEST(PinnedMemory, GrowthThatIsRefused_LeavesTheSlotUnpinned) {
  Pins pins;
  pins.refuse_from = 2;
  PinnedMemory memory(make_heap_memory(kBegin + kStride), pins.pinning());
  memory.reserve(kBegin, kPageBytes);
  memory.data()[kBegin] = std::byte{7};
  memory.reserve(kBegin + kPageBytes, kPageBytes);
  EXPECT_TRUE(pins.ranges.empty());
  EXPECT_EQ(memory.data()[kBegin], std::byte{7});
  EXPECT_EQ(memory.state().bytes, 0U);
}

}  // namespace
}  // namespace hopfeed
