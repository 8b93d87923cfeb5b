// See copy_stream.h.
#include "trainer/copy_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace hopfeed {

CopyStream::CopyStream(torch::Device device) : device_(device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  copied_.emplace(device.type());
}

CopyStream::~CopyStream() {
  try {
    release();
  } catch (const std::exception&) {  // the device is lost, and nobody reads for it any more
  }
}

CopyStream::Recording::Recording(CopyStream& copies) : copies(copies) {
  if (copies.stream_) guard.emplace(*copies.stream_);
}

CopyStream::Recording::~Recording() {
  if (!copies.copied_) return;
  try {
    copies.copied_->record(*copies.stream_);
  } catch (const std::exception&) {  // whoever waits for the device next is told
  }
}

torch::Tensor CopyStream::copy(const torch::Tensor& host) {
  sources_.push_back(host);
  return keep(torch::empty(host.sizes(), host.options().device(device_)).copy_(host, /*non_blocking=*/true));
}

torch::Tensor CopyStream::keep(const torch::Tensor& made) {
  results_.push_back(made);
  return made;
}

void CopyStream::hand_over() {
  if (stream_) {
    const c10::Stream reader = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    copied_->block(reader);
    for (const torch::Tensor& result : results_) result.record_stream(reader);
  }
  results_.clear();
}

void CopyStream::release() {
  if (copied_) copied_->synchronize();
  sources_.clear();
}

}  // namespace hopfeed
