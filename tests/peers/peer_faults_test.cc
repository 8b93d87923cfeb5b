// Machines that ask each other, and what goes wrong between them: a server that is killed and comes back, or
// does not; a second one that takes over; a network that is slow, cut, or turns bits over; and machines that
// do not fit together.
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/base/failpoint.h"
#include "tests/peers/peer_test.h"
#include "tests/support/sharded_ids.h"
#include "tests/wire/proxy.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::Proxy;

class PeerFaults : public PeerTest {};

TEST_F(PeerFaults, ServerStopsAndComesBackAgainAndAgain_TheBytesStay) {
  PeerServers servers(path(2).string());
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options_of(servers.machine(0));
    o.execution.num_workers = workers;
    Loader loader(o);
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(epoch_of(loader, epoch,
                         [&](std::size_t batches) {
                           if (batches % 4 != 0) return;
                           servers.stop(1);
                           servers.start(1);
                         }),
                expected(options(), {.epoch = epoch}))
          << workers << " workers";
    }
  }
}

TEST_F(PeerFaults, ServerProcessIsKilledWhileItIsAsked_TheBytesStay) {
  ServerProcess other(path(2).string(), with_partition(1));
  LoaderOptions o = options_of(machine(0, {other.address().to_text()}));
  Loader loader(o);
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(3 * epoch));
      other.kill();
      std::this_thread::sleep_for(200ms);
      other.restart();
    });
    EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch}));
    killer.join();
  }
}

TEST_F(PeerFaults, ServerDiesWhileItAnswers_TheBytesStay) {
  if (!kFailpointsEnabled) GTEST_SKIP() << "built without failpoints";
  setenv("HOPFEED_FAIL", "server.answer=kill@20", 1);
  ServerProcess other(path(2).string(), with_partition(1));
  unsetenv("HOPFEED_FAIL");
  Loader loader(options_of(machine(0, {other.address().to_text()})));
  std::thread again([&] {
    other.wait(60s);
    other.restart();
  });
  for (int epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch}));
  again.join();
}

TEST_F(PeerFaults, ServerStaysAway_IsAnErrorThatNamesItAfterTheDeadline) {
  PeerServers servers(path(2).string());
  PeerOptions machine = servers.machine(0);
  machine.deadline = 5'000ms;
  Loader loader(options_of(machine));
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  servers.stop(1);
  const auto begin = std::chrono::steady_clock::now();
  const std::string error = error_of([&] { epoch_of(loader, 1); });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, machine.deadline + 30s);
  expect_part(error, "partition 1 gave no answer within 5000 ms");
  expect_part(error, servers.addresses()[1]);
  servers.start(1);  // and they go on
  EXPECT_EQ(epoch_once_found(loader, 2), expected(options(), {.epoch = 2}));
}

// Batches that wait to announce their rows go on when those before them fail.
TEST_F(PeerFaults, ServerStaysAwayBehindARowCache_IsAnErrorAndAfterItsRestartTheBytesStay) {
  PeerServers servers(path(2).string());
  LoaderOptions o = options_of(servers.machine(0));
  o.execution.features.row_cache_bytes = 30'000;
  o.execution.partitions.deadline = 3'000ms;
  Loader loader(o);
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    servers.stop(1);
    const auto begin = std::chrono::steady_clock::now();
    expect_part(error_of([&] { epoch_of(loader, epoch + 1); }), "partition 1 gave no answer within 3000 ms");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, o.execution.partitions.deadline + 30s);
    servers.start(1);
    EXPECT_EQ(epoch_once_found(loader, epoch), expected(options(), {.epoch = epoch}));
  }
  EXPECT_GT(loader.stats().tiers.cache_rows, 0);
}

TEST_F(PeerFaults, EpochsAreLeftAndWorkersKilledBehindARowCache_TheBytesStay) {
  PeerServers servers(path(2).string());
  for (const std::int64_t workers : {1, 2}) {
    LoaderOptions o = options_of(servers.machine(0));
    o.execution.features.row_cache_bytes = 30'000;
    o.execution.num_workers = workers;
    Loader loader(o);
    for (std::int64_t epoch = 0; epoch < 6; ++epoch) {
      loader.begin_epoch(epoch + 100);
      for (std::int64_t taken = 0; taken < epoch; ++taken) EXPECT_TRUE(loader.next());
      EXPECT_EQ(epoch_of(loader, epoch,
                         [&](std::size_t batches) {
                           if (epoch % 2 == 0 && batches == 3) ::kill(loader.worker_pids().front(), SIGKILL);
                         }),
                expected(options(), {.epoch = epoch}))
          << workers << " workers";
    }
    EXPECT_GT(loader.stats().tiers.cache_rows, 0);
  }
}

TEST_F(PeerFaults, Replicas_ShareTheQuestionsAndTakeOver) {
  PeerServers servers(path(2).string());
  ServerProcess second(path(2).string(), with_partition(1));
  PeerOptions machine = servers.machine(0);
  machine.peers.push_back(second.address().to_text());
  expect_part(error_of([&] { Loader loader(options_of(machine)); }),
              "partition 1 is served by 2 machines of those named (peers)");
  machine.replicas = 2;
  machine.deadline = 100'000ms;
  Loader loader(options_of(machine));
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(epoch_of(loader, epoch,
                       [&](std::size_t batches) {
                         if (epoch == 1 && batches == 3) servers.stop(1);
                       }),
              expected(options(), {.epoch = epoch}));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, machine.deadline / 2) << "nobody is waited for";
  }
}

// One question after the other: each of them would be told the options, and the other asked for the rows.
TEST_F(PeerFaults, TwoReplicasThatAreAskedInTurn_BothKnowTheOptions) {
  ServerProcess first(path(2).string(), with_partition(1)), second(path(2).string(), with_partition(1));
  LoaderOptions o = options_of(machine(0, {first.address().to_text(), second.address().to_text()}));
  o.execution.num_workers = 0;
  o.execution.partitions.replicas = 2;
  Loader loader(o);
  for (int epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch}));
}

TEST_F(PeerFaults, TwoReplicasAlone_BothLearnWhatIsAskedOfThem) {
  ServerProcess first(path(2).string(), with_partition(1)), second(path(2).string(), with_partition(1));
  PeerOptions two = machine(0, {first.address().to_text(), second.address().to_text()});
  two.replicas = 2;
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options_of(two);
    o.execution.num_workers = workers;
    o.batch.fanouts = {3, 2};  // nobody was told of these before
    o.seed = static_cast<std::uint64_t>(workers);
    Loader loader(o);
    LoaderOptions one = options();
    one.batch = o.batch;
    one.seed = o.seed;
    EXPECT_EQ(epoch_of(loader, 0), expected(one)) << workers << " workers";
  }
}

TEST_F(PeerFaults, BadNetworks_GiveTheSameBatches) {
  ServerProcess other(path(2).string(), with_partition(1));
  const testing::ProxyOptions networks[] = {
      {.to_server = {.most_at_once = 1}, .to_client = {.most_at_once = 61}},
      {.seed = 3, .to_server = {.replay = 0.3, .reorder = 0.3}, .to_client = {.replay = 0.3, .reorder = 0.3}},
      {.to_client = {.cut_after = 30'000, .later = 5'000}},
      {.to_server = {.cut_after = 9'001, .later = 1'000}},
      {.to_client = {.flip_at = 20'011, .later = 5'000}},
      {.to_server = {.flip_at = 3'001, .later = 1'000}},
      {.to_server = {.delay = 2ms, .jitter = 2ms}, .to_client = {.delay = 2ms, .jitter = 2ms}}};
  for (std::size_t i = 0; i < std::size(networks); ++i) {
    Proxy proxy(other.address(), networks[i]);
    PeerOptions through = machine(0, {proxy.address().to_text()});
    through.deadline = 100'000ms;
    LoaderOptions o = options_of(through);
    o.execution.num_workers = 1;
    Loader loader(o);
    for (int epoch = 0; epoch < 2; ++epoch)
      EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch})) << "network " << i;
  }
}

TEST_F(PeerFaults, ConnectionsCutAndStalledAtRandom_TheBytesStay) {
  ServerProcess other(path(2).string(), with_partition(1));
  Proxy proxy(other.address());
  Loader loader(options_of(machine(0, {proxy.address().to_text()})));
  for (int epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(epoch_of(loader, epoch,
                       [&](std::size_t batches) {
                         if (batches % 3 == 0) proxy.cut();
                         if (batches % 5 == 0) proxy.stall(50ms);
                       }),
              expected(options(), {.epoch = epoch}));
  // The loader and both workers connect again, each when its pause is over.
  while (proxy.connections() < 6) std::this_thread::sleep_for(10ms);  // the watchdog bounds it
}

// Both ends stay open, and nothing comes any more: signs of life tell.
TEST_F(PeerFaults, ConnectionGoesSilent_IsLeftAndTheQuestionAskedAnew) {
  ServerProcess other(path(2).string(), with_partition(1));
  Proxy proxy(other.address());
  LoaderOptions o = options_of(machine(0, {proxy.address().to_text()}));
  o.execution.num_workers = 1;
  Loader loader(o);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(epoch_of(loader, 0,
                     [&](std::size_t batches) {
                       if (batches == 2) proxy.freeze_to_client();
                     }),
            expected(options()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 40s);
  EXPECT_GE(proxy.connections(), 3) << "the loader's, the worker's, and that after the silence";
}

TEST_F(PeerFaults, MachinesThatDoNotFit_AreOneLineEach) {
  ServerProcess second(path(2).string(), with_partition(1));
  const std::string address = second.address().to_text();
  const auto error = [&](const PeerOptions& machine, int parts = 2) {
    return error_of([&] { Loader loader(options_of(machine, parts)); });
  };
  expect_part(error(machine(1, {address})),
              "partition 0 is neither on this machine nor served by one of those named (peers)");
  PeerOptions nobody = machine(0, {"127.0.0.1:1"});
  nobody.connect_timeout = 1'000ms;
  expect_part(error(nobody), "nobody serves partition 1 within 1000 ms (127.0.0.1:1: ");
  expect_part(error(machine(0, {address, address})), "is named twice (peers)");
  expect_part(error(machine(0, {"no-port"})), "no-port");
  expect_part(error(machine(7, {address})), "there is no partition 7");
  expect_part(error(machine(0, {address}), 3), "has another cut of the dataset (2 partitions");
  PeerOptions without_token = machine(0, {address});
  without_token.token = {};
  expect_part(error(without_token), "wants a token; give peer_token_file");
  // The same cut with sharded ids: the manifests tell them apart.
  const std::filesystem::path sharded = folder() / "sharded";
  std::filesystem::copy(path(2), sharded, std::filesystem::copy_options::recursive);
  testing::shard_ids(sharded);
  LoaderOptions with_sharded_ids = options_of(machine(0, {address}));
  with_sharded_ids.dataset = sharded.string();
  expect_part(error_of([&] { Loader loader(with_sharded_ids); }),
              "has another cut of the dataset (2 partitions");
  // Another graph by the same name.
  const std::filesystem::path other_graph = folder() / "other";
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 50, .num_edges = 90, .x_width = 9, .num_train = 20, .seed = 9});
  testing::write_tiny_dataset(other_graph, graph, testing::random_cut(graph, 2, 5));
  LoaderOptions o = options_of(machine(0, {address}));
  o.dataset = other_graph.string();
  expect_part(error_of([&] { Loader loader(o); }), "the server has no dataset of fingerprint");
}

TEST_F(PeerFaults, FolderWithSomePartitions_IsOneLineWithoutPeers) {
  const std::filesystem::path some = folder() / "some";
  std::filesystem::copy(path(2), some, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(some / "part-0001");
  LoaderOptions o = options();
  o.dataset = some.string();
  expect_part(error_of([&] { Loader loader(o); }),
              "part-0001 of " + some.string() + " is not on this machine");
  ServerProcess second(path(2).string(), with_partition(1));
  o.execution.partitions.peers = {second.address().to_text()};  // what is here is found by itself
  o.execution.partitions.token = kTestToken;
  Loader loader(o);
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  std::filesystem::remove_all(some / "part-0000");
  expect_part(error_of([&] { Loader other(o); }), "has no folder of a partition");
}

}  // namespace
}  // namespace hopfeed
