// Addresses as users type them, and what a server says that cannot listen at one (F24).
#include "wire/address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <fstream>

#include "core/base/owned_fd.h"
#include "tests/support/expect_refused.h"
#include "tests/support/watchdog.h"
#include "tests/wire/wire_support.h"
#include "wire/listen.h"

namespace hopfeed::wire {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST(Address, IsReadAndWritten) {
  for (const char* text : {"127.0.0.1:9470", "feeder-1.example:0", "[::1]:65535", "[fe80::1%eth0]:1",
                           "unix:/run/hopfeed", "unix:relative path", "a_b:1"})
    EXPECT_EQ(parse_address(text).to_text(), text);
  const Address address = parse_address("[2001:db8::2]:9470");
  EXPECT_EQ(address.host, "2001:db8::2");
  EXPECT_EQ(address.port, 9470);
  EXPECT_EQ(parse_addresses("a:1,unix:b,[::1]:2").size(), 3u);
}

TEST(Address, KnowsThisMachine) {
  for (const char* text : {"127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1", "unix:/a"})
    EXPECT_TRUE(parse_address(text).is_local()) << text;
  for (const char* text :
       {"0.0.0.0:1", "10.0.0.1:1", "[::]:1", "127.example:1", "localhost.example:1", "[::2]:1"})
    EXPECT_FALSE(parse_address(text).is_local()) << text;
}

TEST(Address, IsRefusedWithAReason) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "the port is missing"},           {"host", "the port is missing"},
      {":9470", "the host is missing"},      {"host:", "is no number from 0"},
      {"host:65536", "is no number"},        {"host:-1", "is no number"},
      {"host:1x", "is no number"},           {"host: 1", "is no number"},
      {"::1:9470", "several colons"},        {"http://host:1", "several colons"},
      {"[::1]", "the port is missing"},      {"[::1:9470", "a ']' is missing"},
      {"[host]:1", "no IPv6 number"},        {"[::1]9470", "the port is missing"},
      {"ho st:1", "the host is no name"},    {"h/x:1", "the host is no name"},
      {"unix:", "the path is missing"},      {"a\nb:1", "control characters"},
      {"user@host:1", "the host is no name"}};
  for (const auto& [text, why] : kCases) expect_refused([t = text] { parse_address(t); }, why);
  expect_refused([] { parse_address("host:70000"); }, "'host:70000' is no address");
  expect_refused([] { parse_addresses("a:1,b:1,a:1"); }, "a:1 is given twice");
  expect_refused([] { parse_addresses("a:1,"); }, "'' is no address");
}

class Listening : public testing::WatchedTest<> {
 protected:
  Address file() const { return {.host = {}, .port = 0, .path = folder_.path() / "socket"}; }
  boost::asio::any_io_executor executor() { return io_.get_executor(); }
  /// A socket of somebody else, with that file as its name.
  OwnedFd bound(int kind) const {
    OwnedFd fd(socket(AF_UNIX, kind, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    file().path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (kind != SOCK_DGRAM) {
      EXPECT_EQ(listen(fd.get(), 1), 0);
    }
    return fd;
  }
  testing::TempFolder folder_;
  boost::asio::io_context io_;
};

TEST_F(Listening, PortZeroTellsThePortThatItGot) {
  const Listener listener(executor(), parse_address("127.0.0.1:0"));
  EXPECT_NE(listener.address().port, 0);
  EXPECT_EQ(listener.address().host, "127.0.0.1");
  const Listener other(executor(), parse_address("localhost:0"));
  EXPECT_NE(other.address().port, 0);
}

TEST_F(Listening, APortInUseIsNamed) {
  const Listener listener(executor(), parse_address("127.0.0.1:0"));
  expect_refused([&] { Listener(executor(), listener.address()); },
                 listener.address().to_text() + " is in use: another program listens there", ErrorCode::kIo);
}

TEST_F(Listening, AddressesOfOtherMachinesAreRefused) {
  expect_refused([&] { Listener(executor(), parse_address("192.0.2.1:0")); },
                 "this machine has no address 192.0.2.1:0");
  expect_refused([&] { Listener(executor(), parse_address("no-such-host.invalid:0")); },
                 "'no-such-host.invalid' is not known", ErrorCode::kNotFound);
}

TEST_F(Listening, ASocketFileIsItsUsersAlone) {
  {
    const Listener listener(executor(), file());
    EXPECT_EQ(fs::status(file().path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    expect_refused([&] { Listener(executor(), file()); }, "is in use: a server listens there",
                   ErrorCode::kIo);
  }
  EXPECT_FALSE(fs::exists(file().path));
}

TEST_F(Listening, TheSocketFileOfADeadServerIsReplaced) {
  for (const int kind : {SOCK_STREAM, SOCK_DGRAM}) {
    bound(kind);  // and closed
    ASSERT_TRUE(fs::exists(file().path));
    const Listener listener(executor(), file());
    EXPECT_TRUE(fs::is_socket(file().path));
  }
}

TEST_F(Listening, ALiveSocketOfAnotherKindIsLeftAlone) {
  for (const int kind : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    const OwnedFd other = bound(kind);
    expect_refused([&] { Listener(executor(), file()); },
                   "is in use: another program has a socket of another kind there", ErrorCode::kIo);
    EXPECT_TRUE(fs::is_socket(file().path));
    fs::remove(file().path);
  }
}

TEST_F(Listening, ASocketOfAnotherUserIsLeftAlone) {
  const OwnedFd other = bound(SOCK_STREAM);
  fs::permissions(folder_.path(), fs::perms::all);
  fs::permissions(file().path, fs::perms::none);  // even its owner may not use it
  const bool root = geteuid() == 0;
  ASSERT_EQ(root ? seteuid(65'534) : 0, 0);
  expect_refused([&] { Listener(executor(), file()); }, "is the socket of another user", ErrorCode::kIo);
  ASSERT_EQ(root ? seteuid(0) : 0, 0);
  EXPECT_TRUE(fs::is_socket(file().path));
}

TEST_F(Listening, WhatIsNoSocketIsLeftAlone) {
  std::ofstream(file().path) << "a file";
  expect_refused([&] { Listener(executor(), file()); }, "something that is no socket");
  EXPECT_TRUE(fs::is_regular_file(file().path));
  Address missing = file();
  missing.path += "/no/folder";
  EXPECT_THROW(Listener(executor(), missing), Error);
}

TEST_F(Listening, AnotherServersSocketFileIsNotRemoved) {
  std::optional<Listener> first(std::in_place, executor(), file());
  fs::remove(file().path);
  const Listener second(executor(), file());
  first.reset();
  EXPECT_TRUE(fs::exists(file().path));
}

// F23: no more files: connections wait in the operating system until there are some again.
TEST_F(Listening, WithoutFilesAcceptingPauses) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at memory, and takes what it may not look "
                  "at for damaged";
#endif
  Listener listener(executor(), parse_address("127.0.0.1:0"));
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(listener.address().port);
  target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const OwnedFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  boost::asio::steady_timer ready(io_, 1ms);  // what a wait needs is there before files are short
  ready.wait();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const OwnedFd next(dup(client.get()));
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next.get()), .rlim_max = before.rlim_max};
  ASSERT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&target), sizeof target), 0);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  bool accepted = false;
  boost::asio::co_spawn(
      io_,
      [](Listener& listener, bool& accepted) -> boost::asio::awaitable<void> {
        const Socket socket = co_await listener.accept();
        accepted = socket.is_open();
      }(listener, accepted),
      boost::asio::detached);
  while (listener.pauses() < 2) io_.run_one();
  EXPECT_FALSE(accepted);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  while (!accepted) io_.run_one();
  EXPECT_GE(listener.pauses(), 2u);
}

class Connecting : public testing::WatchedTest<>, public testing::WireFixture {
 protected:
  /// Nobody is there yet: never a refusal, which would not be tried again.
  std::string refusal(const Address& address) {
    const auto outcome = loop.start(Connection::connect(address, nullptr, 2s, {}));
    loop.run();
    EXPECT_EQ(outcome->code(), ErrorCode::kPeerDied) << outcome->what();
    return outcome->what();
  }
  static constexpr std::chrono::milliseconds kShort{100};
};

TEST_F(Connecting, WhoIsNotThereIsNamed) {
  Address nobody;
  {
    const Listener gone(loop.io.get_executor(), parse_address("127.0.0.1:0"));
    nobody = gone.address();
  }
  EXPECT_EQ(refusal(nobody),
            "server " + nobody.to_text() + " refuses connections; is hopfeed-server running there?");
  const Address file = address_for(testing::Transport::kUnix);
  EXPECT_EQ(refusal(file),
            "server " + file.to_text() + ": there is no such socket file; is hopfeed-server running?");
  EXPECT_NE(refusal(parse_address("no-such-host.invalid:1")).find("'no-such-host.invalid' is not known here"),
            std::string::npos);
}

TEST_F(Connecting, NamesAreResolved) {
  Listener listener(loop.io.get_executor(), parse_address("localhost:0"));
  const auto client = loop.start(Connection::connect(listener.address(), nullptr, 5s, {}));
  const auto server = loop.start(accept(listener, nullptr, {.side = Side::kServer, .peer = "client"}));
  loop.run();
  EXPECT_NE(client->get(), nullptr);
}

// Its queue is full, and nobody accepts: as a machine behind a firewall looks.
TEST_F(Connecting, WhoDoesNotAnswerIsWaitedForNoLongerThanTold) {
  Listener listener(loop.io.get_executor(), address_for(testing::Transport::kTcp));
  const auto outcome = loop.start(Connection::connect(listener.address(), client_tls(), kShort, {}));
  loop.run();
  EXPECT_EQ(outcome->code(), ErrorCode::kTimeout) << outcome->what();
}

}  // namespace
}  // namespace hopfeed::wire
