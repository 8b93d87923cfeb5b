// See peer_options.h.
#include "core/batch/peer_options.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {

void PeerOptions::validate() const {
  require_valid(
      peers.size() <= kMaxPartitions,
      fmt::format("{} machines are named (peers), and at most {} can be", peers.size(), kMaxPartitions));
  require_valid(replicas >= 1, fmt::format("replicas is {}; a partition has one server at least", replicas));
  require_valid(concurrency >= 1 && concurrency <= kMaxPeerConcurrency,
                fmt::format("worker_concurrency is {}; choose 1 to {}", concurrency, kMaxPeerConcurrency));
  for (const std::chrono::milliseconds limit : {connect_timeout, deadline})
    require_valid(
        limit.count() >= 1 && limit.count() <= kMaxDeadlineMs,
        fmt::format("a deadline of {} ms for other machines; choose 1 ms to a year", limit.count()));
}

}  // namespace hopfeed
