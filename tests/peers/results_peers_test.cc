// Rows of an inference between machines: a server beside each run answers for its folder, whatever the run
// does meanwhile: computes on, is killed, is another one, or nobody's.
#include "peers/results_peers.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "core/base/json_text.h"
#include "results/run_folder.h"
#include "tests/peers/peer_test.h"
#include "tests/server_client_mode/server_raw_client.h"
#include "tests/support/dataset_files.h"
#include "tests/wire/client_scripted_server.h"
#include "tests/wire/proxy.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::Proxy;
using wire::FrameType;

constexpr RunId kThisRun{.high = 7, .low = 8}, kOtherRun{.high = 7, .low = 9};
const LayerName kLayer{.table = "h1", .node_type = "node"};

std::byte byte_of(std::int64_t row, std::int64_t at) {
  return static_cast<std::byte>((row * 131 + at * 7 + at / 255) % 251);
}

/// Machines of which the second one (partition 1, in some tests 2 too) has a run with a server beside.
class ResultsOfPeers : public PeerTest {
 protected:
  static constexpr std::int64_t kRowBytes = 256, kHeight = 16;

  ResultsOfPeers() : run_(scratch_.path() / "results") {}

  static std::int64_t rows_of(int partition, int parts = 2) {
    const std::vector<std::int64_t>& offsets = meta(parts).node_types[0].partition_offsets;
    const auto p = static_cast<std::size_t>(partition);
    return offsets[p + 1] - offsets[p];
  }
  static const DatasetMeta& meta(int parts = 2) {
    static const DatasetMeta of2 = Dataset(path(2)).meta(), of3 = Dataset(path(3)).meta();
    return parts == 2 ? of2 : of3;
  }
  ServerOptions server_of(int partition, const std::filesystem::path& results, int parts = 2) const {
    ServerOptions options = server_options(path(parts).string(), 1);
    options.partitions.own = {partition};
    options.results = results.string();
    return options;
  }
  static std::unique_ptr<ResultsPeers> peers(const std::vector<std::string>& addresses,
                                             std::chrono::milliseconds deadline = 24h,
                                             std::function<void()> while_waiting = {}, int parts = 2) {
    PeerOptions options = machine(0, addresses);
    options.deadline = deadline;  // who waits for a day is found by the watchdog
    return std::make_unique<ResultsPeers>(meta(parts), std::vector<int>{0}, options,
                                          std::move(while_waiting));
  }
  void write(const RunFolder& folder, std::int64_t first, std::int64_t count,
             std::int64_t row_bytes = kRowBytes) const {
    std::vector<std::byte> rows;
    for (std::int64_t row = first; row < first + count; ++row)
      for (std::int64_t at = 0; at < row_bytes; ++at) rows.push_back(byte_of(row, at));
    folder.layers().write(kLayer, {.partition = 1, .first = first, .count = count, .row_bytes = row_bytes},
                          rows);
  }
  void write_all(const RunFolder& folder, std::int64_t row_bytes = kRowBytes) const {
    for (std::int64_t first = 0; first < rows_of(1); first += kHeight)
      write(folder, first, std::min(kHeight, rows_of(1) - first), row_bytes);
  }
  static std::vector<std::uint32_t> every(std::uint32_t step) {
    std::vector<std::uint32_t> rows;
    for (std::uint32_t row = 0; row < rows_of(1); row += step) rows.push_back(row);
    return rows;
  }
  static void expect_rows(ResultsPeers& peers, const std::vector<std::uint32_t>& rows,
                          std::int64_t row_bytes = kRowBytes) {
    std::vector<std::byte> got(rows.size() * static_cast<std::size_t>(row_bytes), std::byte{255});
    peers.fetch(kThisRun, kLayer, 1, rows, row_bytes, got.data());
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::int64_t at = 0; at < row_bytes; ++at)
        ASSERT_EQ(got[i * static_cast<std::size_t>(row_bytes) + static_cast<std::size_t>(at)],
                  byte_of(rows[i], at))
            << "row " << rows[i] << ", byte " << at;
  }
  static std::string error_of_fetch(ResultsPeers& peers, RunId run = kThisRun,
                                    std::int64_t row_bytes = kRowBytes) {
    const std::vector<std::uint32_t> rows = every(3);
    std::vector<std::byte> out(rows.size() * static_cast<std::size_t>(row_bytes));
    return error_of([&] { peers.fetch(run, kLayer, 1, rows, row_bytes, out.data()); });
  }

  testing::TempFolder scratch_;
  const std::filesystem::path run_;  // the folder of the run of the second machine
};

TEST_F(ResultsOfPeers, RowsHaveTheirBytes_AndTakeLittleMoreOnTheWire) {
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  const Server server(server_of(1, run_));
  Proxy wire(server.address());
  const std::unique_ptr<ResultsPeers> other = peers({wire.address().to_text()});
  expect_rows(*other, every(7));
  expect_rows(*other, {static_cast<std::uint32_t>(rows_of(1) - 1)});
  expect_rows(*other, {});
  const std::uint64_t before = wire.bytes_to_server() + wire.bytes_to_client();
  const std::vector<std::uint32_t> all = every(1);
  expect_rows(*other, all);
  const std::uint64_t sent = wire.bytes_to_server() + wire.bytes_to_client() - before;
  EXPECT_LE(static_cast<double>(sent), 1.05 * static_cast<double>(all.size() * kRowBytes));
  EXPECT_EQ(other->counts().questions, 5);  // of several rows the last one is asked for first
  EXPECT_EQ(other->counts().rows, std::ssize(every(7)) + 1 + std::ssize(all));
  EXPECT_GT(other->counts().bytes_in, all.size() * kRowBytes);
  EXPECT_GT(other->counts().bytes_out, all.size() * 4);
}

TEST_F(ResultsOfPeers, ManyRowsComeInBlocksOfTheirOwn) {
  constexpr std::int64_t kWide = 320 << 10;  // 25 rows a question
  const RunFolder folder(run_, kThisRun, "{}", Sync::kNo);
  write_all(folder, kWide);
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  expect_rows(*other, every(1), kWide);
  EXPECT_EQ(other->counts().questions, 1 + (rows_of(1) + 24) / 25);
}

// F63
TEST_F(ResultsOfPeers, WhatIsNotYetThere_IsWaitedForLongerThanTheDeadline) {
  std::optional<RunFolder> folder(std::in_place, run_, kThisRun, "{}");
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()}, 200ms);
  std::thread run([&] {
    std::this_thread::sleep_for(1'000ms);
    for (std::int64_t first = 0; first < rows_of(1); first += kHeight) {
      write(*folder, first, std::min(kHeight, rows_of(1) - first));
      std::this_thread::sleep_for(20ms);
    }
  });
  expect_rows(*other, every(2));
  run.join();
  EXPECT_GT(other->counts().questions, 8) << "it was asked again meanwhile";
  EXPECT_LT(other->counts().bytes_out, every(2).size() * 4 + other->counts().questions * 100)
      << "rows are not named again with each question";
}

// F63
TEST_F(ResultsOfPeers, QuestionsForWhatIsNotYetThere_HoldNoThreadOfTheServer) {
  RunFolder folder(run_, kThisRun, "{}");
  ServerOptions options = server_of(1, run_);
  options.peer_threads = 1;
  const Server server(options);
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  std::vector<std::future<void>> waiting;
  for (int i = 0; i < 8; ++i)
    waiting.push_back(std::async(std::launch::async, [&] { expect_rows(*other, every(1)); }));
  write(folder, 0, kHeight);
  expect_rows(*other, {0, 3, 15});
  write_all(folder);
  for (std::future<void>& one : waiting) one.get();
}

// F64
TEST_F(ResultsOfPeers, NobodyComputes_IsOneLineAfterTheDeadline) {
  const Server server(server_of(1, run_));
  const std::string address = server.address().to_text();
  const std::unique_ptr<ResultsPeers> other = peers({address}, 300ms);
  const std::string line = "timeout: nobody computes rows of partition 1 at " + address +
                           ", for 300 ms (peer_deadline); start the same run there, on the machine with "
                           "partition 1, in the folder that its server serves";
  EXPECT_EQ(error_of_fetch(*other), line) << "there is no folder";
  {
    const RunFolder killed(run_, kThisRun, "{}");
    write(killed, 0, kHeight);
  }
  EXPECT_EQ(error_of_fetch(*other), line);
  expect_rows(*other, {0, 15});
  { const RunFolder of_another(run_, kOtherRun, "{}"); }
  EXPECT_EQ(error_of_fetch(*other), line) << "what another run has left computes nothing";
}

// F64
TEST_F(ResultsOfPeers, ARunThatIsStartedWithinTheDeadline_IsWaitedFor) {
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  std::optional<RunFolder> folder;
  std::thread run([&] {
    std::this_thread::sleep_for(300ms);
    folder.emplace(run_, kThisRun, "{}");
    write(*folder, 0, kHeight);
    folder.reset();  // killed, and started again
    std::this_thread::sleep_for(300ms);
    folder.emplace(run_, kThisRun, "{}");
    write_all(*folder);
  });
  expect_rows(*other, every(1));
  run.join();
}

// F65
TEST_F(ResultsOfPeers, AnotherRunThere_IsOneLineAfterTheDeadline) {
  const Server server(server_of(1, run_));
  const std::string address = server.address().to_text();
  const std::unique_ptr<ResultsPeers> other = peers({address}, 300ms);
  const std::string line =
      "invalid: " + address +
      " computes another run (model, options, dataset, Torch or processor differ), for 300 ms "
      "(peer_deadline); start the same run on all machines";
  const RunFolder folder(run_, kOtherRun, "{}");
  write_all(folder);
  EXPECT_EQ(error_of_fetch(*other), line);
}

// F65
TEST_F(ResultsOfPeers, AnEarlierRunThatEndsWithinTheDeadline_IsWaitedFor) {
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  std::optional<RunFolder> folder(std::in_place, run_, kOtherRun, "{}");
  write_all(*folder);
  std::jthread run([&] {
    std::this_thread::sleep_for(300ms);
    folder.reset();
    folder.emplace(run_, kThisRun, "{}");
    write_all(*folder);
  });
  expect_rows(*other, every(1));
}

// F66
TEST_F(ResultsOfPeers, AServerThatIsKilledAndComesBack_GivesTheSameBytes) {
  const RunFolder folder(run_, kThisRun, "{}");
  ServerProcess server(path(2).string(), {"--partitions", "1", "--results", run_});
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  std::atomic<bool> done{false};
  std::thread asker([&] {
    for (std::uint32_t step = 1; step <= 4; ++step) expect_rows(*other, every(step));
    done = true;
  });
  for (std::int64_t first = 0; first < rows_of(1); first += kHeight) {
    if (first / kHeight % 4 == 0) server.kill(), server.restart();
    write(folder, first, std::min(kHeight, rows_of(1) - first));
  }
  asker.join();
  EXPECT_TRUE(done);
}

// F66
TEST_F(ResultsOfPeers, AServerThatStaysAway_IsOneLineThatNamesIt) {
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  ServerProcess server(path(2).string(), {"--partitions", "1", "--results", run_});
  const std::string address = server.address().to_text();
  const std::unique_ptr<ResultsPeers> other = peers({address}, 500ms);
  server.kill();
  const std::string error = error_of_fetch(*other);
  EXPECT_TRUE(error.starts_with("timeout: partition 1 gave no answer within 500 ms (" + address)) << error;
  expect_part(error, "start hopfeed-server there again");
  server.restart();
  while (error_of_fetch(*other) != "no error") continue;  // once it is found again
}

// F66
TEST_F(ResultsOfPeers, ConnectionsThatAreCutAndFramesThatComeTwice_ChangeNoByte) {
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  const Server server(server_of(1, run_));
  Proxy bad(server.address(), {.seed = 3,
                               .to_server = {.replay = 0.2, .cut_after = 3'000, .later = 900},
                               .to_client = {.replay = 0.2, .cut_after = 40'000, .later = 30'000}});
  const std::unique_ptr<ResultsPeers> other = peers({bad.address().to_text()});
  for (std::uint32_t step = 1; step <= 12; ++step) expect_rows(*other, every(step));
  EXPECT_GT(bad.connections(), 1);
}

// F67
TEST_F(ResultsOfPeers, ADamagedShard_IsOneLineThatNamesItAndItsServer) {
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  const std::filesystem::path shard = folder.layers().shard_path(kLayer, 1, kHeight);
  std::string bytes = testing::file_bytes(shard);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  testing::write_bytes(shard, bytes);
  const Server server(server_of(1, run_));
  const std::string address = server.address().to_text();
  const std::unique_ptr<ResultsPeers> other = peers({address});
  const std::string error = error_of_fetch(*other);
  EXPECT_TRUE(error.starts_with("corrupt: server " + address +
                                ": results/layers/h1/node/p000001-r000000000000016.rows is damaged"))
      << error;
  EXPECT_EQ(error.find(scratch_.path().string()), std::string::npos) << "where it lies is its own business";
  expect_rows(*other, {0, 40});
  testing::write_bytes(shard, std::string(bytes.size(), 'x'));
  expect_part(error_of_fetch(*other), "is no shard of rows, or damaged");
  std::filesystem::remove(shard);
  write(folder, kHeight, kHeight);  // the run computes it again
  expect_rows(*other, every(1));
}

TEST_F(ResultsOfPeers, RowsOfAnotherWidthThanAskedFor_AreAnErrorThatNamesTheServer) {
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  const std::string error = error_of_fetch(*other, kThisRun, 128);
  EXPECT_TRUE(error.starts_with("corrupt: server " + server.address().to_text() + ": ")) << error;
  expect_part(error, "rows of 256 bytes, and ");
  expect_part(error, " of 128 were asked for");
}

TEST_F(ResultsOfPeers, ThatRowsAreFetched_AllOthersNote_AndWhoCannotIsNoError) {
  const std::filesystem::path second = scratch_.path() / "second";
  std::optional<RunFolder> folder(std::in_place, run_, kThisRun, "{}");
  write_all(*folder);
  const RunFolder another(second, kOtherRun, "{}");
  std::optional<Server> server(std::in_place, server_of(1, run_, 3));
  const Server of_another(server_of(2, second, 3));
  PeerOptions options = machine(0, {server->address().to_text(), of_another.address().to_text()});
  options.deadline = 300ms;
  ResultsPeers other(meta(3), {0}, options);
  EXPECT_FALSE(other.note_fetched(kThisRun, kLayer)) << "the folder of partition 2 is another run's";
  EXPECT_TRUE(folder->fetched(kLayer, 0));
  EXPECT_FALSE(folder->fetched(kLayer, 1));
  EXPECT_FALSE(another.fetched(kLayer, 0));
  server.reset();
  EXPECT_FALSE(other.note_fetched(kThisRun, {.table = "h2", .node_type = "node"}));
  EXPECT_FALSE(folder->fetched({.table = "h2", .node_type = "node"}, 0));
}

// F73
TEST_F(ResultsOfPeers, ThatRowsAreFetched_IsSaidUntilTheRunThereHasBegun) {
  const Server server(server_of(1, run_));
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()});
  std::optional<RunFolder> folder;
  EXPECT_FALSE(other->note_fetched(kThisRun, kLayer));
  {
    const std::jthread run([&] {
      std::this_thread::sleep_for(300ms);
      folder.emplace(run_, kThisRun, "{}");
    });
    EXPECT_TRUE(other->note_fetched(kThisRun, kLayer, true));
  }
  EXPECT_TRUE(folder->fetched(kLayer, 0)) << "a table that is not there, and may never be";
  folder->clear();
  EXPECT_TRUE(other->note_fetched(kThisRun, kLayer)) << "it has ended, and needs no note";
}

TEST_F(ResultsOfPeers, WhoWaitsIsCalled_AndWhatItThrowsLeavesTheWait) {
  struct Stopped {};
  const RunFolder folder(run_, kThisRun, "{}");
  const Server server(server_of(1, run_));
  std::atomic<int> calls{0};
  const std::unique_ptr<ResultsPeers> other = peers({server.address().to_text()}, 24h, [&] {
    if (++calls == 5) throw Stopped{};
  });
  const std::vector<std::uint32_t> rows = every(1);
  std::vector<std::byte> out(rows.size() * kRowBytes);
  EXPECT_THROW(other->fetch(kThisRun, kLayer, 1, rows, kRowBytes, out.data()), Stopped);
  write_all(folder);
  expect_rows(*other, rows);
}

// ---- servers that do not fit

TEST_F(ResultsOfPeers, MachinesThatDoNotFit_AreOneLineEach) {
  const Server first(server_of(1, run_)), second(server_of(1, run_)), without(server_of(1, ""));
  const std::string a = first.address().to_text(), b = second.address().to_text(),
                    c = without.address().to_text();
  EXPECT_EQ(error_of([&] { peers({c}); }), "unsupported: the results of partition 1 have no server (" + c +
                                               ": it serves no results; start it with --results DIR)");
  EXPECT_EQ(error_of([&] {
              peers({a, b});
            }),
            "invalid: the results of partition 1 have 2 servers of those named (peers): " + a + " and " + b +
                "; start one of them alone with --results");
  expect_part(error_of([&] { peers({a}, 24h, {}, 3); }), "has another cut of the dataset");
  const RunFolder folder(run_, kThisRun, "{}");
  write_all(folder);
  expect_rows(*peers({c, a}), every(1));  // a replica beside serves samples alone
}

TEST_F(ResultsOfPeers, AServerOfAnEarlierProtocol_IsOneLineThatNamesBoth) {
  ScriptedServer::Options options;
  options.dataset = path(2).string();
  options.newest_version = 3;
  const ScriptedServer older(options);
  const std::string error = error_of([&] { peers({older.address().to_text()}); });
  expect_part(error, older.address().to_text() + " speaks protocol 3, and an inference wants 4");
}

// ---- questions that anybody may send

class ResultsQuestionsOfAnybody : public ResultsOfPeers {
 protected:
  void SetUp() override {
    ResultsOfPeers::SetUp();
    folder_.emplace(run_, kThisRun, "{}");
    write_all(*folder_);
    server_.emplace(server_of(1, run_));
  }
  void TearDown() override {
    server_.reset();
    folder_.reset();
    ResultsOfPeers::TearDown();
  }
  static ResultsQuestion rows_question() {
    static const std::vector<std::uint32_t> rows{0, 1, 5};
    return {.ask = ResultsAsk::kRows, .partition = 1, .run = kThisRun, .name = kLayer, .rows = rows};
  }
  static wire::Bytes bytes_of(const ResultsQuestion& question, std::uint64_t request) {
    const PeerBytes bytes = write_results_question(question);
    wire::Bytes payload(bytes.begin(), bytes.end());
    wire::add_checksum(payload, request);
    return payload;
  }
  /// A machine that has said of which dataset it asks.
  struct Asker : RawClient {
    explicit Asker(const Server& server) : RawClient(server.address(), nullptr, kTestToken) {
      ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(meta().fingerprint)));
    }
  };
  std::string refusal_of(const ResultsQuestion& question) {
    Asker client(*server_);
    const RawClient::Frame refused = client.ask(FrameType::kResults, 2, bytes_of(question, 2));
    if (refused.type() != FrameType::kRefused) return "answered";
    // The connection stays, and is answered.
    EXPECT_EQ(client.ask(FrameType::kResults, 3, bytes_of(rows_question(), 3)).type(),
              FrameType::kResultsAnswer);
    return std::string(to_string(refused.refusal().code)) + ": " + refused.refusal().text;
  }

  std::optional<RunFolder> folder_;
  std::optional<Server> server_;
};

TEST_F(ResultsQuestionsOfAnybody, WhatWillNeverBeThereIsRefused) {
  const auto refusal = [&](auto change) {
    ResultsQuestion question = rows_question();
    change(question);
    return refusal_of(question);
  };
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.partition = 0; }),
            "unsupported: partition 0 is not on this machine");
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.partition = 2; }),
            "corrupt: another machine asked for partition 2, which cannot be");
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.name.node_type = "author"; }),
            "corrupt: another machine asked for results of node type 'author', which cannot be");
  const std::vector<std::uint32_t> beyond{0, static_cast<std::uint32_t>(rows_of(1))};
  EXPECT_EQ(refusal([&](ResultsQuestion& q) { q.rows = beyond; }),
            "corrupt: another machine asked for row " + std::to_string(rows_of(1)) + ", which cannot be");
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.name.table = "../../etc"; }),
            "corrupt: a question about results of another machine cannot be read: it names no table");
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.ask = ResultsAsk::kFetched, q.rows = {}, q.partition = 9; }),
            "corrupt: another machine asked for partition 9, which cannot be");
  EXPECT_EQ(refusal([](ResultsQuestion& q) { q.name.table = "h9"; }), "answered") << "it may be computed";
}

TEST_F(ResultsQuestionsOfAnybody, DamagedQuestions_AreAnsweredOrRefused) {
  const wire::Bytes whole = bytes_of(rows_question(), 2);
  for (std::size_t at = 0; at + wire::kCheckedTail < whole.size(); at += 3) {
    Asker client(*server_);
    wire::Bytes damaged(whole.begin(), whole.end() - wire::kCheckedTail);
    damaged[at] ^= std::byte{0x81};
    wire::add_checksum(damaged, 2);
    const FrameType type = client.ask(FrameType::kResults, 2, damaged).type();
    EXPECT_TRUE(type == FrameType::kRefused || type == FrameType::kResultsAnswer);
    EXPECT_EQ(client.ask(FrameType::kResults, 3, bytes_of(rows_question(), 3)).type(),
              FrameType::kResultsAnswer);
  }
  const std::string status = server_->status_json();
  EXPECT_GT(parse_json(status).at("results").at("refused"), 0) << status;
}

TEST_F(ResultsQuestionsOfAnybody, AWrongChecksumEndsTheConnection) {
  Asker client(*server_);
  wire::Bytes damaged = bytes_of(rows_question(), 2);
  damaged[50] ^= std::byte{1};
  const RawClient::Frame end = client.ask(FrameType::kResults, 2, damaged);
  EXPECT_EQ(end.type(), FrameType::kRefused);
  EXPECT_EQ(end.header.request, 0U);
}

TEST_F(ResultsQuestionsOfAnybody, BeforeGetPartitionsItEndsTheConnection) {
  RawClient client(server_->address(), nullptr, kTestToken);
  const RawClient::Frame end = client.ask(FrameType::kResults, 2, bytes_of(rows_question(), 2));
  EXPECT_EQ(end.header.request, 0U);
  EXPECT_EQ(end.refusal().text, "a RESULTS frame before GET_PARTITIONS has said of which dataset");
}

}  // namespace
}  // namespace hopfeed
