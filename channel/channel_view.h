// ChannelView is a plain view of a channel's memory: where the records and slots of slot_layout.h lie. It
// owns nothing and decides nothing; SlotPool (loader side) and WorkerPort (worker side) work through it.
#pragma once
#include <cstddef>
#include <span>

#include "channel/memory.h"
#include "channel/slot_layout.h"

namespace hopfeed {

class ChannelView {
 public:
  /// Returns the (virtual) bytes that a channel of this shape takes.
  static std::size_t bytes_needed(const ChannelShape& shape);
  static std::size_t data_offset(const ChannelShape& shape);
  /// Returns the bytes that are always there, whatever is granted: control block and records.
  static std::size_t fixed_bytes(const ChannelShape& shape);

  /// Writes a new channel into zeroed memory of at least bytes_needed(shape) bytes; magic and version come
  /// last. Throws kNoSpace, kInvalid.
  static ChannelView format(ChannelMemory& memory, const ChannelShape& shape);
  /// Opens a channel that another process formatted. Throws kVersion or kCorrupt at once where it is none:
  /// never waits.
  static ChannelView open(ChannelMemory& memory);

  const ChannelShape& shape() const { return shape_; }
  ControlBlock& control() const { return *reinterpret_cast<ControlBlock*>(base_); }
  WorkerRecord& worker(std::uint32_t i) const {
    return reinterpret_cast<WorkerRecord*>(base_ + sizeof(ControlBlock))[i];
  }
  SlotRecord& slot(std::uint32_t i) const {
    return reinterpret_cast<SlotRecord*>(base_ + sizeof(ControlBlock) +
                                         sizeof(WorkerRecord) * shape_.num_workers)[i];
  }
  std::size_t slot_offset(std::uint32_t i) const { return data_offset_ + shape_.slot_stride * i; }
  /// Returns the first `bytes` bytes of a slot.
  std::span<std::byte> slot_bytes(std::uint32_t i, std::size_t bytes) const {
    return {base_ + slot_offset(i), bytes};
  }

 private:
  ChannelView(std::byte* base, const ChannelShape& shape)
      : base_(base), shape_(shape), data_offset_(data_offset(shape)) {}
  std::byte* base_;
  ChannelShape shape_;
  std::size_t data_offset_;
};

}  // namespace hopfeed
