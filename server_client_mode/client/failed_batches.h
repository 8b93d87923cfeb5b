// FailedBatches are batches that servers could not make, and who has failed them: what is wrong may be that
// server's alone (its disk, its memory, its workers), so each is asked of the others before it is the
// stream's error.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "channel/batch_plan.h"
#include "core/base/error.h"

namespace hopfeed {

/// AfterFailure says what is to be done with a batch that a server has failed.
enum class AfterFailure {
  kIsFinal,       // it would fail anywhere: the stream's error
  kAskAgain,      // nobody else is there
  kAskElsewhere,  // of another server; this one is left alone for a while
};

class FailedBatches {
 public:
  /// One server may fail it so often, where no other has failed it too, and then it is final.
  static constexpr int kMaxFailures = 3;
  /// All together may fail it so often after a wait for somebody else that was as long as the server waits:
  /// who owns a partition is as far away for all of them.
  static constexpr int kMaxWaits = 2;

  explicit FailedBatches(std::size_t num_servers) : num_servers_(num_servers) {}
  /// Notes that `server` has failed it. `may_ask` says whether another server is there, or may be tried.
  AfterFailure note(std::size_t server, const PlannedBatch& batch, ErrorCode code,
                    const std::function<bool(std::size_t server)>& may_ask);
  /// Forgets a batch that has come.
  void forget(const PlannedBatch& batch);

 private:
  struct Failures {
    std::int64_t epoch = 0;
    std::map<std::size_t, int> times;  // by server
    int waits = 0;                     // for others, in vain
  };
  const std::size_t num_servers_;
  std::map<std::uint64_t, Failures> batches_;  // by sequence
};

}  // namespace hopfeed
