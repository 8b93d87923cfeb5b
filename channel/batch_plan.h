// A BatchPlan says which batch comes next, as a request with a running number: by the deal of an epoch
// (stream/deal_plan.h), or from a queue that somebody fills as he likes. Whoever has the channel takes from
// its plan one batch for each slot that is free (SlotPool::plan_from).
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "core/batch/held_share.h"

namespace hopfeed {

/// A PlannedBatch is what a slot is planned with: the positions [first, first + count) of an epoch. Sequences
/// name each batch once in the life of a channel, whatever is taken first; the lower one is claimed first,
/// and is the first to be given memory.
struct PlannedBatch {
  std::uint64_t sequence = 0;
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint32_t job = 0;           // which of the jobs that the fillers know; a loader has one
  HeldShare held = {};             // rows that its consumer has, and that may be left out
  std::size_t expected_bytes = 0;  // bytes of its block, about; 0: as those before it
  friend bool operator==(const PlannedBatch&, const PlannedBatch&) = default;
};

/// A BatchRequest is a batch that somebody asks for.
struct BatchRequest {
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint32_t job = 0;
  HeldShare held = {};
};

/// A BatchPlan is not thread-safe: it is called under the lock of the channel that plans from it.
class BatchPlan {
 public:
  virtual ~BatchPlan() = default;
  /// Gives up the next batch, which is from now on somebody else's to remember; nothing where none is left
  /// for now. Sequences rise.
  virtual std::optional<PlannedBatch> next() = 0;
  /// Returns how many are left. A worker without a slot waits for one as long as there are some; else it
  /// rests.
  virtual std::int64_t left() const = 0;
};

/// A QueuePlan gives requests in the order in which they were pushed.
class QueuePlan final : public BatchPlan {
 public:
  /// `first_sequence` is that of the first request; it is above all that the channel has seen.
  explicit QueuePlan(std::uint64_t first_sequence = 0) : next_sequence_(first_sequence) {}

  /// Returns the sequence by which the batch is known from here on.
  std::uint64_t push(const BatchRequest& request);
  /// Forgets a request. False where it is not in the queue (any more): then SlotPool::abandon knows it.
  bool withdraw(std::uint64_t sequence);

  std::optional<PlannedBatch> next() override;
  std::int64_t left() const override { return static_cast<std::int64_t>(queue_.size()); }

 private:
  std::uint64_t next_sequence_;
  std::deque<PlannedBatch> queue_;
};

}  // namespace hopfeed
