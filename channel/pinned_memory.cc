// See pinned_memory.h.
#include "channel/pinned_memory.h"

#include <chrono>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {
namespace {

/// Adds the seconds of its life.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds) {}
  ~Timed() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

PinnedMemory::PinnedMemory(std::unique_ptr<ChannelMemory> memory, Pinning pinning)
    : memory_(std::move(memory)), pinning_(std::move(pinning)) {
  data_ = memory_->data();
  size_ = memory_->size();
}

PinnedMemory::~PinnedMemory() {
  for (const auto& [offset, marks] : marks_)
    for (const auto& mark : marks) mark->await();
  while (!ranges_.empty()) unpin(ranges_.begin()->first);
}

void PinnedMemory::reserve(std::size_t offset, std::size_t bytes) {
  memory_->reserve(offset, bytes);
  if (!state_.refused.empty() || bytes == 0 || offset < pinning_.slots_begin) return;
  const std::size_t in_slot = (offset - pinning_.slots_begin) % pinning_.slot_stride,
                    begin = offset - in_slot;
  try {
    // A copy must not cross from one pinned range to another, so a slot that grows is pinned anew as a whole.
    if (ranges_.contains(begin)) unpin(begin);
    pin(begin, round_up(offset + bytes, kPageBytes));
  } catch (const Error& error) {
    state_.refused = error.what();
  }
}

void PinnedMemory::punch(std::size_t offset, std::size_t bytes) {
  if (ranges_.contains(offset)) unpin(offset);
  memory_->punch(offset, bytes);
}

void PinnedMemory::used_on(std::size_t offset, GpuStream stream) {
  if (!pinned_) return;
  std::unique_ptr<const StreamMark> mark = pinning_.mark(stream);
  const std::lock_guard lock(mutex_);
  marks_[offset].push_back(std::move(mark));
}

bool PinnedMemory::idle(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  const auto found = marks_.find(offset);
  if (found == marks_.end()) return true;
  std::erase_if(found->second, [](const auto& mark) { return mark->done(); });
  if (!found->second.empty()) return false;
  marks_.erase(found);
  return true;
}

void PinnedMemory::pin(std::size_t begin, std::size_t end) {
  const Timed timed(state_.seconds);
  pinning_.pin(data_ + begin, end - begin);
  pinned_ = true;
  ranges_[begin] = end - begin;
  state_.bytes += end - begin;
}

void PinnedMemory::unpin(std::size_t begin) {
  const Timed timed(state_.seconds);
  pinning_.unpin(data_ + begin);
  state_.bytes -= ranges_.at(begin);
  ranges_.erase(begin);
}

}  // namespace hopfeed
