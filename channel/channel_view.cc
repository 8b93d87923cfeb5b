// See channel_view.h.
#include "channel/channel_view.h"

#include <fmt/format.h>

#include <new>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

constexpr std::uint64_t kMaxChannelBytes = std::uint64_t{1} << 46;  // of the 2^47 that a process can address

/// Slots that can hold a huge page begin at one.
std::size_t slot_alignment(const ChannelShape& shape) {
  return shape.slot_stride >= kHugePageBytes ? kHugePageBytes : kPageBytes;
}

/// True where sizes are within limits, so that no sum below can overflow.
bool sane(const ChannelShape& shape) {
  return shape.num_slots >= 1 && shape.num_slots <= kMaxSlots && shape.num_workers >= 1 &&
         shape.num_workers <= kMaxWorkers && shape.slot_stride >= kPageBytes &&
         shape.slot_stride % slot_alignment(shape) == 0 &&
         shape.slot_stride <= kMaxChannelBytes / shape.num_slots;
}

}  // namespace

std::size_t ChannelView::fixed_bytes(const ChannelShape& shape) {
  return round_up(
      sizeof(ControlBlock) + sizeof(WorkerRecord) * shape.num_workers + sizeof(SlotRecord) * shape.num_slots,
      kPageBytes);
}

std::size_t ChannelView::data_offset(const ChannelShape& shape) {
  return round_up(fixed_bytes(shape), slot_alignment(shape));
}

std::size_t ChannelView::bytes_needed(const ChannelShape& shape) {
  return data_offset(shape) + shape.slot_stride * shape.num_slots;
}

ChannelView ChannelView::format(ChannelMemory& memory, const ChannelShape& shape) {
  if (!sane(shape) || memory.size() < bytes_needed(shape)) {
    throw Error(ErrorCode::kInvalid,
                fmt::format("no channel of {} slots of {} bytes for {} workers: at most {} slots, {} workers "
                            "and {} bytes in all",
                            shape.num_slots, shape.slot_stride, shape.num_workers, kMaxSlots, kMaxWorkers,
                            kMaxChannelBytes));
  }
  memory.reserve(0, fixed_bytes(shape));
  ControlBlock& control = *new (memory.data()) ControlBlock{};
  ChannelView view(memory.data(), shape);
  for (std::uint32_t i = 0; i < shape.num_workers; ++i) new (&view.worker(i)) WorkerRecord{};
  for (std::uint32_t i = 0; i < shape.num_slots; ++i) new (&view.slot(i)) SlotRecord{};
  control.num_slots = shape.num_slots;
  control.num_workers = shape.num_workers;
  control.slot_stride = shape.slot_stride;
  control.total_bytes = memory.size();
  control.version = kChannelVersion;
  control.magic.store(kChannelMagic, std::memory_order_release);
  return view;
}

ChannelView ChannelView::open(ChannelMemory& memory) {
  if (memory.size() < sizeof(ControlBlock)) {
    throw Error(ErrorCode::kCorrupt, fmt::format("the channel is only {} bytes long", memory.size()));
  }
  const ControlBlock& control = *reinterpret_cast<const ControlBlock*>(memory.data());
  if (control.magic.load(std::memory_order_acquire) != kChannelMagic) {
    throw Error(ErrorCode::kCorrupt, "the channel has no magic number: half-made, or no hopfeed channel");
  }
  if (control.version != kChannelVersion) {
    throw Error(
        ErrorCode::kVersion,
        fmt::format("the channel is of version {}, this program speaks version {}: use the programs of one "
                    "installation",
                    control.version, kChannelVersion));
  }
  const ChannelShape shape{
      .num_slots = control.num_slots, .num_workers = control.num_workers, .slot_stride = control.slot_stride};
  if (!sane(shape) || control.total_bytes != memory.size() || bytes_needed(shape) > memory.size()) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("the channel says {} bytes with {} slots of {} bytes but is {} bytes long",
                            control.total_bytes, shape.num_slots, shape.slot_stride, memory.size()));
  }
  return ChannelView(memory.data(), shape);
}

}  // namespace hopfeed
