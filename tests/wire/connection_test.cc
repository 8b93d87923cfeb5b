// A connection, plain, over a socket file and under TLS: what is sent arrives, in order and whole, however it
// is cut up; and each wait ends.
#include "wire/connection.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "core/base/limits.h"
#include "tests/support/watchdog.h"
#include "tests/wire/proxy.h"
#include "tests/wire/wire_support.h"

namespace hopfeed::wire {
namespace {

using testing::bytes_of;
using testing::Loop;
using testing::noise;
using testing::Outcome;
using testing::PairOptions;
using testing::Proxy;
using testing::Transport;
using testing::WirePair;
using namespace std::chrono_literals;

class ConnectionOver : public testing::WatchedTestWithParam<Transport>, public testing::WireFixture {
 protected:
  WirePair open(PairOptions options = {}) {
    options.transport = GetParam();
    return WireFixture::open(options);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, ConnectionOver,
                         ::testing::Values(Transport::kTcp, Transport::kUnix, Transport::kTls,
                                           Transport::kOlder),
                         [](const auto& info) { return testing::name_of(info.param); });

/// Reads one whole frame.
asio::awaitable<std::pair<FrameHeader, Bytes>> read_frame(Connection& connection,
                                                          std::chrono::milliseconds idle = 0ms) {
  const FrameHeader header = co_await connection.read_header(idle);
  Bytes payload = co_await connection.read_payload(header);
  co_return std::pair{header, std::move(payload)};
}

/// Reads a BLOCK frame into `to`, as a client does.
asio::awaitable<BlockHead> read_whole_block(Connection& connection, Bytes& to) {
  const FrameHeader header = co_await connection.read_header(0ms);
  Bytes head(kBlockHeadBytes);
  co_await connection.read(head);
  to.resize(connection.block_bytes(header));
  co_await connection.read_block(to);
  co_return from_bytes<BlockHead>(head);
}

TEST_P(ConnectionOver, SmallFramesArriveInOrder) {
  const WirePair pair = open();
  constexpr std::uint64_t kFrames = 5'000;
  for (std::uint64_t i = 0; i < kFrames; ++i)
    pair.client->send(FrameType::kPing, i, noise(i % (kMaxPingBytes + 1), i));
  loop.now([](Connection& server) -> asio::awaitable<void> {
    for (std::uint64_t i = 0; i < kFrames; ++i) {
      const auto [header, payload] = co_await read_frame(server);
      EXPECT_EQ(header.type, FrameType::kPing);
      EXPECT_EQ(header.request, i);
      EXPECT_EQ(payload, noise(i % (kMaxPingBytes + 1), i));
    }
  }(*pair.server));
}

TEST_P(ConnectionOver, WhoSendsWithoutAPause_LeavesTheOthersTheirTurn) {
  const WirePair pair = open();
  constexpr std::uint64_t kFrames = 20'000;
  for (std::uint64_t i = 0; i < kFrames; ++i) pair.client->send(FrameType::kPing, i);
  loop.io.poll();  // what the socket takes is there
  std::uint64_t read = 0, longest = 0;
  const auto others =
      loop.start([](const std::uint64_t& read, std::uint64_t& longest) -> asio::awaitable<void> {
        for (std::uint64_t before = read; read < kFrames; before = read) {
          co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
          longest = std::max(longest, read - before);
        }
      }(read, longest));
  loop.now([](Connection& server, std::uint64_t& read) -> asio::awaitable<void> {
    for (; read < kFrames; ++read) co_await read_frame(server);
  }(*pair.server, read));
  EXPECT_LT(longest, 2'000u) << "frames in one turn, which are read ahead in far larger numbers";
}

TEST_P(ConnectionOver, BlocksOfAllSizesArriveWhole) {
  const WirePair pair = open();
  const std::vector<std::size_t> sizes{1,         23,      16 << 10, (16 << 10) + 1, 300'000, 5'000'001,
                                       256 << 10, 1 << 20, 64};
  std::vector<Bytes> blocks;
  int sent = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    blocks.push_back(noise(sizes[i], i));
    pair.server->send_block(i, {.worker = 7, .sampling = 11, .gathering = 13}, blocks[i],
                            [&](bool whole) { sent += whole; });
    pair.server->send(FrameType::kDropped, i);
  }
  const auto flushed = loop.start(pair.server->flush());
  loop.now([](Connection& client, const std::vector<Bytes>& blocks) -> asio::awaitable<void> {
    for (const Bytes& block : blocks) {
      Bytes read;
      const BlockHead head = co_await read_whole_block(client, read);
      EXPECT_EQ(head.worker, 7u);
      EXPECT_EQ(head.sampling, 11);
      EXPECT_EQ(head.gathering, 13);
      EXPECT_TRUE(read == block) << "a block of " << block.size();
      const auto [header, payload] = co_await read_frame(client);
      EXPECT_EQ(header.type, FrameType::kDropped);
    }
  }(*pair.client, blocks));
  flushed->get();
  EXPECT_EQ(sent, static_cast<int>(sizes.size()));
  EXPECT_EQ(pair.server->queued(), 0u);
  EXPECT_GE(pair.server->bytes_out(), 6'000'000u);
}

TEST_P(ConnectionOver, LargePayloadsThatAreSharedArrive) {
  const WirePair pair = open();
  const auto seeds = std::make_shared<const Bytes>(noise(9'000'000));
  pair.client->send(FrameType::kSeeds, 3, seeds);
  pair.client->send(FrameType::kSeeds, 4, *seeds);
  for (int i = 0; i < 2; ++i) {
    const auto [header, payload] = loop.now(read_frame(*pair.server));
    EXPECT_EQ(header.type, FrameType::kSeeds);
    EXPECT_TRUE(payload == *seeds);
  }
}

TEST_P(ConnectionOver, WhoIsClosedTellsWhoWaits) {
  const WirePair pair = open();
  const auto reading = loop.start(read_frame(*pair.client));
  loop.poll();
  pair.server->close();
  loop.run();
  EXPECT_EQ(reading->code(), ErrorCode::kPeerDied);
  EXPECT_NE(reading->what().find("closed the connection"), std::string::npos) << reading->what();
  EXPECT_TRUE(pair.client->closed());
  EXPECT_EQ(pair.client->why_closed(), reading->what());
}

TEST_P(ConnectionOver, ItsOwnCloseEndsItsWaits) {
  const WirePair pair = open();
  const auto reading = loop.start(read_frame(*pair.client));
  loop.poll();
  pair.client->close();
  loop.run();
  EXPECT_EQ(reading->code(), ErrorCode::kPeerDied);
  EXPECT_FALSE(pair.client->why_closed().empty());
}

TEST_P(ConnectionOver, BlocksThatDidNotLeaveAreGivenBackOnce) {
  WirePair pair = open();
  const Bytes block = noise(30 << 20);  // more than sockets take
  std::vector<bool> told;
  for (int i = 0; i < 3; ++i) pair.server->send_block(1, {}, block, [&](bool sent) { told.push_back(sent); });
  loop.poll();
  EXPECT_TRUE(told.empty());
  EXPECT_GT(pair.server->queued(), block.size());
  pair.server.reset();
  EXPECT_EQ(told, (std::vector<bool>{false, false, false}));
}

TEST_P(ConnectionOver, ABlockForOneThatHasEndedIsGivenBackAtOnce) {
  const WirePair pair = open();
  pair.server->close();
  const Bytes block = noise(100);
  std::vector<bool> told;
  pair.server->send_block(1, {}, block, [&](bool sent) { told.push_back(sent); });
  EXPECT_EQ(told, std::vector<bool>{false});
}

TEST_P(ConnectionOver, AnIdleDeadlineLeavesTheConnectionOpen) {
  const WirePair pair = open();
  const auto first = loop.start(read_frame(*pair.client, 20ms));
  loop.run();
  EXPECT_EQ(first->code(), ErrorCode::kTimeout);
  EXPECT_FALSE(pair.client->closed());
  pair.server->send(FrameType::kPing, 5, bytes_of("there"));
  EXPECT_EQ(loop.now(read_frame(*pair.client, 10s)).second, bytes_of("there"));
}

// F18
TEST_P(ConnectionOver, WhoReadsNothingIsLeftAfterTheDeadline) {
  PairOptions options;
  options.server.frame_deadline = 50ms;
  const WirePair pair = open(options);
  const Bytes block = noise(30 << 20);
  std::vector<bool> told;
  pair.server->send_block(1, {}, block, [&](bool sent) { told.push_back(sent); });
  loop.now(pair.server->flush());
  EXPECT_TRUE(pair.server->closed());
  EXPECT_EQ(told, std::vector<bool>{false});
  EXPECT_NE(pair.server->why_closed().find("has taken nothing for 50 ms"), std::string::npos)
      << pair.server->why_closed();
}

// Under TLS the last bytes wait, encrypted, behind an empty queue.
TEST_P(ConnectionOver, WhoHasTakenAllInTheEndIsNotLeft) {
  PairOptions options;
  options.server.frame_deadline = 500ms;
  const WirePair pair = open(options);
  const Bytes block = noise(16 << 10);
  int sent = 0;
  for (bool blocked = false; !blocked; ++sent) {
    pair.server->send_block(static_cast<std::uint64_t>(sent), {}, block, nullptr);
    const auto flushed = loop.start(pair.server->flush());
    loop.poll();
    blocked = !flushed->value;
  }
  loop.now([](Connection& client, int sent) -> asio::awaitable<void> {
    Bytes read;
    for (int i = 0; i < sent; ++i) co_await read_whole_block(client, read);
    co_await testing::pause(700ms);
  }(*pair.client, sent));
  EXPECT_FALSE(pair.server->closed()) << pair.server->why_closed();
}

// F18
TEST_P(ConnectionOver, AFrameThatStopsInItsMiddleEndsTheConnection) {
  PairOptions options;
  options.client.frame_deadline = 50ms;
  const WirePair pair = open(options);
  // A header that promises more than comes: another type of the same length, its payload too short.
  pair.server->send(FrameType::kPing, 5, noise(10));
  const auto reading = loop.start([](Connection& client) -> asio::awaitable<void> {
    const FrameHeader header = co_await client.read_header(0ms);
    Bytes more(header.bytes + kChecksumBytes + 1);
    co_await client.read(more);
  }(*pair.client));
  loop.run();
  EXPECT_EQ(reading->code(), ErrorCode::kTimeout);
  EXPECT_NE(reading->what().find("stopped in the middle of a frame"), std::string::npos) << reading->what();
  EXPECT_TRUE(pair.client->closed());
}

TEST_P(ConnectionOver, WhoIsIdleHoldsLittle) {
  const auto in_use = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  constexpr std::size_t kPairs = 20, kMostOfEach = 100'000;
  std::vector<WirePair> pairs;
  pairs.push_back(open());  // what the first one makes is everybody's
  const std::size_t before = in_use();
  const Bytes block = noise(3'000'000);
  for (std::size_t i = 0; i < kPairs; ++i) {
    WirePair& pair = pairs.emplace_back(open());
    pair.server->send_block(1, {}, block, nullptr);  // has been busy
    Bytes read;
    loop.now([](Connection& client, Bytes& read) -> asio::awaitable<void> {
      co_await read_whole_block(client, read);
    }(*pair.client, read));
    loop.start(read_frame(*pair.client, 1ms));  // and rests now
    loop.start(read_frame(*pair.server, 1ms));
    loop.run();
  }
  const std::size_t pooled = 2 << 20;  // buffers of all
  EXPECT_LT(in_use(), before + block.size() + pooled + 2 * kPairs * kMostOfEach);
}

class ThroughAProxy : public testing::WatchedTest<>, public testing::WireFixture {
 protected:
  /// Through a proxy; both are logged in.
  WirePair open_through(const testing::ProxyOptions& rules, bool tls,
                        std::chrono::milliseconds frame_deadline = 30s) {
    listener_.emplace(loop.io.get_executor(), address_for(Transport::kTcp));
    proxy_.emplace(listener_->address(), rules);
    const auto client =
        loop.start(Connection::connect(proxy_->address(), tls ? client_tls() : nullptr, 10s,
                                       {.side = Side::kClient, .frame_deadline = frame_deadline}));
    const auto server =
        loop.start(accept(*listener_, tls ? server_tls() : nullptr,
                          {.side = Side::kServer, .peer = "client", .frame_deadline = frame_deadline}));
    loop.run();
    WirePair pair{.server = server->get(), .client = client->get()};
    const auto there = loop.start(login_as_server(*pair.server, "a token of this test", {}));
    const auto here = loop.start(login_as_client(*pair.client, "a token of this test", "test"));
    loop.run();
    EXPECT_EQ(there->get(), "test");
    here->get();
    return pair;
  }
  std::optional<Listener> listener_;
  std::optional<Proxy> proxy_;
};

// F17
TEST_F(ThroughAProxy, SingleBytesAreJoinedAgain) {
  for (const bool tls : {false, true}) {
    const WirePair pair =
        open_through({.to_server = {.most_at_once = 1}, .to_client = {.most_at_once = 1}}, tls);
    const Bytes block = noise(40'000);
    pair.server->send_block(9, {}, block, nullptr);
    Bytes read;
    loop.now([](Connection& client, Bytes& read) -> asio::awaitable<void> {
      co_await read_whole_block(client, read);
    }(*pair.client, read));
    EXPECT_TRUE(read == block);
  }
}

// F19
TEST_F(ThroughAProxy, AChangedBitOfABlockIsSeen) {
  for (const bool tls : {false, true}) {
    const WirePair pair = open_through({.to_client = {.flip_at = 100'000}}, tls);
    const Bytes block = noise(300'000);
    pair.server->send_block(9, {}, block, nullptr);
    Bytes read;
    const auto reading = loop.start([](Connection& client, Bytes& read) -> asio::awaitable<void> {
      co_await read_whole_block(client, read);
    }(*pair.client, read));
    loop.run();
    EXPECT_EQ(reading->code(), ErrorCode::kCorrupt) << reading->what();
  }
}

/// Whether a frame that a side has sent is the one that came; an error where it was seen to be another.
struct Came {
  bool same = false;
  std::optional<ErrorCode> error;
};

class ChangedBits : public ThroughAProxy {
 protected:
  static constexpr std::size_t kPayload = 40;
  static constexpr std::size_t kFrame = kFrameHeaderBytes + kPayload + kChecksumBytes, kNowhere = SIZE_MAX;
  /// One frame of `type` either way, with a bit of its byte `at` turned over.
  Came through(FrameType type, bool to_client, std::size_t at, std::uint64_t login,
               std::chrono::milliseconds frame_deadline) {
    testing::PassingOn rules;
    if (at != kNowhere) rules.flip_at = login + at;
    const WirePair pair = open_through(
        to_client ? testing::ProxyOptions{.to_client = rules} : testing::ProxyOptions{.to_server = rules},
        /*tls=*/false, frame_deadline);
    login_ = to_client ? pair.client->bytes_in() : pair.server->bytes_in();
    const Bytes payload = noise(kPayload);
    const auto send = [&](Connection& connection) {
      if (type == FrameType::kBlock)
        connection.send_block(7, {.worker = 1}, payload, nullptr);
      else
        connection.send(type, 7, payload);
    };
    send(to_client ? *pair.server : *pair.client);
    const auto reading = loop.start(read_frame(to_client ? *pair.client : *pair.server));
    loop.run();
    if (reading->error) return {.same = false, .error = reading->code()};
    const auto [header, got] = reading->get();
    return {.same = header.type == type && header.request == 7 &&
                    std::ranges::equal(std::span(got).last(std::min(got.size(), kPayload)), payload),
            .error = {}};
  }
  std::uint64_t login_ = 0;  // bytes of login in that direction
};

TEST_F(ChangedBits, AnywhereInAFrameAreSeen) {
  for (const auto& [type, to_client] :
       {std::pair{FrameType::kRows, true}, std::pair{FrameType::kBlock, true},
        std::pair{FrameType::kGetMeta, false}, std::pair{FrameType::kSeeds, false}}) {
    const std::size_t frame = kFrame + (type == FrameType::kBlock ? kBlockHeadBytes : 0);
    EXPECT_TRUE(through(type, to_client, kNowhere, 0, 30s).same) << name_of(type);
    const std::uint64_t login = login_;
    for (std::size_t at = 0; at < frame; ++at) {
      // Then the frame seems to be longer by 16 MiB or more, and as many seconds are given for these.
      if ((at == 19 || at == 20) && max_payload(type) > (std::uint64_t{1} << 24)) continue;
      const Came came = through(type, to_client, at, login, 100ms);  // one that seems to be longer never ends
      EXPECT_TRUE(came.error) << name_of(type) << " at byte " << at << (came.same ? ", the same" : "");
    }
  }
}

TEST_F(ThroughAProxy, FramesThatComeTwiceComeTwice) {
  const WirePair pair = open_through({.to_client = {.replay = 1}}, false);
  pair.server->send(FrameType::kDropped, 1);
  pair.server->send(FrameType::kDropped, 2);
  std::vector<std::uint64_t> came;
  for (int i = 0; i < 4; ++i) came.push_back(loop.now(read_frame(*pair.client)).first.request);
  EXPECT_EQ(came, (std::vector<std::uint64_t>{1, 1, 2, 2}));
  EXPECT_EQ(proxy_->replayed(), 2);
}

TEST_F(ThroughAProxy, CutsEndTheWaitsOfBothSides) {
  const WirePair pair = open_through({}, false);
  EXPECT_EQ(proxy_->open_connections(), 1);
  const auto here = loop.start(read_frame(*pair.client)), there = loop.start(read_frame(*pair.server));
  loop.poll();
  proxy_->cut();
  loop.run();
  EXPECT_EQ(here->code(), ErrorCode::kPeerDied) << here->what();
  EXPECT_EQ(there->code(), ErrorCode::kPeerDied) << there->what();
}

TEST_F(ThroughAProxy, AHalfClosedConnectionEnds) {
  const WirePair pair = open_through({}, true);
  const auto here = loop.start(read_frame(*pair.client));
  loop.poll();
  proxy_->half_close_to_client();
  loop.run();
  EXPECT_EQ(here->code(), ErrorCode::kPeerDied) << here->what();
}

}  // namespace
}  // namespace hopfeed::wire
