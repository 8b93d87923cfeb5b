// See failed_batches.h.
#include "server_client_mode/client/failed_batches.h"

namespace hopfeed {

AfterFailure FailedBatches::note(std::size_t server, const PlannedBatch& batch, ErrorCode code,
                                 const std::function<bool(std::size_t)>& may_ask) {
  // Those of an epoch that was left come no more.
  std::erase_if(batches_, [&](const auto& entry) { return entry.second.epoch != batch.epoch; });
  Failures& failures = batches_[batch.sequence];
  failures.epoch = batch.epoch;
  const int times = ++failures.times[server];
  const bool of_the_question = code == ErrorCode::kInvalid || code == ErrorCode::kUnsupported;
  const bool waited = code == ErrorCode::kPeerDied || code == ErrorCode::kTimeout;
  failures.waits += waited ? 1 : 0;
  const bool by_all = num_servers_ > 1 && failures.times.size() == num_servers_;
  if (of_the_question || by_all || times >= kMaxFailures || failures.waits >= kMaxWaits) {
    batches_.erase(batch.sequence);
    return AfterFailure::kIsFinal;
  }
  for (std::size_t other = 0; other < num_servers_; ++other)
    if (!failures.times.contains(other) && may_ask(other)) return AfterFailure::kAskElsewhere;
  return AfterFailure::kAskAgain;
}

void FailedBatches::forget(const PlannedBatch& batch) { batches_.erase(batch.sequence); }

}  // namespace hopfeed
