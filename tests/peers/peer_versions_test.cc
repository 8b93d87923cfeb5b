// A server of a partition that draws by other rules: another version of hopfeed. Its rows would be other
// ones, so it is asked for none: an error where it is the only one, and as if it were away where it is not.
#include <chrono>
#include <optional>
#include <thread>

#include "tests/peers/peer_test.h"
#include "tests/support/sharded_ids.h"
#include "tests/wire/client_scripted_server.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

class PeerVersions : public PeerTest {
 protected:
  /// Logs in, and answers no question.
  static ScriptedServer::Options newer(std::uint16_t port = 0) {
    ScriptedServer::Options options;
    options.dataset = path(2).string();
    options.token = kTestToken;
    options.offer.rules = BatchSpec::kRules + 1;
    options.port = port;
    return options;
  }
  static std::string complaint(const wire::Address& address) {
    return "server " + address.to_text() + " draws by rules " + std::to_string(BatchSpec::kRules + 1) +
           ", and this hopfeed by rules " + std::to_string(BatchSpec::kRules) +
           "; use one version everywhere";
  }
  static void wait_until_found(const ScriptedServer& server) {
    while (server.connections() == 0) std::this_thread::sleep_for(10ms);
  }
  static LoaderOptions calling_thread(const PeerOptions& machine) {
    LoaderOptions o = options_of(machine);
    o.execution.num_workers = 0;
    return o;
  }
};

TEST_F(PeerVersions, ServerOfOtherRules_IsOneLineThatNamesItAndBoth) {
  ScriptedServer other(newer());
  const LoaderOptions o = options_of(machine(0, {other.address().to_text()}));
  EXPECT_EQ(error_of([&] { Loader loader(o); }), "version: " + complaint(other.address()));
}

TEST_F(PeerVersions, ServerOfBeforeShardedIds_IsOneLineWhereThoseAreWanted) {
  const testing::TempFolder temp;
  const std::filesystem::path sharded = temp.path() / "sharded";
  std::filesystem::copy(path(2), sharded, std::filesystem::copy_options::recursive);
  testing::shard_ids(sharded);
  ScriptedServer old({.dataset = sharded.string(), .token = kTestToken, .newest_version = 4});
  LoaderOptions o = options_of(machine(0, {old.address().to_text()}));
  o.dataset = sharded.string();
  expect_part(error_of([&] { Loader loader(o); }),
              old.address().to_text() + " speaks protocol 4, and a cut with sharded ids wants 5");
}

TEST_F(PeerVersions, OneOfTwoServersHasOtherRules_TheOtherIsAskedAlone) {
  ScriptedServer other(newer());
  ServerProcess same(path(2).string(), with_partition(1));
  PeerOptions both = machine(0, {other.address().to_text(), same.address().to_text()});
  both.replicas = 2;
  both.deadline = 24h;  // who waits for it is found by the watchdog
  for (const std::int64_t workers : {0, 2}) {
    LoaderOptions o = options_of(both);
    o.execution.num_workers = workers;
    Loader loader(o);
    for (int epoch = 0; epoch < 2; ++epoch)
      EXPECT_EQ(epoch_of(loader, epoch), expected(options(), {.epoch = epoch})) << workers << " workers";
  }
}

TEST_F(PeerVersions, ServerIsReplacedByOneOfOtherRules_AReplicaTakesOver) {
  ServerProcess first(path(2).string(), with_partition(1)), second(path(2).string(), with_partition(1));
  PeerOptions both = machine(0, {first.address().to_text(), second.address().to_text()});
  both.replicas = 2;
  both.deadline = 24h;
  Loader loader(options_of(both));
  std::optional<ScriptedServer> replaced;
  EXPECT_EQ(epoch_of(loader, 0,
                     [&](std::size_t batches) {
                       if (batches != 3) return;
                       first.kill();
                       replaced.emplace(newer(first.address().port));
                     }),
            expected(options()));
  wait_until_found(*replaced);
  EXPECT_EQ(epoch_of(loader, 1), expected(options(), {.epoch = 1}));
  replaced.reset();
  first.restart();  // the right version is back, and takes over in turn
  EXPECT_EQ(epoch_of(loader, 2,
                     [&](std::size_t batches) {
                       if (batches == 3) second.kill();
                     }),
            expected(options(), {.epoch = 2}));
}

TEST_F(PeerVersions, OnlyServerIsReplacedByOneOfOtherRules_TheDeadlineSaysSo) {
  ServerProcess only(path(2).string(), with_partition(1));
  PeerOptions machine = PeerTest::machine(0, {only.address().to_text()});
  machine.deadline = 4'000ms;
  Loader loader(calling_thread(machine));
  EXPECT_EQ(epoch_of(loader, 0), expected(options()));
  only.kill();
  std::optional<ScriptedServer> replaced(std::in_place, newer(only.address().port));
  wait_until_found(*replaced);
  const std::string error = error_of([&] { epoch_of(loader, 1); });
  EXPECT_TRUE(error.starts_with("peer died: ")) << error;
  expect_part(error, "partition 1 gave no answer within 4000 ms");
  expect_part(error, complaint(only.address()));
  replaced.reset();
  only.restart();
  EXPECT_EQ(epoch_once_found(loader, 2), expected(options(), {.epoch = 2}));
  EXPECT_EQ(epoch_of(loader, 3), expected(options(), {.epoch = 3}));
}

}  // namespace
}  // namespace hopfeed
