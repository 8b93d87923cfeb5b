// A server seen by a client that speaks the protocol frame by frame. The oracle makes each batch in this
// process.
#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/json_text.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/seeds/node_set.h"
#include "tests/server_client_mode/server_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerSession : public ServerTest {};

TEST_F(ServerSession, OffersItsDatasetsAndGivesTheirMetadata) {
  Server server(server_options());
  RawClient client(server.address());
  ASSERT_EQ(client.offer().datasets.size(), 1U);
  EXPECT_EQ(client.offer().datasets[0].fingerprint, spec().fingerprint);
  const RawClient::Frame meta = client.ask(FrameType::kGetMeta, 7);
  ASSERT_EQ(meta.type(), FrameType::kMeta);
  EXPECT_EQ(meta.header.request, 7U);
  EXPECT_EQ(parse_meta(meta.text(), "wire").fingerprint, spec().fingerprint);
  const RawClient::Frame other =
      client.ask(FrameType::kGetMeta, 8, wire::to_bytes(std::string_view("other")));
  ASSERT_EQ(other.type(), FrameType::kRefused);
  EXPECT_EQ(other.refusal().code, ErrorCode::kNotFound);
  EXPECT_NE(other.refusal().text.find("no dataset 'other'; it has "), std::string::npos)
      << other.refusal().text;
}

TEST_F(ServerSession, BatchesAskedForInAnyOrder_AreThoseOfTheOracle) {
  Server server(server_options());
  RawClient client(server.address());
  EXPECT_EQ(open(client).num_seeds, kSeeds);
  std::map<std::uint64_t, std::string> got;
  for (std::uint64_t number = 40; number-- > 0;) ask(client, number);
  while (got.size() < 40) {
    const RawClient::Frame frame = client.next();
    ASSERT_EQ(frame.type(), FrameType::kBlock);
    EXPECT_TRUE(got.emplace(frame.header.request, line(frame)).second) << "twice";
    EXPECT_GT(frame.head.sampling, 0);
  }
  for (const auto& [number, text] : got) EXPECT_EQ(text, expected_line(number)) << number;
}

TEST_F(ServerSession, BlockLargerThanGranted_ComesAfterItsGrantAndHoldsUpNoOther) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  ask(client, 0, 0);
  const RawClient::Frame size = client.next();
  ASSERT_EQ(size.type(), FrameType::kSize);
  EXPECT_EQ(size.header.request, 0U);
  ask(client, 1);
  EXPECT_EQ(client.next().header.request, 1U);
  const RawClient::Frame block = client.ask(FrameType::kGrant, 0, wire::to_bytes(size.number()));
  ASSERT_EQ(block.type(), FrameType::kBlock);
  EXPECT_EQ(block.block->bytes().size(), size.number());
  EXPECT_EQ(line(block), expected_line(0));
}

TEST_F(ServerSession, CancelledBatch_IsDroppedOnceWhereverItIs) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  ask(client, 0, 0);
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  const RawClient::Frame waiting = client.ask(FrameType::kCancel, 0);
  EXPECT_EQ(waiting.type(), FrameType::kDropped);
  // Some of these wait, some are made and some are sent already: each is answered once.
  std::map<std::uint64_t, int> answers;
  for (std::uint64_t number = 1; number <= 60; ++number) ask(client, number);
  for (std::uint64_t number = 1; number <= 60; ++number) client.send(FrameType::kCancel, number);
  ask(client, 100);
  for (;;) {
    const RawClient::Frame frame = client.next();
    if (frame.header.request == 100) break;
    EXPECT_TRUE(frame.type() == FrameType::kBlock || frame.type() == FrameType::kDropped);
    ++answers[frame.header.request];
  }
  for (const auto& [number, times] : answers) EXPECT_EQ(times, 1) << number;
  const nlohmann::json status = parse_json(server.status_json());
  EXPECT_EQ(status["waiting"], 0);
}

TEST_F(ServerSession, JobThatIsNotServed_IsRefusedWithTheReason) {
  Server server(server_options());
  RawClient client(server.address());
  BatchSpec wanted = spec();
  wanted.fingerprint = std::string(32, 'a');
  EXPECT_NE(error_of([&] { open(client, 1, wanted); }).find("has no dataset of fingerprint aaaa"),
            std::string::npos);
  wanted = spec();
  ++wanted.rules;
  EXPECT_NE(error_of([&] { open(client, 1, wanted); }), "no error");
  wanted = spec();
  wanted.batch.sampler = "mine";
  wanted.sampler_sha256 = std::string(64, '0');
  EXPECT_NE(error_of([&] { open(client, 1, wanted); }).find("mine"), std::string::npos);
  wanted = spec({60'000, 60'000, 60'000});
  wanted.batch.replace = true;
  EXPECT_NE(error_of([&] { open(client, 1, wanted); }).find("more than the 32 MiB that the server has"),
            std::string::npos)
      << error_of([&] { open(client, 1, wanted); });
  EXPECT_EQ(open(client).num_seeds, kSeeds);  // the connection is as good as before
}

TEST_F(ServerSession, BatchThatCannotBe_IsFailedAndOthersCome) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  wire::BatchAsked wrong = batch(0);
  wrong.job = 9;
  EXPECT_EQ(client.ask(FrameType::kBatch, 1, wire::to_bytes(wrong)).refusal().text,
            "job 9 is not open; open it first");
  wrong = batch(0);
  wrong.count = kBatchSize + 1;
  EXPECT_EQ(client.ask(FrameType::kBatch, 2, wire::to_bytes(wrong)).type(), FrameType::kFailed);
  wrong = batch(0);
  wrong.first = kSeeds - kBatchSize + 1;
  EXPECT_EQ(client.ask(FrameType::kBatch, 3, wire::to_bytes(wrong)).type(), FrameType::kFailed);
  ask(client, 4);
  EXPECT_EQ(line(client.next()), expected_line(4));
}

TEST_F(ServerSession, OneNumberForTwoBatches_EndsTheConnectionWithTheReason) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  ask(client, 5, 0);
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  const RawClient::Frame end = client.ask(FrameType::kBatch, 5, wire::to_bytes(batch(6)));
  ASSERT_EQ(end.type(), FrameType::kRefused);
  EXPECT_EQ(end.header.request, 0U);
  EXPECT_NE(end.refusal().text.find("request 5 is outstanding already"), std::string::npos);
  EXPECT_NE(error_of([&] { client.next(); }), "no error");
}

TEST_F(ServerSession, FrameThatComesTwice_IsAnsweredOnce) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  ask(client, 5, 0);
  const RawClient::Frame size = client.next();
  ASSERT_EQ(size.type(), FrameType::kSize);
  ask(client, 5, 0);
  client.send(FrameType::kGrant, 5, wire::to_bytes(size.number()));
  client.send(FrameType::kGrant, 5, wire::to_bytes(size.number()));
  EXPECT_EQ(line(client.next()), expected_line(5));
  client.send(FrameType::kCancel, 5);  // crossed the answer
  ask(client, 6);
  EXPECT_EQ(client.next().header.request, 6U);
}

TEST_F(ServerSession, GivenSeeds_AreAskedForOnceAndSampledFrom) {
  Server server(server_options());
  RawClient client(server.address());
  const Dataset dataset(path(1));
  const NodeSet seeds(dataset, 0, NodeInput{.ids = std::vector<std::int64_t>{3, 1, 4, 15, 92, 65}});
  const std::vector<std::byte> packed = seeds.pack();
  BatchSpec wanted = spec();
  wanted.seeds = {.node_type = "node", .split = {}, .sha256 = sha256(packed)};
  EXPECT_EQ(error_of([&] { open(client, 1, wanted); }),
            "invalid: " + std::string(wire::name_of(FrameType::kUnknownSeeds)));
  EXPECT_EQ(client.ask(FrameType::kSeeds, 2, packed).type(), FrameType::kSeedsKept);
  EXPECT_EQ(open(client, 1, wanted).num_seeds, 6);
  wire::BatchAsked asked{.job = 1, .epoch = 0, .first = 0, .count = 6, .granted = kRoom};
  const RawClient::Frame block = client.ask(FrameType::kBatch, 3, wire::to_bytes(asked));
  ASSERT_EQ(block.type(), FrameType::kBlock);
  BatchMaker maker = open_source(dataset, wanted, packed)->maker(dataset, wanted.batch);
  const std::unique_ptr<BatchSource> source = open_source(dataset, wanted, packed);
  BatchMaker oracle = source->maker(dataset, wanted.batch);
  AlignedBlock made(oracle.sample({.seed = wanted.seed, .epoch = 0, .first = 0, .count = 6}));
  oracle.write(made.bytes());
  EXPECT_EQ(line(block), line_of(BatchView(made.bytes())));
}

TEST_F(ServerSession, SeedsLargerThanTheServerKeeps_AreRefusedAndTheConnectionStays) {
  Server server(server_options());
  RawClient client(server.address());
  const std::vector<std::byte> large(std::size_t{17} << 20);  // a quarter of max_memory is 16 MiB
  const RawClient::Frame refused = client.ask(FrameType::kSeeds, 2, large);
  ASSERT_EQ(refused.type(), FrameType::kRefused);
  EXPECT_EQ(refused.refusal().code, ErrorCode::kNoSpace);
  EXPECT_EQ(open(client).num_seeds, kSeeds);
}

TEST_F(ServerSession, BlockThatItsClientDoesNotTake_IsFreedAndMadeAgainAfterTheGrant) {
  ServerOptions options = server_options();
  options.send_deadline = 1s;
  Server server(options);
  RawClient client(server.address());
  open(client);
  ask(client, 0, 0);
  const RawClient::Frame size = client.next();
  ASSERT_EQ(size.type(), FrameType::kSize);
  while (!log_->has("event=block_not_taken")) client.sleep(20ms);
  const nlohmann::json status = parse_json(server.status_json());
  EXPECT_EQ(status["slots"]["held"], 0);
  EXPECT_EQ(status["totals"]["blocks_not_taken"], 1);
  const RawClient::Frame block = client.ask(FrameType::kGrant, 0, wire::to_bytes(size.number()));
  ASSERT_EQ(block.type(), FrameType::kBlock);
  EXPECT_EQ(line(block), expected_line(0));
}

// Its blocks of later numbers fill its share, and one of a lower number comes late, from a server that died.
TEST_F(ServerSession, ClientWhoseSlotsAllWaitForGrants_GetsALowerOneAllTheSame) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  for (std::uint64_t number = 100; number < 300; ++number) ask(client, number, 0);
  std::map<std::uint64_t, std::uint64_t> sizes;
  while (sizes.size() < 30) {  // nearly its share of 32
    const RawClient::Frame size = client.next();
    ASSERT_EQ(size.type(), FrameType::kSize);
    sizes[size.header.request] = size.number();
  }
  ask(client, 7);
  for (;;) {
    const RawClient::Frame frame = client.next();
    if (frame.type() == FrameType::kSize) continue;
    ASSERT_EQ(frame.type(), FrameType::kBlock);
    EXPECT_EQ(frame.header.request, 7U);
    EXPECT_EQ(line(frame), expected_line(7));
    break;
  }
}

TEST_F(ServerSession, ClientThatLeaves_LeavesNothingBehind) {
  Server server(server_options());
  {
    RawClient client(server.address());
    open(client);
    for (std::uint64_t number = 0; number < 200; ++number) ask(client, number, number % 2 == 0 ? 0 : kRoom);
  }
  for (;;) {  // the watchdog bounds it
    const nlohmann::json status = parse_json(server.status_json());
    if (status["clients"].empty() && status["slots"]["free"] == 64) break;
    std::this_thread::sleep_for(2ms);
  }
  RawClient other(server.address());
  open(other);
  ask(other, 3);
  EXPECT_EQ(line(other.next()), expected_line(3));
}

TEST_F(ServerSession, ClientThatAsksAndDoesNotRead_WaitsWithItsQuestions) {
  const testing::TempFolder scratch;
  ServerOptions options = server_options();
  options.listen = {.path = (scratch.path() / "s").string()};  // little is kept in its buffers
  Server server(options);
  RawClient client(server.address());
  const std::size_t meta = client.ask(FrameType::kGetMeta, 1).payload.size();
  const std::uint64_t questions = 48 * kMaxQueuedAnswers / meta;
  for (std::uint64_t i = 0; i < questions; ++i) client.connection().send(FrameType::kGetMeta, i);
  std::uint64_t read = 0, before = 0;
  do {
    before = read;
    client.sleep(200ms);
    read = parse_json(server.status_json())["clients"][0]["bytes_in"];
  } while (read != before);
  EXPECT_LT(read, questions * wire::kFrameHeaderBytes / 2);
  for (std::uint64_t i = 0; i < questions; ++i) {
    const RawClient::Frame answer = client.next();
    ASSERT_EQ(answer.type(), FrameType::kMeta);
    ASSERT_EQ(answer.header.request, i);
  }
}

// Each sip is progress; the block would hold its slot for as long as the client likes.
TEST_F(ServerSession, ClientThatSips_IsClosed) {
  const testing::TempFolder scratch;
  ServerOptions options = server_options();
  options.listen = {.path = (scratch.path() / "s").string()};
  options.send_deadline = 1s;
  Server server(options);
  RawClient client(server.address());
  BatchSpec large = spec({8'000});
  large.batch.replace = true;
  open(client, 1, large);
  ask(client, 0);
  ask(client, 1);
  const std::string error = error_of([&] {
    std::vector<std::byte> sip(32 << 10);
    for (;;) {
      wire::FrameHeader header = client.run(client.connection().read_header(60s));
      while (header.bytes > 0) {
        const std::size_t bytes = std::min<std::size_t>(header.bytes, sip.size());
        client.run(client.connection().read(std::span(sip).first(bytes)));
        header.bytes -= bytes;
        client.sleep(100ms);
      }
      if (header.type == FrameType::kBlock && header.request == 1) return;
    }
  });
  EXPECT_NE(error, "no error");
  log_->wait_for("event=block_too_slow");
}

TEST_F(ServerSession, Draining_DeliversWhatWasPromisedAndTakesNothingNew) {
  Server server(server_options());
  RawClient client(server.address());
  open(client);
  ask(client, 0, 0);
  const RawClient::Frame size = client.next();
  ASSERT_EQ(size.type(), FrameType::kSize);
  server.drain();
  EXPECT_EQ(client.next().type(), FrameType::kDraining);
  EXPECT_FALSE(server.wait_until_drained(50ms));
  EXPECT_EQ(client.ask(FrameType::kBatch, 1, wire::to_bytes(batch(1))).type(), FrameType::kDropped);
  EXPECT_TRUE(RawClient(server.address()).offer().draining);
  EXPECT_EQ(line(client.ask(FrameType::kGrant, 0, wire::to_bytes(size.number()))), expected_line(0));
  EXPECT_TRUE(server.wait_until_drained(60s));
}

TEST_F(ServerSession, NamesOfClients_CanFakeNoLineOfTheLog) {
  Server server(server_options());
  { RawClient client(server.address(), nullptr, "", "a b\" event=fake"); }
  log_->wait_for("client=\"a b\\\" event=fake\"");
}

TEST_F(ServerSession, UnixSocket_ServesTheSame) {
  const testing::TempFolder scratch;
  ServerOptions options = server_options();
  options.listen = {.path = (scratch.path() / "s").string()};
  Server server(options);
  RawClient client(server.address());
  open(client);
  ask(client, 2);
  EXPECT_EQ(line(client.next()), expected_line(2));
}

TEST_F(ServerSession, BeyondThisMachineWithoutTokenAndTls_IsRefusedInOneLine) {
  ServerOptions options = server_options();
  options.listen = {.host = "0.0.0.0", .port = 0, .path = {}};
  const std::string error = error_of([&] { Server server(options); });
  EXPECT_NE(
      error.find("without a token (--token-file) and TLS (--tls-cert, --tls-key); give them, or --insecure"),
      std::string::npos)
      << error;
}

}  // namespace
}  // namespace hopfeed
