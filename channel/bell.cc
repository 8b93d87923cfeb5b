// See bell.h.
#include "channel/bell.h"

#include <sys/eventfd.h>

namespace hopfeed {

Bell::Bell() {
  constexpr const char* what = "cannot make a bell of the channel (eventfd)";
  fd_ = out_of_the_way(OwnedFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), what), what);
}

void Bell::drain() const {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t ignored = read(fd_.get(), &rings, sizeof(rings));  // does not block
}

}  // namespace hopfeed
