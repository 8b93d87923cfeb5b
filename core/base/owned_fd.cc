// See owned_fd.h.
#include "core/base/owned_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace hopfeed {

OwnedFd::OwnedFd(int fd, const char* what) : fd_(fd) {
  if (fd < 0) throw_errno(what, errno);
}

OwnedFd::~OwnedFd() {
  if (fd_ >= 0) ::close(fd_);
}

OwnedFd out_of_the_way(const OwnedFd& fd, const char* what) {
  constexpr int kFirst = 64;
  const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirst);
  if (moved < 0 && errno == EINVAL) errno = EMFILE;  // the limit on open files is that low
  return OwnedFd(moved, what);
}

int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace hopfeed
