// A CopyStream is the side stream on which batches go to a device, beside the step that runs there. Host
// memory that is copied from (a slot, say) is kept until its copies have ended, which an event on the side
// stream tells; memory of the device that comes out of it is told to the stream that reads it, or Torch's
// allocator would give it away too soon.
//
// It is written for any device by Torch's general interface (c10::Stream, c10::Event), so nothing here links
// to CUDA. On the CPU copies are copies all the same, made at once, and there is nothing to wait for: what is
// tested there is the order of the calls, and what is kept how long.
#pragma once
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <optional>
#include <vector>

namespace hopfeed {

/// One thread at a time may use it.
class CopyStream {
 public:
  explicit CopyStream(torch::Device device);
  /// Waits for copies that are under way.
  ~CopyStream();
  CopyStream(const CopyStream&) = delete;
  CopyStream& operator=(const CopyStream&) = delete;

  torch::Device device() const { return device_; }

  /// Calls `body`, in which copy() and operations on what it gives run on the side stream.
  template <class Body>
  auto run(Body body) {
    const Recording recording(*this);
    return body();
  }
  /// Begins to copy, within run(), and keeps the memory of `host` until release().
  torch::Tensor copy(const torch::Tensor& host);
  /// Keeps, within run(), what was made of copies, with memory of its own, and goes out too.
  torch::Tensor keep(const torch::Tensor& made);

  /// What the current stream does from now on comes after all that run() has begun, and may read it.
  void hand_over();
  /// Waits until the copies have ended, and lets go of what they read.
  void release();
  /// Returns whether memory of the host is kept.
  bool holds() const { return !sources_.empty(); }

 private:
  struct Recording {
    explicit Recording(CopyStream& copies);
    ~Recording();
    CopyStream& copies;
    std::optional<c10::StreamGuard> guard;
  };

  torch::Device device_;
  std::optional<c10::Stream> stream_;  // none on the CPU, nor an event
  std::optional<c10::Event> copied_;   // behind all that run() has begun
  std::vector<torch::Tensor> sources_, results_;
};

}  // namespace hopfeed
