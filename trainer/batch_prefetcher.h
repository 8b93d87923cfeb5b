// A BatchPrefetcher gives a stream's batches as tensors, each begun one ahead of the step that reads it:
// while a device computes on one batch, the next is copied. On the CPU, where nothing is copied, nothing is
// taken ahead either.
#pragma once
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "core/batch/batch_stream.h"
#include "trainer/batch_tensors.h"
#include "trainer/copy_stream.h"

namespace hopfeed {

/// A PlacedBatch is a batch that is ready to be read.
struct PlacedBatch {
  AnyBatchTensors tensors;
  std::int64_t position = 0;  // BatchStream::next_position() behind this batch, whatever was taken ahead
};

class BatchPrefetcher {
 public:
  /// Calls to_tensors() or to_typed_tensors() on a batch.
  using Make = std::function<AnyBatchTensors(const Batch&, CopyStream*)>;

  /// Takes at most `most` batches of a stream whose epoch has begun. They go to `copies`; null: they stay in
  /// their slots. Both must outlive this.
  BatchPrefetcher(BatchStream& stream, CopyStream* copies, Make make,
                  std::int64_t most = std::numeric_limits<std::int64_t>::max());
  ~BatchPrefetcher();
  BatchPrefetcher(const BatchPrefetcher&) = delete;
  BatchPrefetcher& operator=(const BatchPrefetcher&) = delete;

  /// Returns the next batch, for the current stream; nothing at the end. Of the stream's batches no more than
  /// one is held at any time, and none while the stream is asked for another. Throws what the stream throws,
  /// of the batch ahead one call early.
  std::optional<PlacedBatch> next();

 private:
  std::optional<PlacedBatch> take();

  BatchStream& stream_;
  CopyStream* copies_;
  const Make make_;
  std::int64_t left_;
  std::optional<PlacedBatch> ahead_;
};

}  // namespace hopfeed
