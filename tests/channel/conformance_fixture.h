// The channel's conformance tests share this: the mechanisms that they run over, and a channel of the shape
// that a test wants.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "channel/bell.h"
#include "channel/channel_view.h"
#include "channel/memory.h"
#include "channel/slot_pool.h"
#include "channel/worker_port.h"
#include "gpu/batches/shared_slots_on.h"
#include "gpu/device/host_backend.h"
#include "tests/support/watchdog.h"

namespace hopfeed {

struct Mechanism {
  const char* name;
  std::unique_ptr<ChannelMemory> (*make)(std::size_t);
};
inline void PrintTo(const Mechanism& mechanism, std::ostream* out) { *out << mechanism.name; }

class Channel : public testing::WatchedTestWithParam<Mechanism> {
 protected:
  void open(ChannelShape shape, SlotPoolOptions options) {
    memory_ = GetParam().make(ChannelView::bytes_needed(shape));
    view_.emplace(ChannelView::format(*memory_, shape));
    pool_.emplace(*memory_, *view_, options,
                  ChannelBells{.fillers = fillers_bell_.fd(), .planner = planner_bell_.fd()});
    for (std::uint32_t w = 0; w < shape.num_workers; ++w) view_->worker(w).incarnation = w + 1;
  }
  WorkerPort port(std::uint32_t worker = 0) { return WorkerPort(*view_, worker, planner_bell_.fd()); }
  SlotState state(std::uint32_t slot) const { return SlotWord::unpack(view_->slot(slot).word.load()).state; }
  std::uint32_t generation(std::uint32_t slot) const {
    return SlotWord::unpack(view_->slot(slot).word.load()).generation;
  }
  static PlannedBatch batch(std::uint64_t sequence) {
    return {.sequence = sequence, .epoch = 2, .first = static_cast<std::int64_t>(sequence) * 10, .count = 10};
  }
  Claim claim(WorkerPort& port) {
    std::optional<Claim> claim = port.claim(std::chrono::nanoseconds(0));
    EXPECT_TRUE(claim);
    return claim.value_or(Claim{});
  }
  /// Lives a whole life of a block: claims, asks, is granted, fills with `value`, publishes.
  Claim fill(WorkerPort& port, std::size_t bytes, int value) {
    Claim mine = claim(port);
    port.ask(mine, bytes);
    pool_->serve_grants();
    EXPECT_EQ(port.grant(mine, bytes), WorkerPort::Grant::kGranted);
    std::memset(port.block(mine, bytes).data(), value, bytes);
    EXPECT_TRUE(port.publish(mine, bytes));
    return mine;
  }

  /// Returns whether a bell was rung since it was looked at last.
  static bool rang(const Bell& bell) {
    pollfd poller{.fd = bell.fd(), .events = POLLIN, .revents = 0};
    const bool readable = poll(&poller, 1, 0) == 1;
    bell.drain();
    return readable;
  }

  Bell fillers_bell_, planner_bell_;
  std::unique_ptr<ChannelMemory> memory_;
  std::optional<ChannelView> view_;
  std::optional<SlotPool> pool_;
};

/// Returns a twin of a device whose memory other processes can import.
inline std::unique_ptr<ChannelMemory> make_device_memory(std::size_t size) {
  return std::make_unique<gpu::SharedSlotsOn<gpu::SerialBackend>>(make_shared_memory(size),
                                                                  gpu::SerialBackend::Options{});
}

inline const auto kMechanisms =
    ::testing::Values(Mechanism{"Heap", make_heap_memory}, Mechanism{"Memfd", make_shared_memory},
                      Mechanism{"Device", make_device_memory});
inline std::string name_of(const ::testing::TestParamInfo<Mechanism>& info) { return info.param.name; }

}  // namespace hopfeed
