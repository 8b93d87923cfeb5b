// See batch_plan.h.
#include "channel/batch_plan.h"

#include <algorithm>

namespace hopfeed {

std::uint64_t QueuePlan::push(const BatchRequest& request) {
  queue_.push_back({.sequence = next_sequence_,
                    .epoch = request.epoch,
                    .first = request.first,
                    .count = request.count,
                    .job = request.job,
                    .held = request.held});
  return next_sequence_++;
}

bool QueuePlan::withdraw(std::uint64_t sequence) {
  return std::erase_if(queue_, [&](const PlannedBatch& batch) { return batch.sequence == sequence; }) > 0;
}

std::optional<PlannedBatch> QueuePlan::next() {
  if (queue_.empty()) return {};
  const PlannedBatch batch = queue_.front();
  queue_.pop_front();
  return batch;
}

}  // namespace hopfeed
