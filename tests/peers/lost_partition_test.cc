// A partition's server is gone for good: those who wait for it hear so, wait no longer than they were told
// to, and go on when it is back.
#include <signal.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/peers/peer_test.h"
#include "tests/support/sharded_ids.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class LostPartition : public PeerTest {
 protected:
  /// Both are in the folder `parts2`; the server of partition 0 asks at `other` for the rest.
  static ServerOptions asks(const std::string& other, std::chrono::milliseconds deadline) {
    ServerOptions options = server_options(path(2).string());
    options.partitions = machine(0, {other});
    options.partitions.deadline = deadline;
    return options;
  }
  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Waits, as long as the watchdog does.
  static void wait_for(const std::filesystem::path& file, const std::string& part) {
    while (text_of(file).find(part) == std::string::npos) std::this_thread::sleep_for(20ms);
  }
  static std::size_t times(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  /// hopfeed-sample in the background, its words in `err`.
  static std::vector<std::string> sample_into(const std::filesystem::path& err,
                                              const std::vector<std::string>& more) {
    std::vector<std::string> command{"/bin/sh", "-c", "exec \"$@\" 2>" + err.string(), "sh",
                                     testing::program("hopfeed-sample")};
    for (const char* word : {"--fanouts", "4,3", "--batch-size", "16", "--seed", "11", "--epochs", "100000"})
      command.push_back(word);
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
};

TEST_F(LostPartition, BatchesAfterTheFirst_FailSoonUntilItIsBack) {
  PeerServers servers(path(2).string());
  PeerOptions machine = servers.machine(0);
  machine.deadline = 5'000ms;
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options_of(machine);
    o.execution.num_workers = workers;
    Loader loader(o);
    EXPECT_EQ(epoch_of(loader, 0), expected(options()));
    servers.stop(1);
    expect_part(error_of([&] { epoch_of(loader, 1); }), "partition 1 gave no answer within 5000 ms");
    const auto begin = std::chrono::steady_clock::now();
    constexpr int kEpochs = 8;
    for (int epoch = 0; epoch < kEpochs; ++epoch)
      expect_part(error_of([&] { epoch_of(loader, epoch); }), "partition 1 gave no answer");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kEpochs * machine.deadline)
        << "none waits as long again";
    servers.start(1);
    EXPECT_EQ(epoch_once_found(loader, 2), expected(options(), {.epoch = 2}));
  }
}

TEST_F(LostPartition, WithShardedIds_ItsRangeOfIdsIsGoneToo) {
  const testing::TempFolder temp;
  const std::filesystem::path sharded = temp.path() / "sharded";
  std::filesystem::copy(path(2), sharded, std::filesystem::copy_options::recursive);
  testing::shard_ids(sharded);
  PeerServers servers(sharded.string());
  LoaderOptions o = options_of(servers.machine(0));
  o.dataset = sharded.string();
  o.execution.partitions.deadline = 2'000ms;
  Loader loader(o);
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  servers.stop(1);
  expect_part(error_of([&] { epoch_of(loader, 1); }), "partition 1 gave no answer within 2000 ms");
  servers.start(1);
  EXPECT_EQ(epoch_once_found(loader, 2), expected(options(), {.epoch = 2}));
}

TEST_F(LostPartition, ServerTellsItInItsLogAndItsStatus_AndThatItIsBack) {
  std::optional<ServerProcess> other(std::in_place, path(2).string(), with_partition(1));
  const std::string address = other->address().to_text();
  std::mutex mutex;
  std::string log;
  ServerOptions options = asks(address, 60s);
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    log += line + "\n";
  };
  const auto logged = [&] {
    const std::lock_guard lock(mutex);
    return log;
  };
  const auto wait_for_event = [&](const std::string& event) {
    while (logged().find("event=" + event) == std::string::npos) std::this_thread::sleep_for(20ms);
  };
  Server server(options);
  const auto lost = [&] {
    return nlohmann::json::parse(ask_status(remote_options({server.address()}))).at("lost_partitions");
  };
  while (!lost().empty()) std::this_thread::sleep_for(20ms);  // it has found it
  if (times(logged(), "event=partition_lost") > 0)
    wait_for_event("partition_found");  // after a second or more
  {
    const std::lock_guard lock(mutex);
    log.clear();
  }
  other->kill();
  wait_for_event("partition_lost");
  expect_part(logged(), "partition=1");
  expect_part(logged(), address);
  const nlohmann::json told = lost();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0]["partition"], 1);
  EXPECT_EQ(told[0]["dataset"], "tiny");
  EXPECT_GT(told[0]["seconds"], 0.0);
  expect_part(told[0]["why"], address);
  other->restart();
  wait_for_event("partition_found");
  while (!lost().empty()) std::this_thread::sleep_for(20ms);  // a status is kept for a moment
  EXPECT_EQ(times(logged(), "event=partition_lost"), 1U);
}

TEST_F(LostPartition, ClientOfServersThatWaitForIt_IsToldSoOnceAndGetsTheError) {
  const Server one(asks("127.0.0.1:1", 8s)), two(asks("127.0.0.1:1", 8s)), three(asks("127.0.0.1:1", 8s));
  const testing::TempFolder out;
  const std::filesystem::path err = out.path() / "err";
  testing::BackgroundProgram client(
      sample_into(err, {"--servers", one.address().to_text() + "," + two.address().to_text() + "," +
                                         three.address().to_text()}),
      {std::string("HOPFEED_TOKEN=") + kTestToken});
  client.read_rest();
  EXPECT_EQ(client.wait(60s), 1);
  const std::string said = text_of(err);
  EXPECT_EQ(times(said, "waiting for 5 s for a batch of server 127.0.0.1:"), 1U) << said;
  expect_part(said, "which waits for a server of partition 1 of 'tiny' (127.0.0.1:1: ");
  expect_part(said, "partition 1 gave no answer within 8000 ms");
}

TEST_F(LostPartition, ProgramThatSamplesItself_SaysOnceWhatItWaitsFor) {
  ServerProcess other(path(2).string(), with_partition(1));
  for (const char* workers : {"0", "1"}) {
    const testing::TempFolder out;
    const std::filesystem::path err = out.path() / "err";
    testing::BackgroundProgram sample(
        sample_into(err, {path(2).string(), "--partitions", "0", "--peers", other.address().to_text(),
                          "--num-workers", workers, "--peer-deadline", "7"}),
        {std::string("HOPFEED_TOKEN=") + kTestToken});
    EXPECT_NE(sample.read_line(), "");
    other.kill();
    sample.read_rest();
    EXPECT_EQ(sample.wait(60s), 1);
    const std::string said = text_of(err);
    EXPECT_EQ(times(said, "waiting for partition 1, which has had no server for 5 s ("), 1U) << said;
    expect_part(said, "an error after 7 s (--peer-deadline)");
    other.restart();
  }
}

TEST_F(LostPartition, ClientThatWaitsForALostServer_SaysSoAndEndsByOneLineWhenInterrupted) {
  ServerProcess server(path(1).string());
  const testing::TempFolder out;
  const std::filesystem::path err = out.path() / "err";
  testing::BackgroundProgram client(sample_into(err, {"--servers", server.address().to_text()}),
                                    {std::string("HOPFEED_TOKEN=") + kTestToken});
  EXPECT_NE(client.read_line(), "");
  server.kill();
  std::thread reader([&] { client.read_rest(); });
  wait_for(err, "waiting for a server; without one for 60 s it is an error");
  client.signal(SIGINT);
  EXPECT_EQ(client.wait(60s), 130);
  reader.join();
  expect_part(text_of(err), "hopfeed-sample: interrupted; nothing half-written is left\n");
  EXPECT_EQ(times(text_of(err), "\n"), 2U) << text_of(err);
}

}  // namespace
}  // namespace hopfeed
