// The programs over servers as a user meets them: the same lines as over a folder, and one line for what
// cannot be.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/owned_fd.h"
#include "peers/state_owners.h"
#include "state/client/dist_rows.h"
#include "tests/server_client_mode/remote_fixture.h"

namespace hopfeed {
namespace {

class ClientPrograms : public LoaderTestWithin<120> {
 protected:
  static testing::ProgramResult run(std::vector<std::string> command) {
    command.front() = testing::program(command.front());
    return testing::run_program(command, {std::string("HOPFEED_TOKEN=") + kTestToken});
  }
  static void expect_refused(const testing::ProgramResult& result, const std::string& part) {
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
};

TEST_F(ClientPrograms, SampleOverServers_PrintsTheLinesOfTheFolder) {
  ServerProcess one(path(1).string()), two(path(2).string());
  const std::string servers = one.address().to_text() + "," + two.address().to_text();
  const testing::ProgramResult local = testing::run_program(sample_command({"--num-workers", "0"}));
  ASSERT_EQ(local.exit_code, 0) << local.err;
  const testing::TempFolder out;
  const std::string trace = out.path() / "trace.json";
  const testing::ProgramResult remote =
      run({"hopfeed-sample", "--servers", servers, "--connect", "all", "--fanouts", "4,3", "--batch-size",
           "16", "--seed", "11", "--trace", trace});
  EXPECT_EQ(remote.exit_code, 0) << remote.err;
  EXPECT_EQ(remote.out, local.out);
  std::ifstream file(trace);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find("train server 127.0.0.1:"), std::string::npos) << "traces name server and worker";
  EXPECT_TRUE(nlohmann::json::accept(text));
}

TEST_F(ClientPrograms, CacheTakesWhatTheTunerRecommends) {
  ServerProcess server(path(1).string());
  const testing::TempFolder out;
  const auto hits = [&](const std::string& cache) {
    const std::string json = out.path() / "sample.json";
    const testing::ProgramResult result =
        run({"hopfeed-sample", "--servers", server.address().to_text(), "--fanouts", "4,3", "--batch-size",
             "16", "--seed", "11", "--cache", cache, "--json", json});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::ifstream file(json);
    return nlohmann::json::parse(file)["epoch_rows"][0]["hit_rate"].get<double>();
  };
  const std::string report = out.path() / "tune.json";
  std::ofstream(report) << R"({"recommended": {"ratio": 0.5, "reason": "it is half"}})";
  EXPECT_GT(hits("0.5"), 0);
  EXPECT_EQ(hits(report), hits("0.5"));
  std::ofstream(report) << R"({"recommended": {}})";
  expect_refused(run({"hopfeed-sample", "--servers", server.address().to_text(), "--cache", report}),
                 "recommends no ratio");
  expect_refused(run({"hopfeed-sample", "--servers", server.address().to_text(), "--cache", "none.json"}),
                 "--cache: cannot read none.json");
  expect_refused(run({"hopfeed-sample", "--servers", server.address().to_text(), "--cache", "2"}),
                 "--cache is '2'");
}

TEST_F(ClientPrograms, BothServersAndFolder_OrNeither_IsOneLine) {
  expect_refused(run({"hopfeed-sample", path(1).string(), "--servers", "127.0.0.1:1"}), "--servers");
  expect_refused(run({"hopfeed-sample"}), "DIR is missing");
  expect_refused(run({"hopfeed-sample", path(1).string(), "--dataset", "x"}), "--dataset is of --servers");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:1", "--at", "0,0,1"}), "--at");
}

TEST_F(ClientPrograms, WhatIsOfSamplingHere_IsRefusedByNameBesideServers) {
  const std::vector<std::vector<std::string>> options{{"--num-workers", "3"},
                                                      {"--cores", "0"},
                                                      {"--plugin", "nope"},
                                                      {"--huge-pages", "never"},
                                                      {"--features-from", "file"},
                                                      {"--features-from", "memory"},
                                                      {"--row-cache", "1M"},
                                                      {"--window", "2"},
                                                      {"--partitions", "0"},
                                                      {"--peers", "127.0.0.1:1"},
                                                      {"--replicas", "2"},
                                                      {"--worker-concurrency", "2"},
                                                      {"--peer-deadline", "7"},
                                                      {"--peer-connect-timeout", "7"},
                                                      {"--peer-token-file", "token"},
                                                      {"--peer-ca", "system"},
                                                      {"--peer-cert", "a.pem"},
                                                      {"--peer-key", "a.pem"},
                                                      {"--device-batches"}};
  for (const std::vector<std::string>& given : options) {
    std::vector<std::string> command{"hopfeed-sample", "--servers", "127.0.0.1:1"};
    command.insert(command.end(), given.begin(), given.end());
    expect_refused(run(command), "hopfeed-sample: " + given.front() + " is of sampling on this machine");
  }
}

/// A port that takes connections and says nothing.
class SilentPort {
 public:
  SilentPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 8), 0);
    getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  OwnedFd accept() const { return OwnedFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  OwnedFd fd_;
  int port_ = 0;
};

TEST_F(ClientPrograms, InterruptedWhileAServerIsSilent_IsOneLine) {
  const SilentPort silent;
  const testing::TempFolder out;
  const std::string err = out.path() / "err";
  testing::BackgroundProgram client({"/bin/sh", "-c", "exec \"$@\" 2>" + err, "sh",
                                     testing::program("hopfeed-sample"), "--servers", silent.address()});
  const OwnedFd connection = silent.accept();
  client.signal(SIGINT);
  client.read_rest();
  EXPECT_EQ(client.wait(std::chrono::seconds(60)), 130);
  std::ifstream file(err);
  const std::string said((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(said, "hopfeed-sample: interrupted; nothing half-written is left\n");
}

TEST_F(ClientPrograms, WhatCannotBe_IsOneLineThatNamesIt) {
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1"}), "127.0.0.1");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:x"}), "127.0.0.1:x");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:0"}), "has no port");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:1", "--token-file", "/nowhere/token"}),
                 "/nowhere/token");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:1", "--tls-ca", "/nowhere/ca.pem"}),
                 "/nowhere/ca.pem");
  expect_refused(run({"hopfeed-sample", "--servers", "127.0.0.1:1", "--tls-cert", "a.pem"}), "--tls-key");
}

TEST_F(ClientPrograms, TopOfAServer_ShowsItsPicture) {
  ServerProcess server(path(1).string());
  RemoteLoader loader(remote_options({server.address()}), options());
  loader.begin_epoch(0);
  const auto held = loader.next();
  const testing::TempFolder out;
  const std::string file = out.path() / "top.json";
  const testing::ProgramResult top =
      run({"hopfeed-top", server.address().to_text(), "--once", "--json", file});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_NE(top.out.find("server " + server.address().to_text()), std::string::npos) << top.out;
  EXPECT_NE(top.out.find("slots: "), std::string::npos) << top.out;
  std::ifstream report(file);
  const nlohmann::json told = nlohmann::json::parse(report);
  EXPECT_EQ(told["workers"].size(), 2U);
  EXPECT_GE(told["clients"].size(), 1U);
  EXPECT_GE(told["batches_per_s"], 0.0);
}

TEST_F(ClientPrograms, TopOfAServerThatKeepsState_ShowsItsTables) {
  const testing::TempFolder out;
  ServerProcess server(path(1).string(), {"--state", out.path() / "state"});
  const std::string address = server.address().to_text();
  EXPECT_EQ(run({"hopfeed-top", address, "--once"}).out.find("table of state"), std::string::npos);
  PeerOptions peers;
  peers.peers = {address};
  peers.token = kTestToken;
  const DatasetMeta meta = Dataset(path(1)).meta();
  DistRows rows(std::make_shared<StateOwners>(meta, peers), meta,
                {.name = "vectors", .node_type = "node", .kind = TableSpec::Kind::kEmbedding, .width = 4},
                {.run = 3, .rank = 0, .ranks = 1});
  std::vector<float> values(4);
  for (int step = 0; step < 5; ++step) {
    rows.look({2});
    rows.read(values.data());
    rows.step({rows.ids(), values.data()});
  }
  const auto status = [&] { return nlohmann::json::parse(ask_status(remote_options({server.address()}))); };
  const auto steps = [&] {
    const nlohmann::json tables = status().at("state").at("tables");
    return tables.empty() ? 0 : tables[0].at("steps_applied").get<int>();
  };
  while (steps() != 5) std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the watchdog bounds it
  const nlohmann::json table = status()["state"]["tables"][0];
  EXPECT_EQ(table["run"], "0000000000000003");
  EXPECT_EQ(table["ranks"], 1);
  EXPECT_EQ(table["connections"], 1);
  EXPECT_EQ(table["written"], 1);
  EXPECT_EQ(table["optimizer"], "sparse_adam");
  const testing::ProgramResult top = run({"hopfeed-top", address, "--once"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_NE(top.out.find("table of state"), std::string::npos) << top.out;
  EXPECT_NE(top.out.find("\n  vectors "), std::string::npos) << top.out;
  EXPECT_NE(top.out.find(" embedding "), std::string::npos) << top.out;
}

TEST_F(ClientPrograms, TopOfAServerOfResults_ShowsTheirFolder) {
  ServerProcess server(path(1).string(), {"--results", "run/results"});
  const testing::ProgramResult top = run({"hopfeed-top", server.address().to_text(), "--once"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_NE(top.out.find("  results of run/results: 0.0 questions/s, 0 rows/s, "), std::string::npos)
      << top.out;
}

TEST_F(ClientPrograms, StatusOfAServer_IsJson) {
  ServerProcess server(path(1).string());
  const nlohmann::json status = nlohmann::json::parse(ask_status(remote_options({server.address()})));
  EXPECT_EQ(status["address"], server.address().to_text());
}

}  // namespace
}  // namespace hopfeed
