// State at servers, over sockets: connections that are cut, frames that come twice, ranks that wait for each
// other on one connection, and owners that are the wrong ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "peers/state_owners.h"
#include "server_client_mode/client/remote_loader.h"
#include "state/client/dist_rows.h"
#include "state/client/dist_tensor.h"
#include "tests/peers/machines_fixture.h"
#include "tests/state/learning_ranks.h"
#include "tests/state/owners_fixture.h"
#include "tests/support/watchdog.h"
#include "tests/wire/proxy.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::all_nodes;
using testing::CutGraph;
using testing::expect_in;
using testing::kLearnedWidth;
using testing::kLearningNodes;
using testing::learn;
using testing::learned_in_one_place;
using testing::Proxy;
using testing::refusal;
using testing::rows_spec;

class StateServers : public testing::WatchedTest<120> {
 protected:
  static void SetUpTestSuite() {
    graph_ = new CutGraph(kLearningNodes);
    state_folder_ = new testing::TempFolder;
  }
  static void TearDownTestSuite() {
    delete state_folder_;
    delete graph_;
  }
  static inline CutGraph* graph_ = nullptr;
  static inline testing::TempFolder* state_folder_ = nullptr;  // of all servers

  StateServers() {
    for (const std::vector<int>& partitions : {std::vector{0, 2}, std::vector{1}})
      servers_.push_back(std::make_unique<Server>(options(partitions)));
  }
  static ServerOptions options(std::vector<int> partitions, bool keeps_state = true) {
    ServerOptions options = server_options(graph_->whole().folder().string(), 1);
    options.partitions.own = std::move(partitions);
    if (keeps_state) options.state = state_folder_->path();
    return options;
  }
  static std::shared_ptr<StateOwners> owners_at(std::vector<std::string> addresses) {
    PeerOptions options;
    options.peers = std::move(addresses);
    options.token = kTestToken;
    return std::make_shared<StateOwners>(graph_->whole().meta(), options);
  }
  std::shared_ptr<StateOwners> owners() const {
    return owners_at({servers_[0]->address().to_text(), servers_[1]->address().to_text()});
  }
  static const DatasetMeta& meta() { return graph_->whole().meta(); }
  static TableSpec counts() {
    return {.name = "counts", .node_type = "node", .dtype = ElementType::kInt64, .width = 2};
  }

  std::vector<std::unique_ptr<Server>> servers_;
};

/// Cut is what cuts all connections again and again.
class Cut {
 public:
  explicit Cut(std::vector<Proxy*> proxies)
      : thread_([this, proxies = std::move(proxies)] {
          // Each time as late again as it takes to connect anew, at least.
          for (auto pause = 15ms; !ends_; pause = std::min(2 * pause, 500ms)) {
            std::this_thread::sleep_for(pause);
            for (Proxy* proxy : proxies) proxy->cut();
          }
        }) {}
  ~Cut() {
    ends_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

TEST_F(StateServers, ConnectionsAreCutAgainAndAgain_RanksLearnTheBitsOfATableInOnePlace) {
  constexpr std::int64_t kRanks = 3;
  Proxy first(servers_[0]->address(), {.to_server = {.replay = 0.2}, .to_client = {.replay = 0.2}}),
      second(servers_[1]->address());
  const std::vector<float> expected = learned_in_one_place(graph_->whole(), rows_spec(), kRanks);
  std::optional<Cut> cut;
  std::vector<std::thread> ranks;
  std::barrier<> connected(kRanks + 1);
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    ranks.emplace_back([&, rank] {
      DistRows rows(owners_at({first.address().to_text(), second.address().to_text()}), meta(), rows_spec(),
                    {.run = 9, .rank = rank, .ranks = kRanks});
      connected.arrive_and_wait();
      learn(rows, rank, /*ahead=*/rank);
      std::vector<float> values(kLearningNodes * kLearnedWidth);
      rows.pull(all_nodes(), values.data());
      EXPECT_EQ(values, expected) << "rank " << rank;
    });
  connected.arrive_and_wait();
  cut.emplace(std::vector{&first, &second});
  for (std::thread& rank : ranks) rank.join();
  EXPECT_GT(first.connections() + second.connections(), 2 * kRanks);
}

TEST_F(StateServers, ConnectionsAreCutAgainAndAgain_WritesAreDoneExactlyOnce) {
  constexpr std::int64_t kTimes = 100;
  Proxy first(servers_[0]->address(), {.to_server = {.replay = 0.3}}), second(servers_[1]->address());
  {
    DistTensor tensor(owners_at({first.address().to_text(), second.address().to_text()}), meta(), counts());
    const Cut cut({&first, &second});
    const std::vector<std::int64_t> ones(2 * kLearningNodes, 1);
    for (std::int64_t i = 0; i < kTimes; ++i) tensor.add(all_nodes(), std::as_bytes(std::span(ones)));
    EXPECT_GT(first.connections() + second.connections(), 2);
  }
  DistTensor tensor(owners(), meta(), counts());
  std::vector<std::int64_t> values(2 * kLearningNodes);
  tensor.pull(all_nodes(), reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), kTimes));
}

// A server answers 64 questions of a connection about partitions at a time, and reads no more meanwhile.
TEST_F(StateServers, AHundredQuestionsThatWait_DoNotHoldUpTheStepsThatTheyWaitFor) {
  const std::shared_ptr<StateOwners> both = owners();
  const auto rank = [](std::int64_t number) { return RankOfRun{.run = 5, .rank = number, .ranks = 2}; };
  DistRows waits(both, meta(), rows_spec(), rank(0)), late(both, meta(), rows_spec(), rank(1));
  for (int step = 0; step < 60; ++step) waits.look({1, 2, 3});
  std::vector<float> values(3 * kLearnedWidth);
  std::thread other([&] {
    for (int step = 0; step < 60; ++step) {
      late.look({2, 3, 4});
      std::vector<float> mine(3 * kLearnedWidth);
      late.read(mine.data());
      late.step({late.ids(), mine.data()});
    }
  });
  for (int step = 0; step < 60; ++step) {
    waits.read(values.data());
    waits.step({waits.ids(), values.data()});
  }
  other.join();
  EXPECT_EQ(waits.next_step(), 60);
}

TEST_F(StateServers, AnOwnerThatWasStartedAgainSaysThatStateIsGone) {
  DistTensor tensor(owners(), meta(), counts());
  ServerOptions again = options({1});
  again.listen = servers_[1]->address();
  servers_[1].reset();
  servers_[1] = std::make_unique<Server>(again);
  std::vector<std::int64_t> values(2 * kLearningNodes);
  const std::string error =
      refusal([&] { tensor.pull(all_nodes(), reinterpret_cast<std::byte*>(values.data())); });
  expect_in(error, "was started again, and what it held is gone");
  expect_in(error, servers_[1]->address().to_text());
}

/// What Ctrl-C does in Python.
// It waits for no owner, and its last word gets there even so.
TEST_F(StateServers, ARankThatGivesUpIsNamedToThoseWhoWait) {
  const std::shared_ptr<StateOwners> here = owners(), there = owners();
  for (std::uint32_t attempt = 0; attempt < 5; ++attempt) {
    const RankOfRun first{.run = 21, .attempt = attempt, .rank = 0, .ranks = 2};
    RankOfRun second = first;
    second.rank = 1;
    DistRows stays(here, meta(), rows_spec(), first);
    DistRows(there, meta(), rows_spec(), second).give_up();
    stays.step({});
    std::vector<float> unused(kLearnedWidth);
    const std::vector<std::int64_t> one{1};
    expect_in(refusal([&] { stays.pull(one, unused.data()); }), "rank 1 has left before step 0");
  }
}

TEST_F(StateServers, AWaitThatIsLeft_IsGoneOnWithLater) {
  struct Left {};
  std::atomic<bool> leaves = false;
  PeerOptions options;
  options.peers = {servers_[0]->address().to_text(), servers_[1]->address().to_text()};
  options.token = kTestToken;
  const auto network = std::make_shared<StateOwners>(meta(), options, [&] {
    if (leaves.exchange(false)) throw Left();
  });
  const auto rank = [](std::int64_t number) { return RankOfRun{.run = 5, .rank = number, .ranks = 2}; };
  TableSpec spec = rows_spec();
  spec.optimizer = {.optimizer = RowOptimizer::kSgd, .lr = 1};
  DistRows waits(network, meta(), spec, rank(0)), late(owners(), meta(), spec, rank(1));
  std::vector<float> first(kLearningNodes * kLearnedWidth), second(first.size()), after(first.size());
  const std::vector<float> ones(first.size(), 1);
  waits.look(all_nodes()), waits.look(all_nodes());
  waits.read(first.data());
  waits.step({waits.ids(), ones.data()});
  leaves = true;
  EXPECT_THROW(waits.read(second.data()), Left);
  leaves = true;
  EXPECT_THROW(waits.pull(all_nodes(), after.data()), Left);
  late.step({});
  waits.read(second.data());
  waits.pull(all_nodes(), after.data());
  EXPECT_EQ(after, second);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_FLOAT_EQ(second[i], first[i] - 0.5F);
}

/// A trainer that samples over servers has no folder of the dataset.
TEST_F(StateServers, WhatTheDatasetIs_AServerOfSomePartitionsTells) {
  RemoteExecution remote;
  remote.servers = {servers_[1]->address()};
  remote.token = kTestToken;
  const DatasetMeta told = RemoteStreams(remote).meta();
  EXPECT_EQ(format_meta(told), format_meta(meta()));
  DistTensor(owners(), told, counts());
}

TEST_F(StateServers, WhoeverCannotBeTheOwnerIsNamedInOneLine) {
  expect_in(refusal([&] { owners_at({servers_[0]->address().to_text()}); }),
            "partition 1 is neither on this");
  const Server second(options({1}));
  const std::string of_0 = servers_[0]->address().to_text(), of_1 = servers_[1]->address().to_text(),
                    again = second.address().to_text();
  expect_in(refusal([&] {
              owners_at({of_0, of_1, again});
            }),
            "the state of partition 1 has 2 owners of those named (peers): " + of_1 + " and " + again +
                "; start one of them alone with --state");
  const Server replica(options({0, 1, 2}, /*keeps_state=*/false));
  const std::string without = replica.address().to_text();
  expect_in(refusal([&] {
              owners_at({of_0, without});
            }),
            "the state of partition 1 has no owner (" + without +
                ": it keeps no state of training; start it with --state DIR)");
}

TEST_F(StateServers, AReplicaWithoutStateIsNotAskedForIt) {
  const Server replica(options({0, 1, 2}, /*keeps_state=*/false));
  for (const bool first : {true, false}) {
    std::vector<std::string> addresses{servers_[0]->address().to_text(), servers_[1]->address().to_text()};
    addresses.insert(first ? addresses.begin() : addresses.end(), replica.address().to_text());
    DistTensor tensor(owners_at(addresses), meta(), counts());
    const std::vector<std::int64_t> ones(2 * kLearningNodes, 1);
    tensor.add(all_nodes(), std::as_bytes(std::span(ones)));
  }
  DistTensor tensor(owners(), meta(), counts());
  std::vector<std::int64_t> values(2 * kLearningNodes);
  tensor.pull(all_nodes(), reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), 2));
}

/// A file that nobody has written yet is as slow as a disk can be: whoever opens it waits.
TEST_F(StateServers, AServerWhoseFilesAreSlow_AnswersForOtherTables) {
  for (std::unique_ptr<Server>& server : servers_) server.reset();
  ServerOptions alone = options({0, 1, 2});
  alone.peer_threads = 1;
  servers_[0] = std::make_unique<Server>(alone);
  const auto opened = [&](const char* name) {
    TableSpec spec = counts();
    spec.name = name;
    return std::make_unique<DistTensor>(owners_at({servers_[0]->address().to_text()}), meta(), spec,
                                        RankOfRun{.run = 77});
  };
  const std::unique_ptr<DistTensor> slow = opened("slow"), other = opened("other");
  const std::vector<std::int64_t> ones(2 * kLearningNodes, 1);
  slow->add(all_nodes(), std::as_bytes(std::span(ones)));
  const std::vector<ShardSum> shards = slow->save(12);
  std::filesystem::path shard;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state_folder_->path()))
    if (entry.path().filename() == "slow.0.rows") shard = entry.path();
  const std::filesystem::path kept = shard.parent_path() / "kept";
  std::filesystem::rename(shard, kept);
  ASSERT_EQ(mkfifo(shard.c_str(), 0600), 0);
  std::string why;
  std::thread goes_back([&] { why = refusal([&] { slow->restore(12, shards); }); });
  std::this_thread::sleep_for(100ms);
  std::vector<std::int64_t> values(ones.size());
  for (int i = 1; i <= 3; ++i) {
    other->add(all_nodes(), std::as_bytes(std::span(ones)));
    other->pull(all_nodes(), reinterpret_cast<std::byte*>(values.data()));
    EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), i));
  }
  opened("third");
  close(open(shard.c_str(), O_WRONLY));
  goes_back.join();
  expect_in(why,
            "checkpoint 12 of table 'slow' cannot be restored: slow.0.rows is damaged: it is too short; "
            "go back to an older checkpoint");
  std::filesystem::rename(kept, shard);
  slow->restore(12, shards);
}

}  // namespace
}  // namespace hopfeed
