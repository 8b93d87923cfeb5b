// Who calls servers: the way in, what a server may say at any time, signs of life, and the waits between
// attempts.
#include "wire/caller.h"

#include <gtest/gtest.h>

#include "core/batch/batch_spec.h"
#include "tests/support/watchdog.h"
#include "tests/wire/wire_support.h"
#include "wire/heartbeat.h"

namespace hopfeed::wire {
namespace {

using testing::bytes_of;
using testing::Transport;
using testing::WirePair;
using namespace std::chrono_literals;

class Calling : public testing::WatchedTest<>, public testing::WireFixture {
 protected:
  Caller caller(Transport transport = Transport::kTcp) {
    return {.token = "a token of this test",
            .name = "test",
            .tls = transport == Transport::kTls ? client_tls() : nullptr,
            .connect_timeout = 5s,
            .frame_deadline = 5s};
  }
  /// A server that logs one caller in.
  asio::awaitable<std::unique_ptr<Connection>> answer(Listener& listener, Transport transport, Offer offer) {
    const ConnectionOptions options{.side = Side::kServer, .peer = "client"};
    const std::shared_ptr<TlsContext> tls = transport == Transport::kTls ? server_tls() : nullptr;
    auto connection = co_await accept(listener, tls, options);
    co_await login_as_server(*connection, "a token of this test", offer);
    co_return connection;
  }
  /// The next frame on this side.
  static asio::awaitable<FrameHeader> next(Connection& connection, Bytes& payload) {
    const FrameHeader header = co_await connection.read_header(5s);
    payload = co_await connection.read_payload(header);
    co_return header;
  }
};

TEST_F(Calling, EveryTransport_ConnectsAndLogsIn) {
  for (const Transport transport : {Transport::kTcp, Transport::kUnix, Transport::kTls}) {
    Listener listener(loop.io.get_executor(), address_for(transport));
    const auto server = loop.start(answer(listener, transport, {.server = "here"}));
    const Caller who = caller(transport);
    const auto client = loop.start(call_server(who, listener.address()));
    loop.run();
    server->get();
    const Contact contact = client->get();
    EXPECT_EQ(contact.offer.server, "here");
    EXPECT_EQ(contact.connection->peer(), "server " + listener.address().to_text());
    EXPECT_EQ(contact.connection->encrypted(), transport == Transport::kTls);
  }
}

TEST_F(Calling, ServerOfOtherRules_IsRefusedInTheCallersWords) {
  const std::string rules = std::to_string(BatchSpec::kRules), others = std::to_string(BatchSpec::kRules + 1);
  for (const bool draws : {false, true}) {
    Listener listener(loop.io.get_executor(), address_for(Transport::kTcp));
    const auto server = loop.start(answer(listener, Transport::kTcp, {.rules = BatchSpec::kRules + 1}));
    Caller who = caller();
    if (draws) who.does = "draws", who.since = "";
    const auto client = loop.start(call_server(who, listener.address()));
    loop.run();
    EXPECT_EQ(client->code(), ErrorCode::kVersion);
    EXPECT_EQ(client->what(), "server " + listener.address().to_text() +
                                  (draws ? " draws by rules " : " makes batches by rules ") + others +
                                  ", and this hopfeed by rules " + rules +
                                  (draws ? "" : ": their bytes differ") + "; use one version everywhere");
  }
}

TEST_F(Calling, WhatTheServerRefuses_IsThrownInItsName) {
  Listener listener(loop.io.get_executor(), address_for(Transport::kTcp));
  const auto server = loop.start([](Listener& at) -> asio::awaitable<void> {
    const ConnectionOptions options{.side = Side::kServer, .peer = "client"};
    const auto connection = co_await accept(at, nullptr, options);
    co_await connection->refuse(Error(ErrorCode::kNoSpace, "it is full"));
  }(listener));
  const Caller who = caller();
  const auto client = loop.start(call_server(who, listener.address()));
  loop.run();
  server->get();
  EXPECT_EQ(client->code(), ErrorCode::kNoSpace);
  EXPECT_EQ(client->what(), "server " + listener.address().to_text() + ": it is full");
}

TEST_F(Calling, NobodyThere_IsAnErrorThatNamesTheAddress) {
  const Address address = [&] {
    const Listener gone(loop.io.get_executor(), address_for(Transport::kTcp));
    return gone.address();
  }();
  const Caller who = caller();
  const auto client = loop.start(call_server(who, address));
  loop.run();
  EXPECT_EQ(client->code(), ErrorCode::kPeerDied);
  EXPECT_EQ(client->what(),
            "server " + address.to_text() + " refuses connections; is hopfeed-server running there?");
}

TEST_F(Calling, WhatAServerMaySayAtAnyTime_IsTakenAside) {
  WirePair pair = open();
  bool draining = false;
  Bytes payload;
  pair.server->send(FrameType::kPing, 7, bytes_of("are you there"));
  FrameHeader header = loop.now(next(*pair.client, payload));
  EXPECT_TRUE(take_aside(*pair.client, header, payload, draining));
  header = loop.now(next(*pair.server, payload));
  EXPECT_EQ(header.type, FrameType::kPong);
  EXPECT_EQ(header.request, 7U);
  EXPECT_EQ(payload, bytes_of("are you there"));
  EXPECT_TRUE(take_aside(*pair.client, {.type = FrameType::kPong}, {}, draining));
  EXPECT_FALSE(draining);
  EXPECT_TRUE(take_aside(*pair.client, {.type = FrameType::kDraining}, {}, draining));
  EXPECT_TRUE(draining);
  EXPECT_FALSE(take_aside(*pair.client, {.type = FrameType::kMeta}, {}, draining));
  const std::string peer = pair.client->peer();
  try {
    take_aside(*pair.client, {.type = FrameType::kRefused},
               to_bytes(Refusal{.code = ErrorCode::kNoSpace, .text = "it is full"}), draining);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
    EXPECT_EQ(error.what(), peer + ": it is full");
  }
  EXPECT_EQ(not_asked_for(*pair.client, FrameType::kMeta).what(),
            peer + " has sent META, which was not asked for; use one version of hopfeed on both sides");
}

TEST_F(Calling, SilentServer_IsSentPingEachThreeSecondsAndLeftAfterTen) {
  WirePair pair = open();
  const Heartbeat::Clock::time_point start{1h};
  Heartbeat heartbeat(Side::kClient, start);
  int pings = 0;
  for (auto at = 0ms; at <= 10'000ms; at += 500ms) {
    const std::size_t before = pair.client->queued() + pair.client->bytes_out();
    ASSERT_TRUE(heartbeat.look(*pair.client, start + at)) << at.count();
    const bool pinged = pair.client->queued() + pair.client->bytes_out() > before;
    EXPECT_EQ(pinged, at == 3'500ms || at == 7'000ms) << at.count();
    pings += pinged ? 1 : 0;
  }
  EXPECT_EQ(pings, 2);
  EXPECT_FALSE(heartbeat.look(*pair.client, start + 10'500ms));
  // Its word counts, whenever it comes.
  pair.server->send(FrameType::kPong, 0);
  Bytes payload;
  loop.now(next(*pair.client, payload));
  EXPECT_TRUE(heartbeat.look(*pair.client, start + 11'000ms));
}

TEST_F(Calling, ClientThatWasStopped_DoesNotTakeTheServerForDead) {
  WirePair pair = open();
  const Heartbeat::Clock::time_point start{1h};
  Heartbeat heartbeat(Side::kClient, start);
  EXPECT_TRUE(heartbeat.look(*pair.client, start + 1s));
  EXPECT_TRUE(heartbeat.look(*pair.client, start + 60s));
  EXPECT_TRUE(heartbeat.look(*pair.client, start + 61s));
}

TEST_F(Calling, SilentClient_IsLeftAfterTenSecondsUnlessNobodyListens) {
  WirePair pair = open();
  const Heartbeat::Clock::time_point start{1h};
  Heartbeat heartbeat(Side::kServer, start);
  for (auto at = 0s; at <= 10s; ++at) {
    ASSERT_TRUE(heartbeat.look(*pair.server, start + at)) << at.count();
    // A PING each second, where nothing is queued before it.
    EXPECT_EQ(pair.server->queued() > 0, at > 3s) << at.count();
    if (at != 10s) loop.now(pair.server->flush());
  }
  EXPECT_FALSE(heartbeat.look(*pair.server, start + 30s)) << "what is queued was not taken";
  heartbeat.set_deaf(true);
  EXPECT_TRUE(heartbeat.look(*pair.server, start + 60s));
  heartbeat.set_deaf(false);
}

TEST_F(Calling, WhatIsSkipped_IsForgottenAndTheNextFrameIsRead) {
  WirePair pair = open();
  const auto skipped = loop.start([](Connection& client) -> asio::awaitable<FrameHeader> {
    const FrameHeader long_one = co_await client.read_header(5s);
    co_await client.skip(long_one.bytes);
    co_return co_await client.read_header(5s);
  }(*pair.client));
  pair.server->send(FrameType::kRows, 1, testing::noise(200'001));
  pair.server->send(FrameType::kPong, 2);
  loop.run();
  EXPECT_EQ(skipped->get().request, 2U);
}

TEST(Backoffs, DoubleUpToTheLongestAndBeginAnew) {
  Backoff backoff(10ms, 1'000ms);
  for (const std::chrono::milliseconds wait : {10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1'000ms, 1'000ms})
    EXPECT_EQ(backoff.next(), wait);
  backoff.reset();
  EXPECT_EQ(backoff.next(), 10ms);
}

TEST(NamesOfProcesses, TellTheProcessAndItsRole) {
  const std::string name = name_of_this_process("machine", " peer");
  EXPECT_NE(name.find('/' + std::to_string(getpid()) + " peer"), std::string::npos) << name;
  EXPECT_LE(name.size(), 48U);
}

}  // namespace
}  // namespace hopfeed::wire
