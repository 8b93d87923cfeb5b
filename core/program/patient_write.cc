// See patient_write.h.
#include "core/program/patient_write.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hopfeed {

bool write_patiently(int fd, std::string_view text, int patience_ms) {
  while (!text.empty()) {
    pollfd reader{.fd = fd, .events = POLLOUT, .revents = 0};
    const int ready = poll(&reader, 1, patience_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    // A pipe that can be written takes so many bytes without a wait.
    const ssize_t put = write(fd, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (put < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (put > 0) text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace hopfeed
