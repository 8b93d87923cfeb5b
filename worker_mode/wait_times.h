// Who waited for whom: how long a trainer waited for its next batch, told apart by the stage that the batch
// was in, and how long the workers waited for a place to put one. From the seven times of a slot
// (slot_layout.h).
#pragma once
#include <cstdint>
#include <string>

#include "channel/channel_view.h"

namespace hopfeed {

/// Seconds, or shares of a time.
struct WaitTimes {
  // The trainer's thread, in next():
  double for_sampling =
      0;                  // until the batch was sampled: planned, taken by a worker, made again after a death
  double for_gather = 0;  // from then until its block was written, the wait for memory included
  double for_handover = 0;  // from then until next() had it: published, seen, taken
  // The workers, summed over them:
  double for_slot = 0;    // batches were left to plan, and no slot was free: the trainer is what binds
  double for_memory = 0;  // the block was sampled and its slot too small

  /// What next() waited in all.
  double trainer() const { return for_sampling + for_gather + for_handover; }
  WaitTimes& operator+=(const WaitTimes& other);
  friend WaitTimes operator-(const WaitTimes& after, const WaitTimes& before);
  /// Seconds as shares of the time that the trainer ran, and of the time that all workers together ran.
  WaitTimes shares_of(double trainer_seconds, double worker_seconds) const;
};

/// One wait of next(), nanoseconds by stage.
struct WaitStages {
  std::int64_t sampling = 0, gather = 0, handover = 0;
  friend bool operator==(const WaitStages&, const WaitStages&) = default;
};
/// How a wait from `begin` to `end` falls on the stages of the batch that it ended with: what lies before
/// times.sampled is sampling, from there to times.gathered gather, the rest handover. Whatever the times are,
/// no part is negative and their sum is end - begin.
WaitStages split_wait(std::int64_t begin, std::int64_t end, const SlotTimes& times);

/// The waits of a loader and its workers so far, running ones of the workers included.
WaitTimes wait_times(const ChannelView& view);

/// Of shares: "waiting for sampling 12%, for gather 3%; the workers waited for a free slot 40%", the larger
/// first, and nothing below half a per cent.
std::string to_text(const WaitTimes& shares);

}  // namespace hopfeed
