// Processes of a machine send each other messages that carry descriptors (SCM_RIGHTS).
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/owned_fd.h"

namespace hopfeed {

/// A message carries so many descriptors at most.
inline constexpr std::size_t kMostPassedFds = 3;

/// Sends as sendmsg(2) does with MSG_NOSIGNAL and `flags`.
ssize_t send_with_fds(int socket, std::span<const std::byte> message, std::span<const int> fds, int flags);

/// A ReceivedMessage is what recvmsg(2) gave, with the descriptors that came along, which are closed on exec.
struct ReceivedMessage {
  ssize_t bytes = -1;
  std::vector<OwnedFd> fds;
};
ReceivedMessage receive_with_fds(int socket, std::span<std::byte> message);

}  // namespace hopfeed
