// WaitTimes says who waited for whom: how long a trainer waited for its next batch, told apart by the stage
// that the batch was in, and how long the workers waited for a place to put one.
#pragma once
#include <string>

namespace hopfeed {

/// The numbers are seconds, or shares of a time.
struct WaitTimes {
  // The trainer's thread waits in next():
  double for_sampling =
      0;                  // until the batch was sampled: planned, taken by a worker, made again after a death
  double for_gather = 0;  // from then until its block was written, the wait for memory included
  double for_handover = 0;  // from then until next() had it: published, seen, taken
  // The workers wait, summed over them:
  double for_slot = 0;    // batches were left to plan, and no slot was free: the trainer is what binds
  double for_memory = 0;  // the block was sampled and its slot too small

  /// Returns what next() waited in all.
  double trainer() const { return for_sampling + for_gather + for_handover; }
  WaitTimes& operator+=(const WaitTimes& other);
  friend WaitTimes operator-(const WaitTimes& after, const WaitTimes& before);
  /// Returns the seconds as shares of the time that the trainer ran, and of the time that all workers
  /// together ran.
  WaitTimes shares_of(double trainer_seconds, double worker_seconds) const;
};

/// Returns shares as text: "waiting for sampling 12%, for gather 3%; the workers waited for a free slot 40%",
/// the larger first, nothing below half a per cent, and no word of workers that did not wait.
std::string to_text(const WaitTimes& shares);
/// Returns shares as text where there are no workers, and next() made the batches itself: what it did, since
/// it waited for nobody.
std::string own_work_text(const WaitTimes& shares);

}  // namespace hopfeed
