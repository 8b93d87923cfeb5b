// Login: both sides prove that they know the token, without saying it; who speaks something else hears so in
// his own tongue (F18 to F21).
#include <gtest/gtest.h>
#include <malloc.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <fstream>

#include "core/base/limits.h"
#include "core/base/owned_fd.h"
#include "tests/support/expect_refused.h"
#include "tests/support/watchdog.h"
#include "tests/wire/wire_support.h"
#include "wire/connection.h"

namespace hopfeed::wire {
namespace {

using testing::bytes_of;
using testing::Outcome;
using testing::PairOptions;
using testing::WirePair;
using namespace std::chrono_literals;

constexpr const char* kToken = "a token that nobody guesses";

class LoggingIn : public testing::WatchedTest<>, public testing::WireFixture {
 protected:
  struct Both {
    std::shared_ptr<Outcome<std::string>> server;
    std::shared_ptr<Outcome<Offer>> client;
  };
  Both log_in(const WirePair& pair, const std::string& server_token, const std::string& client_token) {
    const Offer offer{.software = "hopfeed test", .server = "here", .datasets = {{"d", "f"}}};
    Both both;
    both.server = loop.start(login_as_server(*pair.server, server_token, offer));
    both.client = loop.start(login_as_client(*pair.client, client_token, "trainer-1"));
    loop.run();
    return both;
  }
  /// A plain socket whose other end a server logs in.
  struct Raw {
    Socket socket;
    std::unique_ptr<Connection> server;
    std::shared_ptr<Outcome<std::string>> login;
  };
  Raw raw(const std::string& token = "", std::chrono::milliseconds login = 5s) {
    Raw raw{.socket = Socket(loop.io), .server = nullptr, .login = nullptr};
    Socket other(loop.io);
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    raw.socket.assign({AF_UNIX, 0}, fds[0]);
    other.assign({AF_UNIX, 0}, fds[1]);
    raw.server = std::make_unique<Connection>(
        std::move(other), nullptr,
        ConnectionOptions{.side = Side::kServer, .peer = "client", .login_deadline = login});
    raw.login = loop.start(login_as_server(*raw.server, token, {}));
    return raw;
  }
  /// Sends bytes as they are, waits for the end of the login and gives what came back.
  std::string answer_to(Raw& raw, const std::string& bytes) {
    asio::write(raw.socket, asio::buffer(bytes));
    raw.socket.shutdown(Socket::shutdown_send);
    loop.run();
    return rest(raw);
  }
  static std::string rest(Raw& raw) {
    std::string came;
    boost::system::error_code end;
    asio::read(raw.socket, asio::dynamic_buffer(came), end);
    return came;
  }
  static std::string frame(FrameType type, const Bytes& payload) {
    std::array<std::byte, kFrameHeaderBytes> header;
    write_header({.type = type, .bytes = payload.size()}, header);
    std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    return text.append(reinterpret_cast<const char*>(payload.data()), payload.size());
  }
  static Refusal refusal_in(const std::string& came, std::size_t at = 0) {
    EXPECT_GE(came.size(), at + kFrameHeaderBytes + 4);
    const auto bytes = std::as_bytes(std::span(came)).subspan(at);
    const FrameHeader header = read_header(bytes.first<kFrameHeaderBytes>(), Side::kClient, Phase::kLogin);
    EXPECT_EQ(header.type, FrameType::kRefused);
    return from_bytes<Refusal>(bytes.subspan(kFrameHeaderBytes));
  }
};

TEST_F(LoggingIn, WithTheSameTokenBothKnowEachOther) {
  for (const std::string token : {"", kToken}) {
    const WirePair pair = connect();
    const Both both = log_in(pair, token, token);
    EXPECT_EQ(both.server->get(), "trainer-1");
    EXPECT_EQ(both.client->get().datasets.at(0).name, "d");
    pair.client->send(FrameType::kGetStatus, 1);
    EXPECT_EQ(loop.now(pair.server->read_header(0ms)).type, FrameType::kGetStatus);
  }
}

// F21
TEST_F(LoggingIn, WithAnotherTokenNobodyGetsIn) {
  const WirePair pair = connect();
  const Both both = log_in(pair, kToken, "another token than that");
  EXPECT_EQ(both.client->code(), ErrorCode::kInvalid);
  EXPECT_NE(both.client->what().find("the token is another than this server's"), std::string::npos);
  for (const std::string& what : {both.client->what(), both.server->what()}) {
    EXPECT_EQ(what.find("nobody guesses"), std::string::npos);
    EXPECT_EQ(what.find("another token than that"), std::string::npos);
  }
  EXPECT_TRUE(pair.server->closed());
}

TEST_F(LoggingIn, WhoLacksATokenIsToldSo) {
  const WirePair pair = connect();
  const Both both = log_in(pair, kToken, "");
  EXPECT_NE(both.client->what().find("wants a token; give token_file"), std::string::npos)
      << both.client->what();
}

TEST_F(LoggingIn, AServerThatCannotProveTheTokenIsNotTrusted) {
  const WirePair pair = connect();
  EXPECT_NE(log_in(pair, "", kToken).client->what().find("cannot show that it knows yours"),
            std::string::npos);
  // One that only says that it wants one: it repeats the client's own proof.
  const WirePair other = connect();
  const auto client = loop.start(login_as_client(*other.client, kToken, "trainer-1"));
  const auto liar = loop.start([](Connection& server) -> asio::awaitable<void> {
    FrameHeader header = co_await server.read_header(0ms);
    co_await server.read_payload(header);
    server.send(FrameType::kChallenge, 0, to_bytes(Challenge{.wants_token = true, .nonce = new_nonce()}));
    header = co_await server.read_header(0ms);
    const auto login = from_bytes<Login>(co_await server.read_payload(header));
    server.send(FrameType::kWelcome, 0, to_bytes(Welcome{.proof = login.proof, .offer = {}}));
    co_await server.flush();
  }(*other.server));
  loop.run();
  liar->get();
  EXPECT_EQ(client->code(), ErrorCode::kInvalid);
  EXPECT_NE(client->what().find("does not know the token"), std::string::npos) << client->what();
}

// F21: what was heard once opens nothing.
TEST_F(LoggingIn, ALoginThatIsReplayedIsRefused) {
  const Nonce nonce = new_nonce();
  const Hello hello{.nonce = nonce, .name = "trainer-1"};
  Raw first = raw(kToken);
  asio::write(first.socket, asio::buffer(frame(FrameType::kHello, to_bytes(hello))));
  const auto challenge_of = [&](Raw& from) {
    std::string came(kFrameHeaderBytes + 4 + kNonceBytes, '\0');
    while (from.socket.available() < came.size()) loop.io.run_one();
    asio::read(from.socket, asio::buffer(came));
    return from_bytes<Challenge>(std::as_bytes(std::span(came)).subspan(kFrameHeaderBytes));
  };
  const Challenge challenge = challenge_of(first);
  const std::string login = frame(
      FrameType::kLogin,
      to_bytes(Login{.proof = make_proof("client", kToken, challenge.version, nonce, challenge.nonce)}));
  asio::write(first.socket, asio::buffer(login));
  loop.run();
  EXPECT_EQ(first.login->get(), "trainer-1");
  Raw second = raw(kToken);
  asio::write(second.socket, asio::buffer(frame(FrameType::kHello, to_bytes(hello))));
  challenge_of(second);
  EXPECT_NE(refusal_in(answer_to(second, login)).text.find("the token is another"), std::string::npos);
  EXPECT_EQ(second.login->code(), ErrorCode::kInvalid);
}

TEST_F(LoggingIn, AnotherVersionIsRefusedNamingBoth) {
  Raw other = raw();
  const Refusal refusal = refusal_in(answer_to(
      other, frame(FrameType::kHello, to_bytes(Hello{.min_version = 6, .max_version = 8, .name = "new"}))));
  EXPECT_EQ(refusal.code, ErrorCode::kVersion);
  EXPECT_EQ(refusal.text,
            "this server speaks protocol 1 to 5, and the client 6 to 8; use one version on both sides");
  // A newer client that knows this version too is taken.
  Raw newer = raw();
  asio::write(newer.socket,
              asio::buffer(frame(FrameType::kHello, to_bytes(Hello{.max_version = 8, .name = "new"})) +
                           frame(FrameType::kLogin, to_bytes(Login{}))));
  loop.run();
  EXPECT_EQ(newer.login->get(), "new");
}

// F20
TEST_F(LoggingIn, WhoSpeaksSomethingElseHearsOneLine) {
  for (const std::string& bytes :
       {std::string("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n"), std::string("GET / \n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(200, 'x'),
        std::string("SSH-2.0-x\r\n"), std::string("x"), std::string(100'000, '\0'),
        std::string("HPF2") + std::string(100, 'y')}) {
    Raw other = raw();
    const std::string came = answer_to(other, bytes);
    EXPECT_NE(came.find("hopfeed's protocol 5 (frames 'HPF1') is spoken here, and what came is"),
              std::string::npos)
        << came;
    EXPECT_EQ(came.starts_with("HTTP/1.1 400 "), bytes.starts_with("GET ")) << came;
    EXPECT_TRUE(came.ends_with("\r\n"));
    EXPECT_EQ(other.login->code(), ErrorCode::kCorrupt);
    EXPECT_TRUE(other.server->closed());
  }
}

// F19
TEST_F(LoggingIn, FramesOutOfTurnAreRefused) {
  const std::string hello = frame(FrameType::kHello, to_bytes(Hello{.name = "n"}));
  for (const std::string& bytes :
       {frame(FrameType::kLogin, to_bytes(Login{})), hello + hello, frame(FrameType::kGetMeta, bytes_of("d")),
        frame(FrameType::kSeeds, bytes_of("s")), frame(FrameType::kWelcome, Bytes(40)),
        frame(FrameType::kHello, {}), frame(FrameType::kHello, Bytes(164, std::byte{255}))}) {
    Raw other = raw();
    const std::string came = answer_to(other, bytes);
    const std::size_t at =
        bytes.starts_with(hello) ? kFrameHeaderBytes + 4 + kNonceBytes : 0;  // behind CHALLENGE
    EXPECT_FALSE(refusal_in(came, at).text.empty());
    EXPECT_TRUE(other.login->error);
    EXPECT_TRUE(other.server->closed());
  }
}

// F18
TEST_F(LoggingIn, WhoSaysNothingIsLeftAfterTheDeadline) {
  Raw silent = raw("", 30ms);
  loop.run();
  EXPECT_EQ(silent.login->code(), ErrorCode::kTimeout);
  EXPECT_EQ(silent.login->what(), "client did not log in in time");
  EXPECT_TRUE(silent.server->closed());
}

// F18: each byte of his own in time, the whole never.
TEST_F(LoggingIn, WhoTricklesIsLeftAfterTheDeadlineOfTheWhole) {
  Raw slow = raw("", 60ms);
  const std::string hello = frame(FrameType::kHello, to_bytes(Hello{.name = "slow"}));
  const auto trickle = loop.start([](Socket& socket, std::string bytes) -> asio::awaitable<void> {
    for (const char c : bytes) {
      boost::system::error_code error;
      asio::write(socket, asio::buffer(&c, 1), error);
      if (error) break;
      co_await testing::pause(10ms);
    }
  }(slow.socket, hello));
  loop.run();
  EXPECT_EQ(slow.login->code(), ErrorCode::kTimeout) << slow.login->what();
}

// F19: a header alone takes no memory, whatever it promises.
TEST_F(LoggingIn, BeforeLoginNothingLargeIsAllocated) {
  const auto in_use = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  Raw other = raw();
  loop.poll();
  const std::size_t before = in_use();
  std::array<std::byte, kFrameHeaderBytes> header;
  write_header({.type = FrameType::kHello, .bytes = max_payload(FrameType::kHello)}, header);
  asio::write(other.socket, asio::buffer(header));
  loop.poll();
  EXPECT_LE(in_use(), before + kMaxLoginBytes);
  asio::write(other.socket, asio::buffer(Bytes(max_payload(FrameType::kHello) / 2)));
  loop.poll();
  EXPECT_LE(in_use(), before + kMaxLoginBytes);
  other.server->close();
  loop.run();
}

TEST(Proofs, DifferByRoleTokenVersionAndNonces) {
  const Nonce a = new_nonce(), b = new_nonce();
  EXPECT_NE(a, b);
  const Proof proof = make_proof("client", kToken, 1, a, b);
  EXPECT_TRUE(same_proof(proof, make_proof("client", kToken, 1, a, b)));
  for (const Proof& other :
       {make_proof("server", kToken, 1, a, b), make_proof("client", "another token", 1, a, b),
        make_proof("client", kToken, 2, a, b), make_proof("client", kToken, 1, b, a)})
    EXPECT_FALSE(same_proof(proof, other));
  EXPECT_EQ(make_proof("client", "", 1, a, b), Proof{});
}

// RFC 4231's way of checking: a number that another program computed, here Python's hmac.
TEST(Proofs, AreWhatTheProtocolSays) {
  Nonce client, server;
  client.fill(std::byte{1});
  server.fill(std::byte{2});
  const Proof proof = make_proof("client", "0123456789abcdef", 1, client, server);
  std::string hex;
  for (const std::byte byte : proof) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<int>(byte) >> 4];
    hex += kDigits[static_cast<int>(byte) & 15];
  }
  EXPECT_EQ(hex, "e979b5caae22c831490a05b65b27878f5d0711274e90a29b5bc1ca3eb67a614b");
}

TEST(Tokens, AreReadFromAFileOrTheEnvironment) {
  const testing::TempFolder folder;
  const std::string file = folder.path() / "token";
  unsetenv("HOPFEED_TOKEN");
  EXPECT_EQ(read_token(""), "");
  std::ofstream(file) << kToken;
  expect_refused([&] { read_token(file); }, "without spaces");
  std::ofstream(file) << "0123456789abcdef\r\n";
  EXPECT_EQ(read_token(file), "0123456789abcdef");
  setenv("HOPFEED_TOKEN", "fedcba9876543210", 1);
  EXPECT_EQ(read_token(""), "fedcba9876543210");
  EXPECT_EQ(read_token(file), "0123456789abcdef");
  setenv("HOPFEED_TOKEN", "short", 1);
  expect_refused([] { read_token(""); }, "HOPFEED_TOKEN has 5 characters");
  setenv("HOPFEED_TOKEN", "", 1);
  EXPECT_EQ(read_token(""), "") << "empty is none";
  unsetenv("HOPFEED_TOKEN");
  for (const char* bad :
       {"", "\n", "0123456789abcdef\n0123456789abcdef\n", "0123456789 abcdef", "0123456789abcde\x80"}) {
    std::ofstream(file) << bad;
    expect_refused([&] { read_token(file); }, "token file '" + file + "'");
  }
  expect_refused([&] { read_token(file + ".missing"); }, "cannot read token file", ErrorCode::kNotFound);
  expect_refused([&] { read_token(folder.path()); }, "cannot read token file", ErrorCode::kInvalid);
}

}  // namespace
}  // namespace hopfeed::wire
