// PythonBatch is a batch as Python holds it. Its arrays are views of the slot that it lies in; each keeps the
// batch, and so the slot, until it is gone.
#pragma once
#include <nanobind/nanobind.h>

#include "core/batch/aligned_block.h"
#include "core/batch/batch.h"

namespace hopfeed::python {

class PythonBatch {
 public:
  /// With `copy` its bytes are copied, and the slot is free again at once.
  PythonBatch(Batch batch, bool copy);

  const BatchView& view() const { return view_; }
  /// Returns the batch's form on a device; null where it lies in memory of the host.
  const DeviceForm* device_form() const { return batch_ ? batch_->device_form() : nullptr; }
  bool is_copy() const { return !batch_; }
  /// Notes work on a stream, as Batch::used_on; `stream` is an integer (torch.cuda.Stream.cuda_stream).
  void used_on(std::uintptr_t stream, int device) const;

 private:
  std::optional<Batch> batch_;  // none: its bytes are here
  AlignedBlock copy_;
  BatchView view_;
};

/// Binds the class Batch.
void bind_batch(nanobind::module_& module);

}  // namespace hopfeed::python
