// The network between a client and its servers is bad: slow, cut, frozen, byte by byte; frames come twice or
// in another order; bits turn over. The bytes that the trainer gets are the oracle's, or next() says what is
// wrong.
#include <ctime>
#include <thread>

#include "tests/server_client_mode/served_stream.h"
#include "tests/wire/proxy.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::PassingOn;
using testing::Proxy;

class RemoteNetwork : public LoaderTestWithin<240> {
 protected:
  void SetUp() override {
    LoaderTestWithin<240>::SetUp();
    server_ = std::make_unique<Server>(server_options(path(1).string()));
  }
  void TearDown() override {
    server_.reset();
    LoaderTestWithin<240>::TearDown();
  }
  Server& server() { return *server_; }
  /// Epochs through the proxy are the oracle's.
  static void expect_same_bytes(Proxy& proxy, int epochs, const std::function<void(std::size_t)>& each = {}) {
    RemoteLoader loader(remote_options({proxy.address()}), options());
    for (int epoch = 0; epoch < epochs; ++epoch) {
      std::vector<std::string> got;
      loader.begin_epoch(epoch);
      while (const std::optional<Batch> batch = loader.next()) {
        got.push_back(line_of(batch->view()));
        if (each) each(got.size());
      }
      EXPECT_EQ(got, expected(options(), {.epoch = epoch})) << "epoch " << epoch;
    }
  }

 private:
  std::unique_ptr<Server> server_;
};

TEST_F(RemoteNetwork, SingleBytes_GiveTheSameBatches) {
  Proxy proxy(server().address(), {.to_server = {.most_at_once = 1}, .to_client = {.most_at_once = 61}});
  expect_same_bytes(proxy, 2);
}

TEST_F(RemoteNetwork, ConnectionsCutAgainAndAgain_LoseNoBatch) {
  Proxy proxy(server().address());
  expect_same_bytes(proxy, 4, [&](std::size_t batches) {
    if (batches % 5 == 0) proxy.cut();
  });
  EXPECT_GE(proxy.connections(), 8);
}

TEST_F(RemoteNetwork, ConnectionsThatEndAfterSoManyBytes_LoseNoBatch) {
  for (const std::uint64_t bytes : {30'000, 50'001, 70'007}) {
    Proxy proxy(server().address(), {.to_client = {.cut_after = bytes}});
    expect_same_bytes(proxy, 2);
    EXPECT_GT(proxy.connections(), 2);
  }
}

/// Two servers of one dataset, the first behind a proxy that cuts its connections while held rows are loaded.
class RemoteHolding : public RemoteNetwork {
 protected:
  static LoaderOptions wide(const char* name, int partitions) {
    const std::filesystem::path path = folder() / name;
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 2'000, .num_edges = 9'000, .x_width = 512, .num_train = 300});
    testing::write_tiny_dataset(path, graph, testing::random_cut(graph, partitions, 5));
    LoaderOptions mine = options();
    mine.dataset = path.string();
    return mine;
  }
  static RemoteExecution holding_all(std::vector<wire::Address> servers) {
    RemoteExecution remote = remote_options(std::move(servers));
    remote.cache.ratio = 1;
    return remote;
  }
  /// Behind the first half of the rows of x, which come in two answers.
  static PassingOn cut_in_the_rows() { return {.cut_after = 3'000'000}; }
};

TEST_F(RemoteHolding, ServerLostWhileRowsAreLoaded_IsReplacedByAnother) {
  const LoaderOptions mine = wide("one", 2);
  Server first(server_options(mine.dataset)), second(server_options(mine.dataset));
  Proxy proxy(first.address(), {.to_client = cut_in_the_rows()});
  RemoteLoader loader(holding_all({proxy.address(), second.address()}), mine);
  EXPECT_GT(proxy.bytes_to_client(), 2'500'000U) << "it was lost on the way";
  loader.begin_epoch(0);
  std::vector<std::string> got;
  while (const std::optional<Batch> batch = loader.next()) got.push_back(line_of(batch->view()));
  EXPECT_EQ(got, expected(mine, {.epoch = 0}));
  const StreamStats stats = loader.stats();
  EXPECT_GT(stats.feature_rows, 0);
  EXPECT_EQ(stats.held_rows, stats.feature_rows);
}

TEST_F(RemoteHolding, ServerLostWhileRowsAreLoaded_WithoutAnotherOfItsOrder_IsTheError) {
  const LoaderOptions mine = wide("one", 2);
  Server first(server_options(mine.dataset)), other(server_options(wide("two", 3).dataset));
  Proxy proxy(first.address(), {.to_client = cut_in_the_rows()});
  for (const std::vector<wire::Address>& servers :
       {std::vector{proxy.address()}, std::vector{proxy.address(), other.address()}}) {
    try {
      const RemoteLoader loader(holding_all(servers), mine);
      ADD_FAILURE() << servers.size();
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(proxy.address().to_text()), std::string::npos) << error.what();
    }
  }
}

TEST_F(RemoteNetwork, FramesThatComeTwiceOrInAnotherOrder_GiveEachBatchOnce) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    Proxy proxy(server().address(), {.seed = seed, .to_client = {.replay = 0.3, .reorder = 0.3}});
    expect_same_bytes(proxy, 4);
    EXPECT_GT(proxy.replayed() + proxy.reordered(), 0);
  }
}

TEST_F(RemoteNetwork, BitsThatTurnOver_AreNoticedAndTheBatchComesAgain) {
  for (const std::uint64_t byte : {20'000, 33'333}) {
    Proxy proxy(server().address(), {.to_client = {.flip_at = byte}});
    expect_same_bytes(proxy, 2);
    EXPECT_GT(proxy.connections(), 1) << "the connection with the wrong byte was given up";
  }
}

TEST_F(RemoteHolding, BitOfARowThatTurnsOver_IsNoticedAndTheRowsComeAgain) {
  const LoaderOptions mine = wide("one", 2);
  Server first(server_options(mine.dataset)), second(server_options(mine.dataset));
  // In the one answer and in the other; the next connection is whole.
  for (const std::uint64_t byte : {1'000'000, 3'333'333}) {
    for (const bool alone : {true, false}) {
      Proxy proxy(first.address(), {.to_client = {.flip_at = byte, .later = 1'000'000'000}});
      RemoteLoader loader(
          alone ? holding_all({proxy.address()}) : holding_all({proxy.address(), second.address()}), mine);
      loader.begin_epoch(0);
      std::vector<std::string> got;
      while (const std::optional<Batch> batch = loader.next()) got.push_back(line_of(batch->view()));
      EXPECT_EQ(got, expected(mine, {.epoch = 0}));
      EXPECT_GT(proxy.connections(), alone ? 1 : 0) << "the connection with the wrong byte was given up";
    }
  }
}

TEST_F(RemoteNetwork, SlowNetwork_IsOnlySlow) {
  Proxy proxy(server().address(), {.to_server = {.delay = 5ms, .jitter = 5ms}, .to_client = {.delay = 5ms}});
  expect_same_bytes(proxy, 1, [&](std::size_t batches) {
    if (batches == 5) proxy.stall(300ms);
  });
  EXPECT_EQ(proxy.connections(), 1);
}

TEST_F(RemoteNetwork, HalfABlockAndThenSilence_IsAskedForElsewhereAfterTheBatchDeadline) {
  Proxy bad(server().address(), {.to_client = {.swallow_after = 25'000}}), good(server().address());
  RemoteExecution remote = remote_options({bad.address(), good.address()});
  remote.batch_deadline = 3'000ms;  // longer than the good one ever needs
  RemoteLoader loader(remote, options());
  // Which of the two gives how many batches of an epoch is the machine's affair; the watchdog bounds it.
  for (std::int64_t epoch = 0; loader.stats().worker_deaths == 0; ++epoch)
    ASSERT_EQ(loaded(loader, {.epoch = epoch}), expected(options(), {.epoch = epoch}));
}

/// Nobody says that the other end is gone: only that nothing comes from there.
TEST_F(RemoteNetwork, HalfOpenConnection_IsNoticedByItsSilence_AlsoWhileNothingIsAsked) {
  Proxy proxy(server().address());
  RemoteLoader loader(remote_options({proxy.address()}), options());
  EXPECT_EQ(loaded(loader), expected(options()));
  proxy.freeze_to_client();
  const std::clock_t before = std::clock();
  while (loader.stats().worker_deaths == 0) std::this_thread::sleep_for(20ms);  // the watchdog bounds it
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 2.0)
      << "ten seconds of waiting are slept, not spun";
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(options(), {.epoch = 1}));
}

TEST_F(RemoteNetwork, OwnServerComesBack_IsGoneBackTo) {
  Server other(server_options(path(2).string()));
  Proxy home(server().address());
  LoaderOptions mine = options();
  mine.deal.world_size = 2;  // of two servers the first is rank 0's own
  RemoteLoader loader(remote_options({home.address(), other.address()}), mine);
  EXPECT_EQ(loaded(loader), expected(mine));
  home.refuse(true);
  home.cut();
  while (loader.stats().worker_deaths == 0) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(mine, {.epoch = 1})) << "from the other one";
  home.refuse(false);
  const std::uint64_t before = home.bytes_to_client();
  for (std::int64_t epoch = 2; home.bytes_to_client() < before + 100'000;
       ++epoch) {  // the watchdog bounds it
    ASSERT_EQ(loaded(loader, {.epoch = epoch}), expected(mine, {.epoch = epoch}));
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace
}  // namespace hopfeed
