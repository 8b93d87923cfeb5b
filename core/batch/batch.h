// A Batch is what a trainer holds: a view of a block, and a share in whatever the block lies in (a slot of
// shared memory, memory of this process), which is free again when the last copy is gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/batch/batch_view.h"
#include "core/batch/gpu_stream.h"
#include "core/batch/tier_counts.h"

namespace hopfeed {

/// BatchTimes says where the time of one batch went, in seconds of CLOCK_MONOTONIC.
struct BatchTimes {
  double planned = 0, claimed = 0, sampled = 0, writing = 0, gathered = 0, published = 0, taken = 0;
  double released = 0;  // 0 while the batch is viewed
};

/// A BatchRecord tells what became of one batch, when its last view is gone.
struct BatchRecord {
  std::int64_t epoch = 0, first = 0, count = 0;
  std::uint32_t worker = 0;
  std::string maker =
      {};  // which server made it, and which worker of it; empty: worker `worker` of the loader
  std::size_t bytes = 0;
  TierCounts tiers;  // where its rows were read; not told of batches from servers
  BatchTimes times;
  double asked = 0;  // when next() was called for it,
  double left = 0;   // and for what comes after it; or `released`, where that was earlier
};

/// DeviceForm is a batch whose large arrays lie in the memory of a GPU: n_id, dataset_id, batch, edge_index,
/// e_id and all attributes.
struct DeviceForm {
  BatchView head;                   // the block on the host, where those arrays are not written
  const std::byte* data = nullptr;  // the whole block on the device, good for any stream from now on
  int device = 0;                   // the GPU's number, as CUDA counts
};

/// A BatchOwner keeps the bytes of a batch. Its end gives them back, in whichever thread that is.
class BatchOwner {
 public:
  virtual ~BatchOwner() = default;
  BatchOwner() = default;
  BatchOwner(const BatchOwner&) = delete;
  BatchOwner& operator=(const BatchOwner&) = delete;
  virtual BatchTimes times() const = 0;
  /// Returns the batch's form on a device; null where it lies in memory of the host.
  virtual const DeviceForm* device_form() const { return nullptr; }
  /// Returns the whole of a batch on a device, in the host's memory, copied by the first call. Any thread.
  virtual BatchView copied() const { return {}; }
  /// Notes that work on `stream` may read the batch, whenever it is asked for before the batch's end: its
  /// memory is used again once that is done. The stream must live as long as the batch. Any thread.
  virtual void used_on(GpuStream /*stream*/) const {}
};

/// Copies of a Batch share the owner. It may outlive the stream that it came from.
class Batch {
 public:
  /// `view` is of the bytes on the host; of a batch on a device it is not read.
  Batch(BatchView view, std::shared_ptr<const BatchOwner> owner)
      : view_(view), owner_(std::move(owner)), device_(owner_ ? owner_->device_form() : nullptr) {}
  /// Returns the batch on the host; the first call copies one that is on a device.
  BatchView view() const { return device_ == nullptr ? view_ : owner_->copied(); }
  BatchTimes times() const { return owner_->times(); }
  /// Returns the batch's form on a device; null where it lies in memory of the host.
  const DeviceForm* device_form() const { return device_; }
  /// Notes work on `stream` that may read the batch (BatchOwner::used_on).
  void used_on(GpuStream stream) const { owner_->used_on(stream); }

 private:
  BatchView view_;
  std::shared_ptr<const BatchOwner> owner_;
  const DeviceForm* device_;
};

}  // namespace hopfeed
