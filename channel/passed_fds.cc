// See passed_fds.h.
#include "channel/passed_fds.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace hopfeed {
namespace {

/// Room for the descriptors beside a message, aligned as the kernel wants it.
union FdsBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(kMostPassedFds * sizeof(int))];
};
/// What really has room: the kernel counts what was added to align it.
constexpr std::size_t kRoomForFds = (sizeof(FdsBuffer) - CMSG_LEN(0)) / sizeof(int);

}  // namespace

ssize_t send_with_fds(int socket, std::span<const std::byte> message, std::span<const int> fds, int flags) {
  iovec part{.iov_base = const_cast<std::byte*>(message.data()), .iov_len = message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  FdsBuffer buffer{};
  if (!fds.empty()) {
    header.msg_control = buffer.bytes;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(control), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket, &header, flags | MSG_NOSIGNAL);
}

ReceivedMessage receive_with_fds(int socket, std::span<std::byte> message) {
  iovec part{.iov_base = message.data(), .iov_len = message.size()};
  FdsBuffer buffer{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = buffer.bytes;
  header.msg_controllen = sizeof(buffer.bytes);
  ReceivedMessage received;
  received.bytes = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  if (received.bytes < 0) return received;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = std::min((control->cmsg_len - CMSG_LEN(0)) / sizeof(int), kRoomForFds);
    std::array<int, kRoomForFds> fds{};
    std::memcpy(fds.data(), CMSG_DATA(control), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) received.fds.emplace_back(fds[i]);
  }
  return received;
}

}  // namespace hopfeed
