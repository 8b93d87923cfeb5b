// PinnedMemory is ChannelMemory whose slots are pinned as they are granted, so that a GPU copies from them
// without the host's help: over any other memory, in the one process that copies. Functions that it is given
// do the pinning (gpu/memory/registered_memory.h).
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "channel/memory.h"

namespace hopfeed {

/// A StreamMark is a place in a stream of a GPU.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  StreamMark() = default;
  StreamMark(const StreamMark&) = delete;
  StreamMark& operator=(const StreamMark&) = delete;
  /// Returns whether all that was asked of the stream before the mark is done.
  virtual bool done() const = 0;
  virtual void await() const = 0;
};

struct Pinning {
  /// Pins a range of whole pages; throws Error where the system refuses.
  std::function<void(std::byte* at, std::size_t bytes)> pin;
  /// Unpins a whole range. Waits for nobody: what copies from it has ended.
  std::function<void(std::byte* at)> unpin;
  /// Makes a mark behind what was asked of a stream so far.
  std::function<std::unique_ptr<const StreamMark>(GpuStream stream)> mark;
  std::size_t slots_begin = 0, slot_stride = 1;  // a range never crosses from slot to slot
};

class PinnedMemory final : public ChannelMemory {
 public:
  PinnedMemory(std::unique_ptr<ChannelMemory> memory, Pinning pinning);
  ~PinnedMemory() override;

  void reserve(std::size_t offset, std::size_t bytes) override;
  void punch(std::size_t offset, std::size_t bytes) override;
  std::size_t allocated() const override { return memory_->allocated(); }
  int fd() const override { return memory_->fd(); }
  void used_on(std::size_t offset, GpuStream stream) override;
  bool idle(std::size_t offset) override;
  struct State {
    std::size_t bytes = 0;     // pinned now
    double seconds = 0;        // that pinning and unpinning took so far
    std::string refused = {};  // why a range could not be pinned; none is from then on, and copies are slower
  };
  const State& state() const { return state_; }

 private:
  void pin(std::size_t begin, std::size_t end);
  void unpin(std::size_t begin);

  const std::unique_ptr<ChannelMemory> memory_;
  const Pinning pinning_;
  State state_;
  std::atomic<bool> pinned_ = false;           // at least one range was: a GPU copies by itself
  std::map<std::size_t, std::size_t> ranges_;  // bytes of each slot, by where it begins
  std::mutex mutex_;                           // of marks
  std::map<std::size_t, std::vector<std::unique_ptr<const StreamMark>>> marks_;  // by the offset of the slot
};

}  // namespace hopfeed
