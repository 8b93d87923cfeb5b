// Servers die, leave, come back, are others than before: no batch is lost, none comes twice, and what cannot
// go on says so. Servers are processes here.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "tests/server_client_mode/remote_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class RemoteFaults : public LoaderTestWithin<240> {
 protected:
  /// One epoch; `each` is called after each batch with the number of batches so far.
  static std::vector<std::string> loaded_with(BatchStream& stream, std::int64_t epoch,
                                              const std::function<void(std::size_t)>& each) {
    std::vector<std::string> got;
    stream.begin_epoch(epoch);
    while (const std::optional<Batch> batch = stream.next()) {
      got.push_back(line_of(batch->view()));
      each(got.size());
    }
    return got;
  }
};

TEST_F(RemoteFaults, ServerKilledAndRestartedInAnEpoch_LosesNoBatch) {
  ServerProcess server(path(1).string());
  RemoteLoader loader(remote_options({server.address()}), options());
  for (int epoch = 0; epoch < 4; ++epoch) {
    const auto got = loaded_with(loader, epoch, [&](std::size_t batches) {
      if (batches != 3) return;
      server.kill();
      server.restart();
    });
    EXPECT_EQ(got, expected(options(), {.epoch = epoch}));
  }
  EXPECT_GE(loader.stats().worker_deaths, 4);
}

TEST_F(RemoteFaults, GivenSeedsAreSentAgain_ToAServerThatWasRestarted) {
  LoaderOptions given = options();
  given.seeds.emplace();
  for (std::int64_t i = 0; i < 300; ++i) given.seeds->push_back((i * 7) % 400);
  ServerProcess server(path(1).string());
  RemoteLoader loader(remote_options({server.address()}), given);
  const auto got = loaded_with(loader, 0, [&](std::size_t batches) {
    if (batches != 3) return;
    server.kill();
    server.restart();
  });
  EXPECT_EQ(got, expected(given));
}

TEST_F(RemoteFaults, ServerNeverComesBack_IsATimeoutThatNamesIt) {
  ServerProcess server(path(1).string());
  RemoteExecution remote = remote_options({server.address()});
  remote.reconnect_deadline = 500ms;
  RemoteLoader loader(remote, options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  server.kill();
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_TRUE(error.starts_with("timeout: ")) << error;
  EXPECT_NE(error.find(server.address().to_text()), std::string::npos) << error;
}

TEST_F(RemoteFaults, OneOfTwoServersIsKilled_TheOtherGivesTheRest) {
  ServerProcess one(path(1).string()), two(path(2).string());  // another cut of the same graph
  RemoteLoader loader(remote_options({one.address(), two.address()}), options());
  const auto got = loaded_with(loader, 0, [&](std::size_t batches) {
    if (batches == 4) one.kill();
  });
  EXPECT_EQ(got, expected(options()));
  one.restart();
}

TEST_F(RemoteFaults, ServersAreKilledAndRestartedInTurn_WithThreeServersAndFourRanks) {
  std::vector<std::unique_ptr<ServerProcess>> servers;
  std::vector<wire::Address> addresses;
  for (int i = 1; i <= 3; ++i) {
    servers.push_back(std::make_unique<ServerProcess>(path(i).string()));
    addresses.push_back(servers.back()->address());
  }
  std::atomic<int> done{0};
  std::vector<std::thread> ranks;
  std::array<bool, 4> same{};
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      LoaderOptions mine = options();
      mine.deal.rank = rank;
      mine.deal.world_size = 4;
      RemoteLoader loader(remote_options(addresses), mine);
      same[static_cast<std::size_t>(rank)] = true;
      for (int epoch = 0; epoch < 6; ++epoch) {
        const auto got = loaded_with(loader, epoch, [](std::size_t) { std::this_thread::sleep_for(20ms); });
        same[static_cast<std::size_t>(rank)] &= got == expected(mine, {.epoch = epoch});
      }
      ++done;
    });
  }
  for (std::size_t i = 0; done < 4; ++i) {
    std::this_thread::sleep_for(100ms);
    servers[i % 3]->kill();
    servers[i % 3]->restart();
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(same, (std::array<bool, 4>{true, true, true, true}));
}

TEST_F(RemoteFaults, DrainedServer_DeliversAndEnds_AndNothingIsMadeAgain) {
  ServerProcess leaving(path(1).string()), staying(path(1).string());
  RemoteLoader loader(remote_options({leaving.address(), staying.address()}), options());
  const auto got = loaded_with(loader, 0, [&](std::size_t batches) {
    if (batches == 3) leaving.signal(SIGTERM);
  });
  EXPECT_EQ(got, expected(options()));
  EXPECT_EQ(leaving.wait(60s), 0);
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(options(), {.epoch = 1}));
}

TEST_F(RemoteFaults, RollingRestartOfAllServers_LosesNoBatch) {
  ServerProcess one(path(1).string()), two(path(1).string());
  RemoteLoader loader(remote_options({one.address(), two.address()}), options());
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto got = loaded_with(loader, epoch, [&](std::size_t batches) {
      ServerProcess* server = batches == 3 ? &one : batches == 9 ? &two : nullptr;
      if (server == nullptr) return;
      server->signal(SIGTERM);
      EXPECT_EQ(server->wait(60s), 0);
      server->restart();
    });
    EXPECT_EQ(got, expected(options(), {.epoch = epoch}));
  }
}

TEST_F(RemoteFaults, ServerComesBackWithAnotherDataset_IsRefusedByName) {
  testing::write_tiny_dataset(folder() / "other",
                              testing::random_graph({.num_nodes = 50, .num_edges = 400, .num_train = 40}));
  ServerProcess server(path(1).string());
  RemoteExecution remote = remote_options({server.address()});
  remote.reconnect_deadline = testing::kTimesSlower * 10'000ms;  // within which it has started
  RemoteLoader loader(remote, options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  server.kill();
  server.restart((folder() / "other").string());
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_TRUE(error.starts_with("timeout: ")) << error;
  EXPECT_NE(error.find(loader.meta().fingerprint), std::string::npos) << error;
}

/// A dataset of the same name as that of path(1), with other content.
class RemoteUpdate : public RemoteFaults {
 protected:
  RemoteUpdate() {
    const testing::TinyGraph graph = testing::random_graph(
        {.num_nodes = 400, .num_edges = 4'000, .x_width = 17, .num_train = 230, .seed = 77});
    testing::write_tiny_dataset(updated(), graph);
  }
  static std::filesystem::path updated() { return folder() / "updated" / path(1).filename(); }
  static std::string fingerprint(const std::filesystem::path& dataset) {
    return Dataset(dataset).meta().fingerprint;
  }
};

TEST_F(RemoteUpdate, ServersWithDifferentDatasetsUnderOneName_AreRefusedByBothFingerprints) {
  ASSERT_EQ(Dataset(updated()).meta().name, Dataset(path(1)).meta().name);
  ServerProcess older(path(1).string()), newer(updated().string());
  RemoteExecution remote = remote_options({older.address(), newer.address()});
  for (const std::string& name : {std::string(), Dataset(path(1)).meta().name}) {
    remote.dataset = name;
    const std::string error = error_of([&] { RemoteLoader(remote, options()); });
    EXPECT_TRUE(error.starts_with("invalid: ")) << error;
    for (const std::string& part :
         {older.address().to_text(), newer.address().to_text(), fingerprint(path(1)), fingerprint(updated())})
      EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

TEST_F(RemoteUpdate, ServersWithDatasetsOfOtherNames_AreRefusedWhereNoneIsNamed) {
  const std::filesystem::path other = folder() / "other";
  const testing::ProgramResult made =
      testing::run_program({testing::program("hopfeed-partition"), "generate", other, "--nodes", "400",
                            "--edges", "4000", "--features", "17", "--classes", "3", "--seed", "1"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ServerProcess one(path(1).string()), two(other.string());
  RemoteExecution remote = remote_options({one.address(), two.address()});
  for (int rank = -1; rank < 2; ++rank) {  // alone, and as one of two with a server of its own
    LoaderOptions of_rank = options();
    if (rank >= 0) of_rank.deal.rank = rank, of_rank.deal.world_size = 2;
    const std::string error = error_of([&] { RemoteLoader(remote, of_rank); });
    EXPECT_TRUE(error.starts_with("invalid: ")) << error;
    for (const std::string& part : {one.address().to_text(), two.address().to_text(), fingerprint(path(1)),
                                    fingerprint(other), std::string("'generated'")})
      EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  remote.dataset = Dataset(path(1)).meta().name;
  RemoteLoader loader(remote, options());
  EXPECT_EQ(loaded_with(loader, 0, [](std::size_t) {}), expected(options()));
}

TEST_F(RemoteUpdate, DatasetThatIsPinnedByItsFingerprint_IsTakenFromWhoHasIt) {
  ServerProcess older(path(1).string()), newer(updated().string());
  for (const bool older_first : {true, false}) {
    RemoteExecution remote = older_first ? remote_options({older.address(), newer.address()})
                                         : remote_options({newer.address(), older.address()});
    remote.dataset = fingerprint(path(1));
    std::mutex mutex;
    std::vector<std::string> told;
    remote.note = [&](const std::string& line) {
      const std::lock_guard lock(mutex);
      told.push_back(line);
    };
    RemoteLoader loader(remote, options());
    EXPECT_EQ(loaded_with(loader, 0, [](std::size_t) {}), expected(options()));
    const std::lock_guard lock(mutex);
    ASSERT_FALSE(told.empty());
    EXPECT_NE(told.front().find(newer.address().to_text()), std::string::npos) << told.front();
    EXPECT_NE(told.front().find(fingerprint(updated())), std::string::npos) << told.front();
  }
}

TEST_F(RemoteUpdate, ServerThatComesBackWithAnotherDataset_IsToldOnceAndLeftAlone) {
  ServerProcess stays(path(1).string()), updates(path(1).string());
  RemoteExecution remote = remote_options({stays.address(), updates.address()});
  std::atomic<int> told{0};
  std::promise<std::string> first;
  remote.note = [&](const std::string& line) {
    if (told++ == 0) first.set_value(line);
  };
  RemoteLoader loader(remote, options());
  updates.kill();
  updates.restart(updated().string());
  for (int epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(loaded_with(loader, epoch, [](std::size_t) {}), expected(options(), {.epoch = epoch}));
  const std::string line = first.get_future().get();
  EXPECT_NE(line.find(updates.address().to_text()), std::string::npos) << line;
  EXPECT_NE(line.find(fingerprint(updated())), std::string::npos) << line;
  EXPECT_EQ(told, 1);
}

TEST_F(RemoteUpdate, StreamOfAnotherDatasetThanTheModelWasMadeFor_IsRefused) {
  ServerProcess server(path(1).string());
  const RemoteStreams streams(remote_options({server.address()}));
  server.kill();
  server.restart(updated().string());
  const std::string error = error_of([&] { streams.open(options()); });
  EXPECT_NE(error.find(fingerprint(path(1))), std::string::npos) << error;
  EXPECT_NE(error.find(fingerprint(updated())), std::string::npos) << error;
}

TEST_F(RemoteFaults, UnknownDatasetAndUnknownSplit_AreSaidAtOnce) {
  ServerProcess server(path(1).string());
  RemoteExecution remote = remote_options({server.address()});
  remote.dataset = "nowhere";
  EXPECT_NE(error_of([&] { RemoteLoader(remote, options()); }).find("nowhere"), std::string::npos);
  remote.dataset.clear();
  LoaderOptions other = options();
  other.split = "nothing";
  const std::string error = error_of([&] { RemoteLoader(remote, other); });
  EXPECT_TRUE(error.starts_with("not found: ")) << error;
  EXPECT_NE(error.find("train, valid"), std::string::npos) << error;
  other = options();
  other.seeds = {{5, 400}};
  EXPECT_NE(error_of([&] { RemoteLoader(remote, other); }).find("seed 400 (position 1) is no node"),
            std::string::npos);
  other = options();
  other.batch.sampler = "spaced";
  EXPECT_NE(error_of([&] { RemoteLoader(remote, other); }).find("no sampler 'spaced'"), std::string::npos);
}

TEST_F(RemoteFaults, WrongToken_IsRefusedAtOnce) {
  ServerProcess server(path(1).string());
  RemoteExecution remote = remote_options({server.address()});
  remote.token = "not-the-token-of-the-server";
  const std::string error = error_of([&] { RemoteLoader(remote, options()); });
  EXPECT_NE(error.find("token"), std::string::npos) << error;
  EXPECT_EQ(error.find(remote.token), std::string::npos) << error;
}

TEST_F(RemoteFaults, StoppedServer_IsLeftForAnotherAfterTheBatchDeadline) {
  ServerProcess stopped(path(1).string()), other(path(1).string());
  RemoteExecution remote = remote_options({stopped.address(), other.address()});
  remote.batch_deadline = 3'000ms;  // longer than the other one ever needs
  RemoteLoader loader(remote, options());
  const auto got = loaded_with(loader, 0, [&](std::size_t batches) {
    if (batches == 3) stopped.signal(SIGSTOP);
  });
  EXPECT_EQ(got, expected(options()));
  stopped.signal(SIGCONT);
}

TEST_F(RemoteFaults, StreamUsedInAFork_RefusesAndLeavesTheParentsAlone) {
  ServerProcess server(path(1).string());
  auto loader = std::make_unique<RemoteLoader>(remote_options({server.address()}), options());
  loader->begin_epoch(0);
  ASSERT_TRUE(loader->next());
  const pid_t child = fork();
  if (child == 0) {
    const std::string error = error_of([&] { loader->next(); });
    loader.reset();
    _exit(error.find("forked") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(loaded(*loader, {.epoch = 1}), expected(options(), {.epoch = 1}));
}

TEST_F(RemoteFaults, StreamEndsQuicklyWhileItsServerIsStopped) {
  ServerProcess server(path(1).string());
  {
    RemoteLoader loader(remote_options({server.address()}), options());
    loader.begin_epoch(0);
    ASSERT_TRUE(loader.next());
    server.signal(SIGSTOP);
  }  // the watchdog's business
  server.signal(SIGCONT);
}

}  // namespace
}  // namespace hopfeed
