// SlotFillers fill the slots of a channel: one contract for all kinds of fillers. Supervisor has processes; a
// test has threads. Every kind passes tests/worker_mode/slot_fillers_test.cc:
//   - it fills whatever is planned, each filler under a name that a SlotKeeper gave it, and reports ready in
//     its record once it can,
//   - the death of one, at whatever step, costs time alone: the keeper buries it, and another takes its
//   place,
//   - its end leaves no filler behind; what was planned and not filled stays so.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "stream/channel_host.h"

namespace hopfeed {

/// Fillers start with its construction.
class SlotFillers {
 public:
  SlotFillers() = default;
  /// Ends all fillers, asked first.
  virtual ~SlotFillers() = default;
  SlotFillers(const SlotFillers&) = delete;
  SlotFillers& operator=(const SlotFillers&) = delete;

  /// Waits until each filler is ready. Throws why the channel has failed, or kTimeout. Any thread.
  virtual void wait_until_ready() = 0;
  /// Returns the processes that the fillers are; none where they are none. Any thread.
  virtual std::vector<int> pids() const = 0;
};

/// Waits until every worker record of the channel says that its filler is ready, at most `limit`. Returns the
/// number of the first that is not. Throws why the channel has failed. Any thread.
std::optional<std::uint32_t> await_ready(const ChannelHost& host, std::chrono::milliseconds limit);

}  // namespace hopfeed
