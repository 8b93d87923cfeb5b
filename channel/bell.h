// A Bell lets a thread wait for a channel beside sockets: an eventfd, which poll knows, where a futex can
// only be slept on alone. A channel has two, each for one waiting thread:
//
//   the fillers' bell   rung on a plan, a grant, an abandoned batch and the end, while somebody listens: for
//                       a thread that fills slots from sockets
//   the planner's bell  the doorbell: rung by fillers when they ask for memory or report, and, while somebody
//                       listens, on each finished batch; in worker mode the supervisor's thread waits on it
//
// Who listens never misses an event, and who does not costs one load on the others' side (SharedEvent):
//
//   event.listen();                                       // first say that you listen,
//   if (nothing_to_do()) poll({bell.fd(), sockets...});   // then look, then sleep
//   event.stop_listening();
//   bell.drain();
//   do_all_there_is();
#pragma once
#include <unistd.h>

#include <cstdint>

#include "core/base/owned_fd.h"

namespace hopfeed {

/// Wakes whoever sleeps on this eventfd; nothing for -1. Any thread, any process that inherited it.
inline void ring(int eventfd) {
  const std::uint64_t one = 1;
  if (eventfd < 0) return;
  // A full counter (EAGAIN) has been rung enough; where the other side is gone, that is seen elsewhere.
  [[maybe_unused]] const ssize_t ignored = write(eventfd, &one, sizeof(one));
}

class Bell {
 public:
  /// Makes an eventfd of its own, closed on exec. Throws kIo.
  Bell();
  int fd() const { return fd_.get(); }  // readable once it was rung
  /// Forgets what has rung. The one thread that waits on it calls this.
  void drain() const;

 private:
  OwnedFd fd_;
};

}  // namespace hopfeed
