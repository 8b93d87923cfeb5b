// A device array is memory of a backend (host_backend.h says what one is) that an engine keeps between
// batches: it grows, and never shrinks.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hopfeed::gpu {

/// Where says whose memory it is: the device's, or the host's that the device can write.
enum class Where { kDevice, kPinned };

template <class Backend, class T, Where kWhere = Where::kDevice>
class DeviceArray {
 public:
  explicit DeviceArray(Backend& backend) : backend_(&backend) {}
  ~DeviceArray() {
    if (data_ != nullptr) backend_->release(data_, kWhere);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : backend_(other.backend_), data_(other.data_), count_(other.count_) {
    other.data_ = nullptr;
    other.count_ = 0;
  }
  DeviceArray& operator=(DeviceArray&&) = delete;

  /// Makes sure that `count` elements fit, the first `kept` of which stay as they are. Throws Error where
  /// there is no memory; then the array is as it was.
  void reserve(std::uint64_t count, std::uint64_t kept = 0) {
    if (count <= count_) return;
    const std::uint64_t half_more = count_ + count_ / 2;
    if (count < half_more) count = half_more;
    T* more = static_cast<T*>(backend_->allocate(count * sizeof(T), kWhere));
    if (kept > 0) backend_->copy(more, data_, kept * sizeof(T));
    if (data_ != nullptr) backend_->release(data_, kWhere);
    data_ = more;
    count_ = count;
  }
  /// Copies `count` elements of the host's, behind what was asked of the backend before.
  const T* assign(const T* from, std::uint64_t count) {
    reserve(count);
    backend_->copy(data_, from, count * sizeof(T));
    return data_;
  }
  T* data() const { return data_; }
  std::uint64_t capacity() const { return count_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  Backend* backend_;
  T* data_ = nullptr;
  std::uint64_t count_ = 0;
};

}  // namespace hopfeed::gpu
