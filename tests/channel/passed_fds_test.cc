// Descriptors beside messages: none is lost, and none stays open that nobody has.
#include "channel/passed_fds.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>

namespace hopfeed {
namespace {

std::size_t open_fds() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(PassedFds, ComeInTheirOrder_AndAreClosedWithTheMessage) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  const OwnedFd one(pair[0]), other(pair[1]);
  const std::array<std::byte, 2> sent{std::byte{7}, std::byte{9}};
  const std::array<int, kMostPassedFds> fds{0, 1, 2};
  const std::size_t before = open_fds();
  ASSERT_EQ(send_with_fds(one.get(), sent, fds, 0), 2);
  {
    std::array<std::byte, 8> bytes{};
    const ReceivedMessage got = receive_with_fds(other.get(), bytes);
    EXPECT_EQ(got.bytes, 2);
    EXPECT_EQ(bytes[1], std::byte{9});
    EXPECT_EQ(got.fds.size(), kMostPassedFds);
    EXPECT_EQ(open_fds(), before + kMostPassedFds);
  }
  EXPECT_EQ(open_fds(), before);
}

// Where a message brings more than are sent here, the kernel makes as many as its own rounding has room for.
TEST(PassedFds, MoreThanThereAreUsesFor_AreClosedToo) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  const OwnedFd one(pair[0]), other(pair[1]);
  constexpr std::size_t kMany = 8;
  alignas(cmsghdr) char buffer[CMSG_SPACE(kMany * sizeof(int))] = {};
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = buffer;
  header.msg_controllen = sizeof(buffer);
  cmsghdr* const control = CMSG_FIRSTHDR(&header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(kMany * sizeof(int));
  std::memset(CMSG_DATA(control), 0, kMany * sizeof(int));  // of standard input, each
  const std::size_t before = open_fds();
  ASSERT_EQ(sendmsg(one.get(), &header, 0), 1);
  std::array<std::byte, 8> bytes{};
  EXPECT_EQ(receive_with_fds(other.get(), bytes).bytes, 1);
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace hopfeed
