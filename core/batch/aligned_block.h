// An AlignedBlock is memory of a batch block outside of the channel: at a multiple of kBlockAlignment, owned,
// and used again for the next block.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "core/batch/batch_layout.h"

namespace hopfeed {

class AlignedBlock {
 public:
  AlignedBlock() = default;
  explicit AlignedBlock(std::size_t bytes) { resize(bytes); }

  /// The block has so many bytes from now on; what was in it is lost where it has to grow. Never shrinks.
  /// Throws std::bad_alloc.
  std::span<std::byte> resize(std::size_t bytes) {
    if (bytes > capacity_) {
      const std::size_t room = std::max(bytes, capacity_ + capacity_ / 4);  // the first has none to spare
      size_ = capacity_ = 0;                                                // should there be no memory
      memory_.reset();
      memory_.reset(static_cast<std::byte*>(::operator new[](room, std::align_val_t{kBlockAlignment})));
      capacity_ = room;
    }
    size_ = bytes;
    return this->bytes();
  }
  std::span<std::byte> bytes() { return {memory_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t{kBlockAlignment});
    }
  };
  std::unique_ptr<std::byte[], Free> memory_;
  std::size_t capacity_ = 0, size_ = 0;
};

}  // namespace hopfeed
