// hopfeed-server as an operator meets it: what it prints, how it ends, and bad input, one line each.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>
#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "core/base/failpoint.h"
#include "core/base/json_text.h"
#include "core/base/owned_fd.h"
#include "core/sampler/peer_questions.h"
#include "peers/state_owners.h"
#include "results/results_questions.h"
#include "results/run_folder.h"
#include "server_client_mode/server/event_log.h"
#include "state/client/dist_tensor.h"
#include "tests/server_client_mode/server_fixture.h"
#include "tests/support/dataset_files.h"
#include "tests/support/sanitized.h"
#include "wire/checked_bytes.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using wire::FrameType;

class ServerProgram : public ServerTestWithin<120> {
 protected:
  static std::vector<std::string> command(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{testing::program("hopfeed-server"),
                                   "--data",
                                   path(1).string(),
                                   "--listen",
                                   "127.0.0.1:0",
                                   "--max-memory",
                                   "64M"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static void expect_refused(const std::vector<std::string>& words, const std::string& part, int code = 2) {
    const testing::ProgramResult result = testing::run_program(words);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.err.rfind("hopfeed-server: ", 0), 0U) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  /// Where the program listens: "... on ADDR".
  static wire::Address read_address(testing::BackgroundProgram& program) {
    const std::string line = program.read_line();
    return wire::parse_address(line.substr(line.rfind(' ') + 1));
  }
  /// What an HTTP server says to one request.
  static std::string http(const wire::Address& address, const std::string& request) {
    const OwnedFd fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return "no connection";
    if (write_all(fd.get(), std::as_bytes(std::span(request))) != 0) return "no write";
    std::string answer;
    char part[4096];
    for (ssize_t got; (got = read(fd.get(), part, sizeof(part))) > 0;)
      answer.append(part, static_cast<std::size_t>(got));
    return answer;
  }
  static std::string get(const wire::Address& address, const std::string& page) {
    return http(address, "GET " + page + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }
};

TEST_F(ServerProgram, ServesUntilSigterm_DeliversWhatWasPromisedAndLeavesWith0) {
  testing::BackgroundProgram program(command());
  RawClient client(read_address(program));
  open(client);
  ask(client, 0, 0);
  const RawClient::Frame size = client.next();
  ASSERT_EQ(size.type(), FrameType::kSize);
  program.signal(SIGTERM);
  ASSERT_EQ(client.next().type(), FrameType::kDraining);
  const RawClient::Frame block = client.ask(FrameType::kGrant, 0, wire::to_bytes(size.number()));
  ASSERT_EQ(block.type(), FrameType::kBlock);
  EXPECT_EQ(line(block), expected_line(0));
  EXPECT_EQ(program.wait(60s), 0);
}

TEST_F(ServerProgram, ClientThatNeverTakesWhatItAskedFor_IsWaitedForNoLongerThanTheDeadline) {
  testing::BackgroundProgram program(command({"--drain-deadline", "1"}));
  RawClient client(read_address(program));
  open(client);
  ask(client, 0, 0);
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 1);
}

TEST_F(ServerProgram, SecondSignalLater_EndsItAtOnce) {
  testing::BackgroundProgram program(command());
  RawClient client(read_address(program));
  open(client);
  ask(client, 0, 0);
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  program.signal(SIGTERM);
  int code = -1;
  while (code == -1) {  // the watchdog bounds it
    code = program.wait(1s);
    if (code == -1) program.signal(SIGTERM);
  }
  EXPECT_EQ(code, 130);
}

TEST_F(ServerProgram, Status_ShowsClientsAndIsWrittenAtTheEnd) {
  const testing::TempFolder scratch;
  const std::string json = scratch.path() / "last.json";
  testing::BackgroundProgram program(command({"--json", json, "--num-workers", "2"}));
  const wire::Address address = read_address(program);
  RawClient client(address, nullptr, "", "trainer 3");
  open(client);
  ask(client, 0);
  ASSERT_EQ(client.next().type(), FrameType::kBlock);
  const testing::ProgramResult result =
      testing::run_program({testing::program("hopfeed-server"), "status", address.to_text()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json status = parse_json(result.out);
  EXPECT_EQ(status["workers"].size(), 2U);
  EXPECT_EQ(status["clients"].size(), 2U);  // who asks is one
  EXPECT_EQ(status["clients"][0]["name"], "trainer 3");
  EXPECT_EQ(status["totals"]["batches"], 1);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 0);
  std::ifstream file(json);
  EXPECT_EQ(nlohmann::json::parse(file)["totals"]["batches"], 1);
}

TEST_F(ServerProgram, StandardDescriptorsClosed_ServesAndReportsAllTheSame) {
  const testing::TempFolder scratch;
  const std::string json = scratch.path() / "last.json",
                    address = "unix:" + (scratch.path() / "socket").string();
  testing::BackgroundProgram program({"/bin/sh", "-c",
                                      "exec \"$0\" --data \"$1\" --listen \"$2\" --json \"$3\" <&- >&- 2>&-",
                                      testing::program("hopfeed-server"), path(1), address, json});
  const auto status = [&] {
    return testing::run_program({testing::program("hopfeed-server"), "status", address}).exit_code;
  };
  while (status() != 0) std::this_thread::sleep_for(20ms);  // the watchdog bounds it
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 0);
  EXPECT_EQ(parse_json(testing::file_bytes(json))["totals"]["batches"], 0);
}

TEST_F(ServerProgram, SecretsThatOthersMayOpen_AreWarnedOfAndTaken) {
  const testing::TempFolder scratch;
  const std::string token = scratch.path() / "token", said = scratch.path() / "stderr";
  std::ofstream(token) << "correct-horse-battery-staple\n";
  for (const bool open : {true, false}) {
    std::filesystem::permissions(token, static_cast<std::filesystem::perms>(open ? 0644 : 0600));
    testing::BackgroundProgram program(
        {"/bin/sh", "-c", "exec \"$0\" --data \"$1\" --listen 127.0.0.1:0 --token-file \"$2\" 2> \"$3\"",
         testing::program("hopfeed-server"), path(1), token, said});
    RawClient client(read_address(program), nullptr, "correct-horse-battery-staple");
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait(60s), 0);
    const std::string warning = "hopfeed-server: warning: --token-file: '" + token +
                                "' may be read by its group and by all (mode 0644); chmod 600 it\n";
    EXPECT_EQ(testing::file_bytes(said).find(warning) != std::string::npos, open)
        << testing::file_bytes(said);
  }
}

TEST_F(ServerProgram, NotAllThreadsCanBeStarted_IsOneLine) {
  std::filesystem::permissions(path(1).parent_path(), std::filesystem::perms::all);
  for (int most = 1; most <= 8; ++most) {
    const testing::ProgramResult result = testing::run_program(
        {"/bin/sh", "-c", testing::without_more_processes(most) + "\"$0\" --data \"$1\" --listen 127.0.0.1:0",
         testing::program("hopfeed-server"), path(1)});
    EXPECT_EQ(result.exit_code, 1) << most << ": " << result.err;
    EXPECT_NE(result.err.find("; raise the limit on processes and threads (ulimit -u"), std::string::npos)
        << most << ": " << result.err;
  }
}

TEST_F(ServerProgram, TooFewDescriptorsToBegin_IsOneLineThatSaysWhichLimit) {
  if (testing::kSanitized)
    GTEST_SKIP() << "a sanitizer opens files of its own, and complains where it cannot";
  int begun = 0;
  for (int most = 4; most <= 12; ++most) {
    const testing::ProgramResult result = testing::run_program({"prlimit", "--nofile=" + std::to_string(most),
                                                                testing::program("hopfeed-server"), "--data",
                                                                path(1), "--listen", "127.0.0.1:0"});
    if (result.exit_code == 127) continue;  // its libraries could not be opened, so it was not begun
    ++begun;
    EXPECT_EQ(result.exit_code, 1) << most << ": " << result.err;
    EXPECT_NE(result.err.find("raise the limit on open files (ulimit -n)\n"), std::string::npos)
        << most << ": " << result.err;
  }
  EXPECT_GE(begun, 3);
}

TEST_F(ServerProgram, Metrics_AreThereForPrometheusAndOrchestrators) {
  testing::BackgroundProgram program(command({"--metrics", "127.0.0.1:0"}));
  const wire::Address address = read_address(program), metrics = read_address(program);
  RawClient client(address, nullptr, "", "name\"} 1");
  open(client);
  ask(client, 0);
  ASSERT_EQ(client.next().type(), FrameType::kBlock);
  const std::string page = get(metrics, "/metrics");
  EXPECT_NE(page.find("200 OK"), std::string::npos);
  EXPECT_NE(page.find("hopfeed_server_batches_total 1"), std::string::npos) << page;
  EXPECT_NE(page.find("hopfeed_server_clients 1"), std::string::npos);
  EXPECT_NE(page.find("hopfeed_server_slots{state=\"free\"} 64"), std::string::npos);
  EXPECT_EQ(page.find("name"), std::string::npos) << "a label that a client chose";
  EXPECT_NE(get(metrics, "/healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(get(metrics, "/readyz").find("200 OK"), std::string::npos);
  EXPECT_NE(get(metrics, "/metrics?module=a").find("hopfeed_server_clients 1"), std::string::npos);
  EXPECT_NE(get(metrics, "/other").find("404"), std::string::npos);
  EXPECT_NE(http(metrics, "POST /metrics HTTP/1.1\r\nConnection: close\r\n\r\n").find("405"),
            std::string::npos);
  EXPECT_NE(http(metrics, "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello").find("405"),
            std::string::npos);
  wire::asio::io_context loop;  // more than it serves at a time, which say nothing
  std::vector<wire::asio::ip::tcp::socket> idle;
  for (int i = 0; i < 40; ++i)
    idle.emplace_back(loop).connect({wire::asio::ip::address_v4::loopback(), metrics.port});
  EXPECT_NE(get(metrics, "/healthz").find("200 OK"), std::string::npos);
  ask(client, 1, 0);  // so that it does not end at once
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  program.signal(SIGTERM);
  ASSERT_EQ(client.next().type(), FrameType::kDraining);
  EXPECT_NE(get(metrics, "/readyz").find("503"), std::string::npos);
  client.send(FrameType::kCancel, 1);
  EXPECT_EQ(program.wait(60s), 0);
}

TEST_F(ServerProgram, BadInput_IsOneLineThatNamesIt) {
  const testing::TempFolder scratch;
  const auto with = [](const std::string& option, const std::string& value) {
    return command({option, value});
  };
  const auto alone = [](std::vector<std::string> words) {
    words.insert(words.begin(), testing::program("hopfeed-server"));
    return words;
  };
  expect_refused(alone({"--listen", "127.0.0.1:0"}), "--data");
  expect_refused(alone({"--data", scratch.path() / "no", "--listen", "127.0.0.1:0"}),
                 "hopfeed-server: --data: no dataset folder");
  expect_refused(alone({"--data", path(1), "--listen", "127.0.0.1"}),
                 "hopfeed-server: --listen: '127.0.0.1' is no address");
  expect_refused(with("--metrics", "bogus"), "hopfeed-server: --metrics: 'bogus' is no address");
  expect_refused(with("--metrics", "0.0.0.0:0"), "--insecure");
  expect_refused(alone({"--data", path(1), "--listen", "127.0.0.1:70000"}), "127.0.0.1:70000");
  expect_refused(alone({"--data", path(1), "--listen", "0.0.0.0:0"}), "--token-file");
  expect_refused(alone({"--data", path(1).string() + "," + path(2).string(), "--listen", "127.0.0.1:0"}),
                 "have the same content");
  expect_refused(with("--token-file", scratch.path() / "none"), "none");
  const std::string token = scratch.path() / "token";
  std::ofstream(token) << "short\n";
  expect_refused(with("--token-file", token), token);
  if (geteuid() != 0) {
    ::chmod(token.c_str(), 0);
    expect_refused(with("--token-file", token), token, 1);
  }
  expect_refused(with("--plugin", scratch.path() / "none.so"), "none.so");
  expect_refused(with("--num-workers", "0"), "--num-workers");
  expect_refused(with("--max-memory", "1M"), "--max-memory");
  expect_refused(with("--tls-cert", token), "--tls-key");
}

TEST_F(ServerProgram, State_IsKeptBelowItsFolder_AndStatusAndMetricsHaveItsTables) {
  const testing::TempFolder scratch;
  const std::string said = scratch.path() / "stderr", state = scratch.path() / "state";
  std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" 2> " + said, "sh"};
  for (const std::string& word :
       command({"--state", state, "--state-memory", "32M", "--metrics", "127.0.0.1:0"}))
    words.push_back(word);
  testing::BackgroundProgram program(words);
  const wire::Address address = read_address(program), metrics = read_address(program);
  const Dataset dataset(path(1));
  const DatasetMeta& meta = dataset.meta();
  const std::string title = meta.name + "-" + meta.fingerprint.substr(0, 8);
  EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::path(state) / title));
  RawClient client(address);
  const auto status = [&] { return parse_json(client.ask(FrameType::kGetStatus, 2).text()).at("state"); };
  EXPECT_EQ(status().at("max_memory"), 32 << 20);
  EXPECT_TRUE(status().at("tables").empty());

  PeerOptions peers;
  peers.peers = {address.to_text()};
  DistTensor tensor(std::make_shared<StateOwners>(meta, peers), meta,
                    {.name = "seen", .node_type = "node", .dtype = ElementType::kInt64, .width = 2});
  const std::vector<std::int64_t> values{1, 2, 3, 4}, rows{0, 7};
  tensor.push(rows, std::as_bytes(std::span(values)));
  const auto tables = [&] { return status().at("tables"); };
  while (tables().empty() || tables()[0].at("written") != 2) client.sleep(50ms);  // the watchdog bounds it
  const nlohmann::json table = tables()[0];
  EXPECT_EQ(table.at("dataset"), meta.name);
  EXPECT_EQ(table.at("fingerprint"), meta.fingerprint);
  EXPECT_EQ(table.at("name"), "seen");
  EXPECT_EQ(table.at("kind"), "tensor");
  EXPECT_EQ(table.at("node_type"), "node");
  EXPECT_EQ(table.at("width"), 2);
  EXPECT_EQ(table.at("rows"), dataset.num_nodes(0));
  EXPECT_FALSE(table.contains("steps_applied"));
  const std::string page = get(metrics, "/metrics"), labels = "{dataset=\"" + title + "\",table=\"seen\"}";
  EXPECT_NE(page.find("hopfeed_state_rows_written" + labels + " 2"), std::string::npos) << page;
  EXPECT_NE(page.find("hopfeed_state_bytes" + labels), std::string::npos) << page;
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 0);
  const std::string log = testing::file_bytes(said);
  EXPECT_NE(log.find(" state=" + log_value(state) + " state_memory=\"32 MiB\""), std::string::npos) << log;
  EXPECT_NE(log.find("event=state_rows dataset=" + log_value(meta.name) +
                     " node_type=node rows=" + std::to_string(dataset.num_nodes(0))),
            std::string::npos)
      << log;
}

TEST_F(ServerProgram, FolderOfStateThatCannotBe_IsOneLineBeforeAnythingIsServed) {
  const testing::TempFolder scratch;
  const std::string file = scratch.path() / "file";
  std::ofstream(file) << "text";
  expect_refused(command({"--state", file}), "hopfeed-server: --state: cannot make the folder " + file, 1);
  expect_refused(command({"--state", path(1) / "state"}), "--state: ");
  expect_refused(command({"--state-memory", "32M"}), "--state-memory is of a server that keeps state; give");
  expect_refused(command({"--state", scratch.path() / "state", "--state-memory", "1M"}),
                 "--state-memory is 1048576 bytes; at least 16 MiB");
  expect_refused(command({"--state", scratch.path() / "state", "--state-memory", "4000G"}),
                 "lower --state-memory or --max-memory", 1);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "state"));
}

TEST_F(ServerProgram, QuestionAboutState_OfAServerThatKeepsNone_SaysHowToStartIt) {
  testing::BackgroundProgram program(command());
  RawClient machine(read_address(program));
  const std::string& dataset = machine.offer().datasets.at(0).fingerprint;
  const RawClient::Frame partitions =
      machine.ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(dataset)));
  EXPECT_FALSE(wire::from_bytes<wire::Partitions>(partitions.payload).keeps_state);
  const RawClient::Frame refused = machine.ask(FrameType::kState, 2, wire::Bytes(72));
  ASSERT_EQ(refused.type(), FrameType::kRefused);
  EXPECT_EQ(refused.refusal().text, "this server keeps no state of training; start it with --state DIR");
}

TEST_F(ServerProgram, Results_AreServedFromTheirFolder_AndStatusAndMetricsTellHowMany) {
  const testing::TempFolder scratch;
  const std::filesystem::path results = scratch.path() / "results";  // not there yet
  testing::BackgroundProgram program(command({"--results", results, "--metrics", "127.0.0.1:0"}));
  const wire::Address address = read_address(program), metrics = read_address(program);
  RawClient client(address);
  const std::string& dataset = client.offer().datasets.at(0).fingerprint;
  const RawClient::Frame partitions =
      client.ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(dataset)));
  EXPECT_TRUE(wire::from_bytes<wire::Partitions>(partitions.payload).keeps_results);
  const std::vector<std::uint32_t> rows{0, 2};
  const ResultsQuestion question{.ask = ResultsAsk::kRows,
                                 .partition = 0,
                                 .run = {.high = 1, .low = 2},
                                 .name = {.table = "h1", .node_type = "node"},
                                 .rows = rows};
  std::uint64_t request = 1;
  const auto says = [&] {
    const PeerBytes bytes = write_results_question(question);
    wire::Bytes payload(bytes.begin(), bytes.end());
    wire::add_checksum(payload, ++request);
    RawClient::Frame answer = client.ask(FrameType::kResults, request, payload);
    wire::take_checksum(answer.payload, request, "the server");
    return read_results_answer(answer.payload, rows.size(), 8).says;
  };
  EXPECT_EQ(says(), ResultsSays::kNobody);
  const RunFolder folder(results, question.run, "{}");
  EXPECT_EQ(says(), ResultsSays::kNotYet);
  folder.layers().write(question.name, {.partition = 0, .first = 0, .count = 3, .row_bytes = 8},
                        std::vector<std::byte>(24));
  EXPECT_EQ(says(), ResultsSays::kRows);
  const nlohmann::json status = parse_json(client.ask(FrameType::kGetStatus, 99).text()).at("results");
  EXPECT_EQ(status.at("folder"), results.string());
  EXPECT_EQ(status.at("questions"), 3);
  EXPECT_EQ(status.at("not_yet"), 1);
  EXPECT_EQ(status.at("refused"), 0);
  EXPECT_EQ(status.at("rows"), 2);
  EXPECT_EQ(status.at("row_bytes"), 16);
  EXPECT_EQ(status.at("shards"), 1);
  const std::string page = get(metrics, "/metrics");
  for (const char* line :
       {"hopfeed_server_results_questions_total 3", "hopfeed_server_results_not_yet_total 1",
        "hopfeed_server_results_refused_total 0", "hopfeed_server_results_rows_total 2",
        "hopfeed_server_results_row_bytes_total 16"})
    EXPECT_NE(page.find(line), std::string::npos) << line << "\n" << page;
}

TEST_F(ServerProgram, WhatIsNoFolderOfResults_IsOneLineBeforeAnythingIsServed) {
  const testing::TempFolder scratch;
  const std::string file = scratch.path() / "file";
  std::ofstream(file) << "text";
  expect_refused(command({"--results", file}), "hopfeed-server: --results: " + file +
                                                   " is no folder; name that in which an inference computes");
}

TEST_F(ServerProgram, QuestionAboutResults_OfAServerThatServesNone_SaysHowToStartIt) {
  testing::BackgroundProgram program(command());
  RawClient machine(read_address(program));
  const std::string& dataset = machine.offer().datasets.at(0).fingerprint;
  const RawClient::Frame partitions =
      machine.ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(dataset)));
  EXPECT_FALSE(wire::from_bytes<wire::Partitions>(partitions.payload).keeps_results);
  const RawClient::Frame refused = machine.ask(FrameType::kResults, 2, wire::Bytes(72));
  ASSERT_EQ(refused.type(), FrameType::kRefused);
  EXPECT_EQ(refused.refusal().text, "this server serves no results; start it with --results DIR");
}

TEST_F(ServerProgram, PortInUse_IsOneLineThatNamesTheAddress) {
  testing::BackgroundProgram program(command());
  const std::string address = read_address(program).to_text();
  std::vector<std::string> words{testing::program("hopfeed-server"), "--data", path(1), "--listen", address};
  expect_refused(words, "hopfeed-server: --listen: " + address + " is in use", 1);
  expect_refused(command({"--metrics", address}), "hopfeed-server: --metrics: " + address + " is in use", 1);
}

TEST_F(ServerProgram, SecondSignalOfOneWish_IsNotLostForGood) {
  testing::BackgroundProgram program(command());
  RawClient client(read_address(program));
  open(client);
  ask(client, 0, 0);
  ASSERT_EQ(client.next().type(), FrameType::kSize);
  program.signal(SIGTERM);
  program.signal(SIGINT);
  EXPECT_EQ(client.next().type(), FrameType::kDraining) << "launchers send two for one wish";
  client.sleep(2'000ms);
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 130);
}

TEST_F(ServerProgram, Strangers_FillNoLog) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const EventLog log([&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.push_back(line);
  });
  const std::int64_t strangers = 500;
  for (std::int64_t i = 0; i < strangers; ++i)
    log.add("login_failed", {{"client", ""}, {"peer", "10.0.0.1:4000"}});
  std::int64_t told = 0, left_out = 0;
  while (told + left_out < strangers) {  // the watchdog bounds it
    std::this_thread::sleep_for(10ms);
    log.add("other");
    const std::lock_guard lock(mutex);
    for (const std::string& line : std::exchange(lines, {})) {
      const std::size_t at = line.find("event=left_out lines=");
      if (at != std::string::npos) left_out += std::stoll(line.substr(at + 21));
      if (line.ends_with("event=login_failed peer=10.0.0.1:4000")) ++told;
    }
  }
  EXPECT_EQ(told + left_out, strangers);
  EXPECT_LT(told, strangers / 2) << "a second may end in the middle, but not in each turn";
}

// F23
TEST_F(ServerProgram, MoreConnectionsThanDescriptors_PausesAndGoesOn) {
  if (testing::kSanitized)
    GTEST_SKIP() << "a sanitizer opens files of its own, and complains where it cannot";
  std::vector<std::string> words{"/usr/bin/env", "prlimit", "--nofile=72:72"};
  for (const std::string& word : command()) words.push_back(word);
  testing::BackgroundProgram program(words);
  const wire::Address address = read_address(program);
  RawClient client(address);
  open(client);
  {
    wire::asio::io_context loop;
    std::vector<wire::asio::ip::tcp::socket> many;
    for (int i = 0; i < 150; ++i) {
      wire::asio::ip::tcp::socket& socket = many.emplace_back(loop);
      socket.connect({wire::asio::ip::address_v4::loopback(), address.port});
    }
    while (parse_json(client.ask(FrameType::kGetStatus, 2).text())["accept_pauses"] == 0) client.sleep(10ms);
    ask(client, 0);
    EXPECT_EQ(line(client.next()), expected_line(0));
  }
  RawClient later(address);
  open(later);
  ask(later, 1);
  EXPECT_EQ(line(later.next()), expected_line(1));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(60s), 0);
}

TEST_F(ServerProgram, TokenOfAnotherServer_IsRefusedAndNeverPrinted) {
  const testing::TempFolder scratch;
  const std::string token = scratch.path() / "token";
  std::ofstream(token) << "correct-horse-battery-staple\n";
  testing::BackgroundProgram program(command({"--token-file", token}));
  const wire::Address address = read_address(program);
  const std::string error =
      error_of([&] { RawClient client(address, nullptr, "another-token-of-some-length"); });
  EXPECT_NE(error.find("token"), std::string::npos) << error;
  EXPECT_EQ(error.find("horse"), std::string::npos);
  RawClient client(address, nullptr, "correct-horse-battery-staple");
  EXPECT_EQ(open(client).num_seeds, kSeeds);
}

TEST_F(ServerProgram, AnswerToAnotherMachineThatIsUnderWay_LeavesBeforeTheServerDoes) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "built without failpoints";
  setenv("HOPFEED_FAIL", "server.answer=sleep:5000@1", 1);
  testing::BackgroundProgram program(command());
  unsetenv("HOPFEED_FAIL");
  RawClient machine(read_address(program));
  const std::string& dataset = machine.offer().datasets.at(0).fingerprint;
  ASSERT_EQ(machine.ask(FrameType::kGetPartitions, 1, wire::to_bytes(std::string_view(dataset))).type(),
            FrameType::kPartitions);
  const std::vector<std::uint32_t> rows{0};
  const PeerBytes question = write_question({.ask = PeerAsk::kDegrees, .partition = 0, .job = 0},
                                            PeerRowsHead{.edge_type = 0, .rows = 1}, std::span(rows));
  wire::Bytes bytes(question.begin(), question.end());
  wire::add_checksum(bytes, 2);
  machine.send(FrameType::kAsk, 2, bytes);
  EXPECT_EQ(machine.ask(FrameType::kPing, 3).type(), FrameType::kPong);  // so it is with a thread by now
  program.signal(SIGTERM);
  EXPECT_EQ(machine.next().type(), FrameType::kDraining);
  EXPECT_EQ(machine.next().type(), FrameType::kAnswer);
  EXPECT_EQ(program.wait(60s), 0);
}

}  // namespace
}  // namespace hopfeed
