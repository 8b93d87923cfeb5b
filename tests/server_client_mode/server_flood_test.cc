// Whatever one client sends, however much of it: the others have their batches, and the server ends when it
// is told to.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/failpoint.h"
#include "core/base/json_text.h"
#include "tests/server_client_mode/server_fixture.h"
#include "tests/server_client_mode/server_flood.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerFlooded : public ServerTestWithin<240> {
 protected:
  /// What no server opens, as long as it may be.
  static wire::Bytes long_open(std::size_t bytes) {
    wire::Open open{
        .job = 1, .spec = spec(std::vector<std::int64_t>(bytes / 2, 1)), .batch_size = kBatchSize};
    return wire::to_bytes(open);
  }
  /// Another client's batches come, and the server drains and ends.
  void expect_served_beside(const FloodOptions& flooded) {
    SCOPED_TRACE(wire::name_of(flooded.type));
    Server server(server_options());
    const Flood flood(server.address(), flooded);
    while (flood.sent() == 0) std::this_thread::sleep_for(1ms);
    RawClient good(server.address(), nullptr, "", "good");
    open(good);
    for (std::uint64_t number = 0; number < 10; ++number) {
      ask(good, number);
      const RawClient::Frame block = good.next();
      ASSERT_EQ(block.type(), FrameType::kBlock);
      EXPECT_EQ(line(block), expected_line(number));
    }
    const std::uint64_t before = flood.sent();
    while (flood.sent() == before) {  // it is served too; the other one shows meanwhile that it is alive
      EXPECT_EQ(good.ask(FrameType::kPing, 1).type(), FrameType::kPong);
      std::this_thread::sleep_for(10ms);
    }
    server.drain();
    EXPECT_EQ(good.next().type(), FrameType::kDraining);
    while (!server.wait_until_drained(1s)) {  // the watchdog bounds it
    }
  }
};

TEST_F(ServerFlooded, PingsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kPing, .payload = wire::Bytes(16)});
}

TEST_F(ServerFlooded, CancelsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kCancel});
}

TEST_F(ServerFlooded, ClosedJobsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kCloseJob, .payload = wire::to_bytes(std::uint64_t{7})});
}

TEST_F(ServerFlooded, QuestionsForTheStatusWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kGetStatus});
}

TEST_F(ServerFlooded, RefusedJobsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  // A sanitizer takes seconds to read the whole of it, and a login beside it has 5 s.
  const std::size_t bytes = testing::kSanitized ? 50'000 : 500'000;
  expect_served_beside({.type = FrameType::kOpen, .payload = long_open(bytes)});
}

TEST_F(ServerFlooded, RefusedBatchesWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kBatch, .payload = wire::to_bytes(batch(0))});
}

TEST_F(ServerFlooded, RefusedQuestionsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kGetMeta, .payload = wire::to_bytes(std::string_view("other"))});
}

TEST_F(ServerFlooded, RefusedSeedsWithoutAPause_HoldUpNoBatchAndNoDrain) {
  expect_served_beside({.type = FrameType::kSeeds, .payload = wire::Bytes(std::size_t{20} << 20)});
}

TEST_F(ServerFlooded, JobThatTakesLongToRead_HoldsUpNoOther) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "this build has no failpoints (HOPFEED_FAILPOINTS is off)";
  testing::BackgroundProgram program(
      {testing::program("hopfeed-server"), "--data", path(1).string(), "--listen", "127.0.0.1:0"},
      {"HOPFEED_FAIL=server.read_open=sleep:600000@1"});  // for longer than the test may take
  const std::string listening = program.read_line();
  const wire::Address address = wire::parse_address(listening.substr(listening.rfind(' ') + 1));
  RawClient slow(address), other(address);
  const wire::Bytes question = wire::to_bytes(wire::Open{.job = 1, .spec = spec(), .batch_size = 16});
  slow.send(FrameType::kOpen, 1, question);
  const auto read = [&] {
    return parse_json(other.ask(FrameType::kGetStatus, 1).text())["clients"][0]["bytes_in"]
        .get<std::size_t>();
  };
  while (read() < question.size()) other.sleep(10ms);
  open(other);
  ask(other, 3);
  EXPECT_EQ(line(other.next()), expected_line(3));
}

}  // namespace
}  // namespace hopfeed
