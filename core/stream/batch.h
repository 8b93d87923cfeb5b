// A batch as a trainer holds it: a view of its block, and a share in whatever the block lies in (a slot of
// shared memory, memory of this process), which is free again when the last copy is gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/batch/batch_view.h"
#include "core/batch/tier_counts.h"

namespace hopfeed {

/// Where the time of one batch went: seconds of CLOCK_MONOTONIC.
struct BatchTimes {
  double planned = 0, claimed = 0, sampled = 0, writing = 0, gathered = 0, published = 0, taken = 0;
  double released = 0;  // 0 while the batch is viewed
};

/// What became of one batch, told when its last view is gone.
struct BatchRecord {
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint32_t worker = 0;
  std::string maker = {};  // of servers: which, and which worker of it; empty: worker `worker` of the loader
  std::size_t bytes = 0;
  TierCounts tiers;  // where its rows were read; of servers: not told
  BatchTimes times;
  double asked = 0;  // next() was called for it,
  double left = 0;   // and for what comes after it; released where that was earlier
};

/// Keeps the bytes of a batch. Its end gives them back, in whichever thread that is.
class BatchOwner {
 public:
  virtual ~BatchOwner() = default;
  BatchOwner() = default;
  BatchOwner(const BatchOwner&) = delete;
  BatchOwner& operator=(const BatchOwner&) = delete;
  virtual BatchTimes times() const = 0;
};

/// Copies share the owner. May outlive the stream that it came from.
class Batch {
 public:
  Batch(BatchView view, std::shared_ptr<const BatchOwner> owner) : view_(view), owner_(std::move(owner)) {}
  const BatchView& view() const { return view_; }
  BatchTimes times() const { return owner_->times(); }

 private:
  BatchView view_;
  std::shared_ptr<const BatchOwner> owner_;
};

}  // namespace hopfeed
