// Tells waits as a channel knows them: from the times of its slots (slot_layout.h) and the sums of its
// records.
#pragma once
#include <cstdint>

#include "channel/channel_view.h"
#include "core/batch/wait_times.h"

namespace hopfeed {

/// WaitStages is one wait of next(), nanoseconds by stage.
struct WaitStages {
  std::int64_t sampling = 0, gather = 0, handover = 0;
  friend bool operator==(const WaitStages&, const WaitStages&) = default;
};
/// Returns how a wait from `begin` to `end` falls on the stages of the batch that it ended with: what lies
/// before times.sampled is sampling, from there to times.gathered gather, the rest handover. Whatever the
/// times are, no part is negative and their sum is end - begin.
WaitStages split_wait(std::int64_t begin, std::int64_t end, const SlotTimes& times);

/// Returns the waits of a loader and its workers so far, running ones of the workers included.
WaitTimes wait_times(const ChannelView& view);
/// Returns where all workers read the rows of their batches so far.
TierCounts tiers_of(const ChannelView& view);

}  // namespace hopfeed
