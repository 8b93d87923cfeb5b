// An OwnedFd is a file descriptor that closes itself.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

namespace hopfeed {

class OwnedFd {
 public:
  OwnedFd() = default;
  /// Takes `fd` over; a negative one is none.
  explicit OwnedFd(int fd) : fd_(fd) {}
  /// Takes `fd` over; throws as throw_errno does, with `what`, where it is negative.
  OwnedFd(int fd, const char* what);
  ~OwnedFd();
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Duplicates `fd` under a number of at least 64, closed on exec: out of the way of 0 to 2, which a process
/// may have been started without, and of the numbers that a worker inherits. Throws with `what` in the
/// message.
OwnedFd out_of_the_way(const OwnedFd& fd, const char* what);

/// Writes all of `bytes`. Returns 0, or the errno of what went wrong.
[[nodiscard]] int write_all(int fd, std::span<const std::byte> bytes);

}  // namespace hopfeed
