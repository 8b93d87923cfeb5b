// ChannelMemory is the memory of a channel: one contract, two mechanisms. Heap memory is for threads of one
// process (ThreadSanitizer sees every access there, but not in a page that is mapped twice); a sealed memfd
// is for processes: it has no name that could be left behind, and no other process can shrink it under us.
// Both pass the suite in tests/channel.
//
// The range is virtual: bytes are backed by memory from `reserve` on and no longer after `punch`. Whoever
// writes reserves first, so that a lack of memory is an error here and never a SIGBUS there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/huge_pages.h"
#include "core/batch/gpu_stream.h"

namespace hopfeed {

/// A DeviceSide is memory of a GPU behind the same offsets as the host's. Blocks lie in it; the host's bytes
/// then hold what of a block the host reads (DeviceForm, core/batch/batch.h).
class DeviceSide {
 public:
  virtual ~DeviceSide() = default;
  virtual std::byte* data() const = 0;
  /// Returns the GPU's number, as CUDA counts.
  virtual int device() const = 0;
  /// Copies to the host, and waits for it. Any thread.
  virtual void read(std::size_t offset, std::size_t bytes, std::byte* to) = 0;
  /// Returns whether nothing runs on the device any more that filler `number`, a process that is dead, asked
  /// for.
  virtual bool ended(std::uint32_t /*number*/) { return true; }
  /// Returns what another process inherits in order to import the memory; -1: it is this process's alone.
  virtual int shared_fd() const { return -1; }
};

class ChannelMemory {
 public:
  virtual ~ChannelMemory() = default;
  ChannelMemory() = default;
  ChannelMemory(const ChannelMemory&) = delete;
  ChannelMemory& operator=(const ChannelMemory&) = delete;

  std::byte* data() const { return data_; }  // at a multiple of the page size
  std::size_t size() const { return size_; }
  /// Backs [offset, offset + bytes) by zeroed or kept memory, on huge pages where they can be had. Throws
  /// kNoSpace.
  virtual void reserve(std::size_t offset, std::size_t bytes) = 0;
  /// Gives the memory behind the range back; it reads as zeros until it is reserved again.
  virtual void punch(std::size_t offset, std::size_t bytes) = 0;
  /// Returns the bytes of memory that the operating system counts for the range; as reserved where it does
  /// not count.
  virtual std::size_t allocated() const = 0;
  /// Returns what another process inherits in order to attach; -1 where only threads can share the memory.
  virtual int fd() const { return -1; }
  /// Returns null where blocks lie in memory of the host.
  virtual DeviceSide* device_side() { return nullptr; }
  /// Notes that what was asked of `stream` so far may read the slot that begins at `offset`: it is neither
  /// written nor given back before that is done. Memory that no GPU reads by itself does not mind. Any
  /// thread.
  virtual void used_on(std::size_t /*offset*/, GpuStream /*stream*/) {}
  /// Returns whether anybody may write the slot that begins at `offset`: where that can be another process,
  /// all that used_on told of is done. Any thread.
  virtual bool idle(std::size_t /*offset*/) { return true; }

 protected:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Makes `size` bytes of heap memory.
std::unique_ptr<ChannelMemory> make_heap_memory(std::size_t size);
/// Makes `size` bytes of a new sealed memfd. Throws kNoSpace or kIo.
std::unique_ptr<ChannelMemory> make_shared_memory(std::size_t size);
/// Maps a memfd that was inherited, whole; takes a duplicate of `fd`. Throws kCorrupt where it is no sealed
/// memfd.
std::unique_ptr<ChannelMemory> attach_shared_memory(int fd);

/// Maps a sealed memfd read-only, for who only looks; reserve and punch throw. Throws kCorrupt where it is
/// none.
std::unique_ptr<ChannelMemory> look_at_shared_memory(int fd);

/// Returns how many bytes of all channels of this process huge pages map here, as the kernel tells it
/// (smaps).
std::size_t channel_huge_bytes();

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace hopfeed
