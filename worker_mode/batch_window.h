// A BatchWindow has the batches that a worker has under way: sampled, in the order of their claims, the
// lowest one gathered first. Without a window that is one. With a window it samples a few more before it
// gathers, so that the row cache in front of a slow tier knows which rows are needed soon
// (cache/dynamic_cache.h); no batch is sampled twice. Memory for a block is asked for when its turn comes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "channel/worker_port.h"
#include "worker_mode/batch_filler.h"

namespace hopfeed {

struct BatchWindowOptions {
  /// Returns what a claimed batch is filled with: a filler with nothing under way. Null where there is none;
  /// then it has published why.
  std::function<BatchFiller*(const Claim& claim)> filler;
  /// Returns how many batches are sampled ahead of one like this.
  std::function<std::int64_t(const PlannedBatch& batch)> ahead;
  /// Returns whether the worker has to leave; asked while it waits.
  std::function<bool()> leaving;
  std::chrono::milliseconds nap{100};  // the longest that it sleeps at a time
};

class BatchWindow {
 public:
  /// `port` must outlive it.
  BatchWindow(WorkerPort& port, BatchWindowOptions options) : port_(port), options_(std::move(options)) {}

  /// Claims and samples as far as the window goes, sleeping a nap at most where nothing is under way or
  /// planned; then finishes the lowest batch. Returns whether one was finished. Returns early where the
  /// worker leaves.
  bool step();
  bool empty() const { return under_way_.empty(); }

 private:
  void fill();
  void begin(const Claim& claim);
  bool finish_lowest();

  WorkerPort& port_;
  const BatchWindowOptions options_;
  std::vector<BatchFiller*> under_way_;  // by rising sequence
};

}  // namespace hopfeed
