// A BatchFiller fills claimed slots with a BlockMaker: sample, ask for memory, write, publish. A worker
// process does this in a loop, with a few of them where it samples ahead (batch_window.h), and so does the
// calling thread of a loader without workers. What goes wrong with a batch is published in its place, for
// next() to throw when its turn comes.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "channel/worker_port.h"
#include "core/maker/announce_order.h"
#include "core/maker/block_maker.h"
#include "worker_mode/background_work.h"

namespace hopfeed {

struct FillerOptions {
  std::uint64_t seed = 0;
  bool check_finite = false;  // an error in place of a batch with NaN or infinity among its features
  /// BrokenProcess is thrown and not published: the process ends of it, and another makes the batch.
  bool ends_when_broken = false;
  /// begin() returns at once, and a thread of the filler's own samples: where that waits for other machines.
  bool samples_in_background = false;
  /// Its batches announce their rows in this turn; null: there is no cache. It must outlive the filler.
  AnnounceTurn* turn = nullptr;
};

class BatchFiller {
 public:
  /// `port` and `maker` must outlive it.
  BatchFiller(WorkerPort& port, BlockMaker& maker, FillerOptions options)
      : port_(port), maker_(maker), options_(options) {}

  /// Samples the claimed batch, or begins to; only with nothing under way.
  void begin(const Claim& claim);
  /// Returns whether the batch under way is sampled; waits `limit` at most.
  bool await_sample(std::chrono::milliseconds limit);
  /// Returns whether a batch was begun that is not published yet.
  bool under_way() const { return claim_.has_value(); }
  /// Asks for the memory of the batch under way, which is sampled, where that was not done.
  void ask();
  /// Returns the bytes of the batch under way.
  std::size_t bytes() const { return bytes_; }
  Claim& claim() { return *claim_; }
  /// Writes and publishes the batch under way where its memory was granted, or drops it where its epoch was
  /// left. Returns false where it did neither. Call it after ask().
  bool try_finish();
  /// Notes that the maker goes, and what it has of a GPU's memory with it.
  void note_end() { note_gpu_use({.gpu_batches = used_.gpu_batches, .cpu_batches = used_.cpu_batches}); }
  const BlockMaker& maker() const { return maker_; }

 private:
  /// Runs a part of the work; what it throws is published.
  template <class Part>
  void publish_what_it_throws(const Part& part);
  void sample();
  void write();
  void let_go() noexcept;
  void note_gpu_use(const GpuUse& now) {
    port_.note_gpu_use(now, used_);
    used_ = now;
  }

  WorkerPort& port_;
  BlockMaker& maker_;
  const FillerOptions options_;
  std::optional<Claim> claim_;
  std::size_t bytes_ = 0;
  bool asked_ = false;
  TierCounts told_;
  GpuUse used_;  // as it was told
  BackgroundWork background_;
};

}  // namespace hopfeed
