// Buffers that connections borrow while bytes are under way: who is idle holds none.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace hopfeed::wire {

inline constexpr std::size_t kPooledBytes = 256 << 10;

/// One buffer of kPooledBytes, or none; given back at its end. Any thread.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  static PooledBuffer borrow();
  ~PooledBuffer() { give_back(); }
  PooledBuffer(PooledBuffer&& other) noexcept : bytes_(std::move(other.bytes_)) {}
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  void give_back();
  explicit operator bool() const { return bytes_ != nullptr; }
  std::span<std::byte> bytes() const { return {bytes_.get(), bytes_ ? kPooledBytes : 0}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace hopfeed::wire
