// A RowDrawer draws rows for a machine that asked: what NeighborSampler draws of them, without local ids. It
// reads partitions that are here alone, so it never waits for anybody.
#pragma once
#include <memory>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/sampler/peer_questions.h"

namespace hopfeed {

class RowDrawer {
 public:
  /// `dataset` must outlive it. Throws what NeighborSampler throws.
  RowDrawer(const Dataset& dataset, const BatchOptions& options);
  ~RowDrawer();
  /// Appends an answer to `out`. Throws kCorrupt for a question that cannot be, naming what is wrong, and
  /// where the graph is damaged; kUnsupported for a partition that is not here, kNoSpace for an answer larger
  /// than kMaxPeerAnswer, before it is made.
  struct Drawn {
    std::int64_t rows = 0, edges = 0;
  };
  Drawn answer(std::uint32_t partition, const PeerDrawQuestion& question, PeerBytes& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hopfeed
