// A client that holds hot rows: the same batches for every ratio, fewer bytes on the wire, and servers of
// another cut or of another life are no danger to it.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/batch/packed_block.h"
#include "server_client_mode/client/machine_rows.h"
#include "tests/server_client_mode/remote_fixture.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

class RemoteCache : public LoaderTestWithin<120> {
 protected:
  static RemoteExecution holding(std::vector<wire::Address> servers, double ratio) {
    RemoteExecution remote = remote_options(std::move(servers));
    remote.cache.ratio = ratio;
    return remote;
  }
  /// Rows wide enough for leaving one out to pay.
  std::string wide(int partitions) {
    const std::filesystem::path path = folder() / ("wide-" + std::to_string(partitions));
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 64, .num_train = 300});
    testing::write_tiny_dataset(path, graph, testing::random_cut(graph, partitions, 5));
    return path.string();
  }
  LoaderOptions options_of(const std::string& dataset) {
    LoaderOptions mine = options();
    mine.dataset = dataset;
    return mine;
  }
};

TEST_F(RemoteCache, BatchesAreTheSameForEveryRatio_AndTheHitRateRises) {
  const LoaderOptions mine = options_of(wide(3));
  ServedStream plain(server_options(mine.dataset), remote_options({}), mine);
  const auto expected = loaded(plain, {.epoch = 2});
  EXPECT_EQ(plain.stats().held_rows, 0);
  double before = -1;
  for (const double ratio : {0.01, 0.1, 0.5, 1.0}) {
    ServedStream stream(server_options(mine.dataset), holding({}, ratio), mine);
    EXPECT_EQ(loaded(stream, {.epoch = 2}), expected) << ratio;
    const StreamStats stats = stream.stats();
    ASSERT_GT(stats.feature_rows, 0);
    const double rate = static_cast<double>(stats.held_rows) / static_cast<double>(stats.feature_rows);
    EXPECT_GE(rate, before) << ratio;
    before = rate;
    if (ratio == 1.0) {
      EXPECT_EQ(stats.held_rows, stats.feature_rows);
    }
    EXPECT_GT(stats.held_bytes, 0U);
  }
}

TEST_F(RemoteCache, RowsThatAreHeldDoNotTravel) {
  const LoaderOptions mine = options_of(wide(1));
  const auto bytes_out = [&](double ratio) {
    ServedStream stream(server_options(mine.dataset), holding({}, ratio), mine);
    stream.begin_epoch(0, 0);
    std::int64_t rows = 0;
    while (const std::optional<Batch> batch = stream.next()) rows += batch->view().num_nodes();
    const nlohmann::json status =
        nlohmann::json::parse(ask_status(remote_options({stream.server().address()})));
    std::uint64_t bytes = 0;
    for (const nlohmann::json& client : status["clients"]) bytes += client["bytes_out"].get<std::uint64_t>();
    const StreamStats stats = stream.stats();
    // What is held came once: all of it.
    return std::tuple(bytes - stats.held_bytes, rows, stats.held_rows);
  };
  const auto [whole, rows, none] = bytes_out(0);
  const auto [packed, same_rows, held] = bytes_out(0.5);
  EXPECT_EQ(rows, same_rows);
  EXPECT_EQ(none, 0);
  constexpr std::int64_t row_bytes = 64 * 4 + 8;  // x and y
  const auto saved = static_cast<std::int64_t>(whole) - static_cast<std::int64_t>(packed);
  // A held row costs 4 bytes and every row a bit; frames of loading and tables of blocks are counted too.
  EXPECT_GT(saved, held * (row_bytes - 4) - rows / 8 - 64'000);
  EXPECT_LT(saved, held * row_bytes);
}

TEST_F(RemoteCache, ServersWithOtherCuts_SendWholeBatches) {
  const LoaderOptions mine = options_of(wide(1));
  ServerProcess one(mine.dataset), other(wide(4));
  RemoteLoader loader(holding({one.address(), other.address()}, 0.5), mine);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const auto want = expected(mine, {.epoch = epoch});
    std::vector<std::string> got;
    loader.begin_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      got.push_back(line_of(batch->view()));
      if (epoch == 1 && got.size() == 3) one.kill();  // now all comes from the other cut
    }
    EXPECT_EQ(got, want) << epoch;
  }
}

TEST_F(RemoteCache, ServerRestartedWithAnotherCut_IsNoDanger) {
  const LoaderOptions mine = options_of(wide(1));
  ServerProcess server(mine.dataset);
  RemoteLoader loader(holding({server.address()}, 0.5), mine);
  EXPECT_EQ(loaded(loader, {.epoch = 0}), expected(mine, {.epoch = 0}));
  server.kill();
  server.restart(wide(2));
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(mine, {.epoch = 1}));
}

TEST_F(RemoteCache, NaNInRowsThatAreHeld_IsAnErrorInItsTurn) {
  testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 64, .num_train = 300});
  graph.x[7 * 64] = std::numeric_limits<float>::quiet_NaN();
  testing::write_tiny_dataset(folder() / "nan", graph);
  LoaderOptions mine = options_of((folder() / "nan").string());
  mine.execution.check_finite = true;
  const auto end_of = [&](BatchStream& stream) {
    std::size_t batches = 0;
    stream.begin_epoch(0, 0);
    std::string error = error_of([&] {
      while (stream.next()) ++batches;
    });
    return std::pair(batches, error.substr(error.find("batch (epoch")));
  };
  ServedStream whole(server_options(mine.dataset), remote_options({}), mine);
  ServedStream held(server_options(mine.dataset), holding({}, 0.9), mine);
  const auto told = end_of(whole);
  EXPECT_NE(told.second.find("node 7 "), std::string::npos) << told.second;
  EXPECT_EQ(end_of(held), told);
}

TEST_F(RemoteCache, CacheBytesBoundWhatIsHeld) {
  const LoaderOptions mine = options_of(wide(1));
  RemoteExecution remote = remote_options({});
  remote.cache.bytes = 20'000;
  ServedStream stream(server_options(mine.dataset), remote, mine);
  EXPECT_EQ(loaded(stream, {.epoch = 0}), expected(mine, {.epoch = 0}));
  EXPECT_LE(stream.stats().held_bytes, 20'000U);
  EXPECT_GT(stream.stats().held_bytes, 19'000U);
}

TEST_F(RemoteCache, AutoHoldsWhatFits_AndNothingWhereThatIsTooLittleToPay) {
  const LoaderOptions mine = options_of(wide(1));  // 400 rows of 264 bytes
  RemoteExecution remote = remote_options({});
  remote.cache.automatic = true;
  for (const std::size_t bytes : {std::size_t{5'000}, std::size_t{6'000}, std::size_t{0}}) {
    remote.cache.bytes = bytes;
    ServedStream stream(server_options(mine.dataset), remote, mine);
    EXPECT_EQ(loaded(stream, {.epoch = 1}), expected(mine, {.epoch = 1})) << bytes;
    EXPECT_EQ(stream.stats().held_bytes, bytes == 5'000 ? 0U : bytes == 6'000 ? 22U * 264 : 400U * 264);
  }
}

TEST_F(RemoteCache, StreamsOfOneProcess_HaveOneCopy) {
  const LoaderOptions mine = options_of(wide(1));
  ServerProcess server(mine.dataset);
  const RemoteExecution remote = holding({server.address()}, 0.7);
  const auto bytes_out = [&] {  // to those who are connected
    const nlohmann::json status = nlohmann::json::parse(ask_status(remote_options({server.address()})));
    std::uint64_t bytes = 0;
    for (const nlohmann::json& client : status["clients"]) bytes += client["bytes_out"].get<std::uint64_t>();
    return bytes;
  };
  auto one = std::make_unique<RemoteLoader>(remote, mine);
  const std::size_t held = one->stats().held_bytes;
  ASSERT_GT(held, 60'000U);
  const std::uint64_t once = bytes_out();
  EXPECT_GT(once, held);
  RemoteLoader two(remote, mine);
  EXPECT_EQ(two.stats().held_bytes, held);
  EXPECT_LT(bytes_out(), once + held / 2);
  one.reset();  // the copy stays with the other
  EXPECT_EQ(loaded(two, {.epoch = 1}), expected(mine, {.epoch = 1}));
}

// Two ranks of one machine, the other one a process that has loaded the rows and is killed later.
TEST_F(RemoteCache, RanksOfOneMachine_HaveOneCopy) {
  if (testing::kThreadSanitized)
    GTEST_SKIP() << "ThreadSanitizer starts no threads in a fork of a process with threads";
  const LoaderOptions mine = options_of(wide(1));
  ServerProcess server(mine.dataset);
  const RemoteExecution remote = holding({server.address()}, 0.7);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  const pid_t other = fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    setenv("LOCAL_RANK", "1", 1);
    const RemoteLoader loader(remote, mine);
    [[maybe_unused]] const ssize_t told = write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  close(ready[1]);  // where the other one dies, the read below ends
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  setenv("LOCAL_RANK", "0", 1);
  RemoteLoader loader(remote, mine);
  const std::size_t held = loader.stats().held_bytes;
  EXPECT_GT(held, 60'000U);
  const nlohmann::json status = nlohmann::json::parse(ask_status(remote_options({server.address()})));
  std::vector<std::uint64_t> sent;
  for (const nlohmann::json& client : status["clients"])
    sent.push_back(client["bytes_out"].get<std::uint64_t>());
  std::ranges::sort(sent, std::greater<>());
  ASSERT_GE(sent.size(), 2U);
  EXPECT_GT(sent[0], held);
  EXPECT_LT(sent[1], held / 2);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(mine, {.epoch = 1}));
  unsetenv("LOCAL_WORLD_SIZE");
  unsetenv("LOCAL_RANK");
  close(ready[0]);
}

// F8
TEST_F(RemoteCache, RowsThatRanksShare_AreSealed) {
  const Dataset dataset(wide(1));
  const BatchOptions batch;
  const MachineRows shared = machine_rows({.order = "of a test " + std::to_string(getpid()),
                                           .meta = dataset.meta(),
                                           .batch = batch,
                                           .share = {.millionths = 500'000},
                                           .load =
                                               [&](HeldRows& rows) {
                                                 rows.load(dataset);
                                                 return true;
                                               },
                                           .meanwhile = [] {}});
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone).string().find("hopfeed-held-rows") == std::string::npos)
      continue;
    ++found;
    const int fd = std::stoi(entry.path().filename());
    EXPECT_NE(ftruncate(fd, 0), 0);
    EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(RemoteCache, BadCaches_AreOneLine) {
  const LoaderOptions mine = options_of(wide(1));
  RemoteExecution remote = holding({}, 1.5);
  EXPECT_NE(error_of([&] {
              ServedStream(server_options(mine.dataset), remote, mine);
            }).find("cache has the ratio 1.5"),
            std::string::npos);
  remote.cache.ratio = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(
      error_of([&] { ServedStream(server_options(mine.dataset), remote, mine); }).find("cache has the ratio"),
      std::string::npos);
  remote.cache.ratio = 0.5;
  remote.cache.bytes = 100;  // a row has 264
  EXPECT_NE(
      error_of([&] { ServedStream(server_options(mine.dataset), remote, mine); }).find("cache is 100 bytes"),
      std::string::npos);
}

}  // namespace
}  // namespace hopfeed
