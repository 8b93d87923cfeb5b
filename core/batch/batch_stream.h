// A BatchStream is what a trainer iterates, wherever its batches come from: workers here, the calling thread,
// servers. All that consumes batches takes a BatchStream, and all streams pass one suite
// (tests/stream/stream_conformance.h): the same bytes in the same order, the same errors.
//
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     stream.begin_epoch(epoch);
//     while (std::optional<Batch> batch = stream.next()) train(batch->view());
//   }
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/huge_pages.h"
#include "core/batch/batch.h"
#include "core/batch/batch_spec.h"
#include "core/batch/deal.h"
#include "core/batch/gpu_setup.h"
#include "core/batch/gpu_use.h"
#include "core/batch/wait_times.h"
#include "core/dataset/dataset_meta.h"

namespace hopfeed {

struct StreamStats {
  std::int64_t batches = 0;  // handed out since construction
  /// The workers make batches beside the trainer; 0: the calling thread does. Of servers these are the
  /// connections, and deaths those that were lost.
  std::int64_t workers = 0;
  std::int64_t worker_deaths = 0;
  std::int64_t batches_remade = 0;  // planned again after a death
  WaitTimes waits;                  // seconds that next() and the workers waited
  PageUse dataset_pages;  // of the worker that has most of the dataset in its memory, when it last looked
  std::size_t channel_bytes = 0;  // allocated now
  // These are not 0 for a stream that holds feature rows itself (cache/held_rows.h): rows of its batches,
  // those of them that did not have to travel, and bytes that the held rows take.
  std::int64_t feature_rows = 0, held_rows = 0;
  std::size_t held_bytes = 0;
  /// Slots may be pinned for a GPU: bytes now, seconds that pinning took so far, and why there are none
  /// (empty: they are, or nobody asked for it).
  std::size_t pinned_bytes = 0;
  double pinning_seconds = 0;
  std::string why_not_pinned = {};
  /// It is of the worker (of this process, where there are none) that took longest to bring its GPU up.
  GpuSetup gpu_setup;
  /// It counts batches of all workers, as they were made, and again after a death; memory and shares are of
  /// the worker that has most.
  GpuUse gpu_use;
  /// It says where the workers of this machine read the rows of the batches that they made.
  TierCounts tiers;
};

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  BatchStream() = default;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  /// Starts epoch `epoch` at seed position `start`; a running epoch is left. Throws kInvalid where start is
  /// out of range or leaves some rank without a batch.
  virtual void begin_epoch(std::int64_t epoch, std::int64_t start = 0) = 0;
  /// Returns the next batch of this rank in the order of the deal; nothing at the end of the epoch. Throws
  /// kInvalid where the caller holds all that may be held, the error of a batch that cannot be made when its
  /// turn comes, kPeerDied, kTimeout or kCorrupt where none can.
  virtual std::optional<Batch> next() = 0;

  virtual std::int64_t steps() const = 0;      // batches of this epoch for this rank
  virtual std::int64_t num_seeds() const = 0;  // of the whole list: nodes, or links
  /// Returns the first position not consumed by the rounds handed out: what a checkpoint stores.
  virtual std::int64_t next_position() const = 0;
  virtual StreamStats stats() const = 0;
  /// Returns whether the caller views so many batches that next() may soon have to refuse: more than three
  /// quarters of the slots or of the memory. Who copies the batch then and drops it goes on without end.
  virtual bool crowded() const { return false; }

  /// Returns what decides the batches' bytes, and who gets which of them.
  virtual const BatchSpec& spec() const = 0;
  virtual const DealOptions& deal() const = 0;
  /// Returns types, widths, classes and splits of the dataset: what a model has to know. The folder need not
  /// be at hand.
  virtual const DatasetMeta& meta() const = 0;
};

}  // namespace hopfeed
