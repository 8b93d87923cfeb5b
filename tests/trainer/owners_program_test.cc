// Training programs whose learned rows lie at servers with --state: the same losses to the last bit as with
// rows that lie whole at each trainer, in each way of getting batches; also where owners are killed again and
// again, where trainers are, and where a run goes on with other trainers, owners or another cut.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include "tests/support/dataset_files.h"
#include "tests/support/sharded_ids.h"
#include "tests/support/typed_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/trainer/program_fixture.h"
#include "tests/trainer/taste_graph.h"
#include "tests/trainer/typed_training_graph.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;

/// StateServers are servers of partitions of a dataset, one each, that share a folder of checkpoints.
class StateServers {
 public:
  StateServers(std::filesystem::path data, int partitions, std::filesystem::path state)
      : data_(std::move(data)), state_(std::move(state)) {
    for (int i = 0; i < partitions; ++i) ports_.push_back(trainer_tests::free_port());
    servers_.resize(ports_.size());
    for (std::size_t i = 0; i < servers_.size(); ++i) start(i);
  }
  /// As --owners, --peers and --servers take them.
  std::string addresses() const {
    std::string all;
    for (const int port : ports_) all += (all.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
    return all;
  }
  void kill_and_start_again(std::size_t i) {
    servers_[i]->kill();
    start(i);
  }
  std::size_t size() const { return servers_.size(); }

 private:
  void start(std::size_t i) {
    std::vector<std::string> command{program("hopfeed-server"),
                                     "--data",
                                     data_.string(),
                                     "--listen",
                                     "127.0.0.1:" + std::to_string(ports_[i]),
                                     "--num-workers",
                                     "1",
                                     "--state",
                                     state_.string(),
                                     "--state-memory",
                                     "256M",
                                     "--max-memory",
                                     "256M"};
    if (ports_.size() > 1)
      command.insert(command.end(), {"--partitions", std::to_string(i), "--peers", addresses()});
    servers_[i] = std::make_unique<testing::BackgroundProgram>(command);
    if (std::string line = servers_[i]->read_line(); line.find("listening") == std::string::npos)
      ADD_FAILURE() << "a server said '" << line << "'";
  }

  const std::filesystem::path data_, state_;
  std::vector<int> ports_;
  std::vector<std::unique_ptr<testing::BackgroundProgram>> servers_;
};

/// Changes a byte in the middle.
void damage(const std::filesystem::path& path) {
  std::string bytes = testing::file_bytes(path);
  bytes[bytes.size() / 2] ^= 1;
  testing::write_bytes(path, bytes);
}

class OwnersProgram : public testing::WatchedTest<280> {
 protected:
  OwnersProgram() {
    const testing::TypedGraph graph = testing::taste_graph();
    testing::write_typed_dataset(data_, graph, testing::random_typed_cut(graph, 2, 1));
    testing::write_typed_dataset(other_cut_, graph, testing::random_typed_cut(graph, 3, 9));
  }
  std::vector<std::string> links(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> words{program("link_prediction"),
                                   "--edge-type",
                                   "listens",
                                   "--hidden",
                                   "16",
                                   "--batch-size",
                                   "100",
                                   "--fanouts",
                                   "4,3",
                                   "--lr",
                                   "0.02",
                                   "--embedding-lr",
                                   "0.02",
                                   "--no-baseline",
                                   "--out",
                                   (folder_.path() / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    if (std::ranges::find(words, "--epochs") == words.end()) words.insert(words.end(), {"--epochs", "5"});
    return words;
  }
  nlohmann::json summary(const std::string& out) const {
    return read_json(folder_.path() / out / "summary.json");
  }
  /// Trains to the end with `ranks`, and returns its losses.
  std::vector<double> losses(const std::string& out, const std::vector<std::string>& command,
                             int ranks = 2) const {
    for (const ProgramResult& result : trainer_tests::run_ranks(command, ranks))
      EXPECT_EQ(result.status, 0) << result.output;
    const nlohmann::json found = summary(out);
    return found.is_null() ? std::vector<double>() : epoch_losses(found);
  }
  std::vector<double> whole(const std::vector<std::string>& more = {}, int ranks = 2) const {
    std::vector<std::string> words{"--data", data_.string()};
    words.insert(words.end(), more.begin(), more.end());
    return losses("whole", links("whole", words), ranks);
  }
  std::size_t checkpoint_folders() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(state_))
      count += entry.is_regular_file() && entry.path().filename().string().starts_with("model.user.0");
    return count;
  }

  TempFolder folder_;
  const std::filesystem::path data_ = folder_.path() / "data", other_cut_ = folder_.path() / "other",
                              state_ = folder_.path() / "state";
};

TEST_F(OwnersProgram, LossesAreThoseOfWholeRows_HoweverBatchesCome) {
  const std::vector<double> expected = whole();
  ASSERT_EQ(expected.size(), 5U);
  const StateServers servers(data_, 2, state_);
  const std::string all = servers.addresses();
  EXPECT_EQ(losses("folder", links("folder", {"--data", data_.string(), "--owners", all})), expected);
  EXPECT_EQ(losses("peers", links("peers", {"--data", data_.string(), "--partitions", "0", "--peers", all,
                                            "--owners", "peers"})),
            expected);
  EXPECT_EQ(losses("servers", links("servers", {"--servers", all, "--owners", "servers"})), expected);
  EXPECT_EQ(summary("servers")["learned_rows"], summary("whole")["learned_rows"]);
  EXPECT_EQ(summary("servers")["returns"], 0);
}

// Servers have ranges of the ids, and the rows by the same; so do machines with one of the partitions.
TEST_F(OwnersProgram, WithShardedIds_LossesAreThoseOfWholeRows) {
  const std::vector<double> expected = whole();
  ASSERT_EQ(expected.size(), 5U);
  testing::shard_ids(data_);
  const StateServers servers(data_, 2, state_);
  const std::string all = servers.addresses();
  EXPECT_EQ(losses("peers", links("peers", {"--data", data_.string(), "--partitions", "0", "--peers", all,
                                            "--owners", "peers"})),
            expected);
  EXPECT_EQ(losses("servers", links("servers", {"--servers", all, "--owners", "servers"})), expected);
}

// Inference reads what was learned from the training's commit, when no owner runs any more.
TEST_F(OwnersProgram, InferenceReadsRowsFromTheShards) {
  ASSERT_EQ(whole().size(), 5U);
  {
    const StateServers servers(data_, 2, state_);
    ASSERT_EQ(
        losses("owners", links("owners", {"--data", data_.string(), "--owners", servers.addresses()})).size(),
        5U);
  }
  const auto infer = [&](const std::string& model, const std::string& out,
                         const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{program("link_prediction"),
                                   "--data",
                                   data_.string(),
                                   "--infer",
                                   "--model",
                                   (folder_.path() / model / "model.pt").string(),
                                   "--write",
                                   "embeddings=" + (folder_.path() / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  };
  ASSERT_EQ(infer("whole", "e1").status, 0);
  const ProgramResult result = infer("owners", "e2", {"--state", state_.string()});
  ASSERT_EQ(result.status, 0) << result.output;
  for (const char* type : {"user", "artist"})
    for (const char* part : {"0000", "0001"}) {
      const std::string file = std::string("embeddings/") + type + "/part-" + part + "-00000.npy";
      EXPECT_EQ(testing::file_bytes(folder_.path() / "e1" / file),
                testing::file_bytes(folder_.path() / "e2" / file))
          << file;
    }
  expect_refused(infer("owners", "e3"), "link_prediction", "give --state");
  expect_refused(infer("owners", "e3", {"--state", (folder_.path() / "nowhere").string()}), "link_prediction",
                 "--state has not all shards of table 'model.");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state_))
    if (entry.path().filename().string().starts_with("model.user.")) damage(entry.path());
  EXPECT_NE(infer("owners", "e3", {"--state", state_.string()}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "e3" / "manifest.json"));
}

// As hopfeed-launch tells its trainers.
TEST_F(OwnersProgram, DatasetServersAndOwnersCanComeFromTheEnvironment) {
  const std::vector<double> expected = whole();
  const StateServers servers(data_, 2, state_);
  const std::string all = servers.addresses();
  const auto in_environment = [&](const std::string& out, std::vector<std::string> variables,
                                  const std::vector<std::string>& more) {
    variables.insert(variables.begin(), "/usr/bin/env");
    const std::vector<std::string> command = links(out, more);
    variables.insert(variables.end(), command.begin(), command.end());
    return losses(out, variables);
  };
  const std::string data = "HOPFEED_DATA=" + data_.string();
  std::vector<std::string> both{"/usr/bin/env", data, "HOPFEED_SERVERS=" + all};
  for (const std::string& word : links("both", {})) both.push_back(word);
  expect_refused(run_program(both), "link_prediction", "HOPFEED_DATA and HOPFEED_SERVERS are set");
  EXPECT_EQ(
      in_environment("peers", {data, "HOPFEED_PEERS=" + all, "HOPFEED_OWNERS=peers"}, {"--partitions", "0"}),
      expected);
  EXPECT_EQ(in_environment("servers", {"HOPFEED_SERVERS=" + all, "HOPFEED_OWNERS=servers"}, {}), expected);
  EXPECT_EQ(in_environment("words", {"HOPFEED_DATA=/nowhere", "HOPFEED_PEERS=nobody:1"},
                           {"--data", data_.string()}),
            expected)
      << "what is typed wins";
  EXPECT_EQ(
      in_environment("servers", {"HOPFEED_SERVERS=" + all, "HOPFEED_OWNERS=servers", "HOPFEED_RESTART=1"},
                     {"--epochs", "6"})
          .size(),
      6U);
  EXPECT_FALSE(exists(folder_.path() / "servers" / "model.checkpoint.old"))
      << "it goes on from the checkpoint";
}

TEST_F(OwnersProgram, HeteroSageLearnsItsRowsAtOwners) {
  const std::filesystem::path typed = folder_.path() / "typed";
  const testing::TypedGraph graph = testing::typed_training_graph();
  testing::write_typed_dataset(typed, graph, testing::random_typed_cut(graph, 2, 1));
  const auto trained = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words{program("hetero_classification"),
                                   "--hidden",
                                   "8",
                                   "--fanouts",
                                   "4,3",
                                   "--batch-size",
                                   "40",
                                   "--epochs",
                                   "3",
                                   "--no-baseline",
                                   "--out",
                                   (folder_.path() / out).string()};
    words.insert(words.end(), more.begin(), more.end());
    return losses(out, words);
  };
  const std::vector<double> expected = trained("plain", {"--data", typed.string()});
  const StateServers servers(typed, 2, state_);
  EXPECT_EQ(trained("folder", {"--data", typed.string(), "--owners", servers.addresses()}), expected);
  for (const char* split : {"train_accuracy", "valid_accuracy", "test_accuracy"})
    EXPECT_EQ(summary("folder")[split], summary("plain")[split]) << "the best epoch's rows are back";
  EXPECT_EQ(trained("servers", {"--servers", servers.addresses(), "--owners", "servers"}), expected);
}

TEST_F(OwnersProgram, OwnersThatAreKilledAgainAndAgainChangeNoLoss) {
  const std::vector<double> expected = whole({"--epochs", "40"});
  StateServers servers(data_, 2, state_);
  std::atomic<bool> over{false};
  int kills = 0;
  std::thread killer([&] {
    std::mt19937_64 random(3);
    const auto pause = [&](std::chrono::milliseconds time) {
      for (auto end = std::chrono::steady_clock::now() + time;
           !over && std::chrono::steady_clock::now() < end;)
        std::this_thread::sleep_for(5ms);
    };
    for (pause(1s); !over && kills < 12; ++kills) {
      servers.kill_and_start_again(random() % servers.size());
      pause(std::chrono::milliseconds(200 + random() % 300));
    }
  });
  const std::vector<double> found =
      losses("killed", links("killed", {"--data", data_.string(), "--owners", servers.addresses(), "--epochs",
                                        "40", "--checkpoint-every", "2"}));
  over = true;
  killer.join();
  EXPECT_EQ(found, expected);
  EXPECT_GT(kills, 0);
  EXPECT_GT(summary("killed")["returns"], 0);
  EXPECT_GE(summary("killed")["batches_again"], 0);
}

TEST_F(OwnersProgram, TrainersThatAreKilledGoOnFromTheirCheckpoint_WithOtherOwnersAndRanks) {
  const std::vector<double> expected = whole({"--epochs", "12"});
  const std::vector<std::string> more{"--data", data_.string(), "--epochs", "12", "--checkpoint-every", "1"};
  const auto command = [&](const StateServers& servers, const std::vector<std::string>& also) {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--owners", servers.addresses()});
    words.insert(words.end(), also.begin(), also.end());
    return links("run", words);
  };
  {
    const StateServers servers(data_, 2, state_);
    for (int times = 0; times < 4; ++times)  // both ranks die, wherever they are
      for (const ProgramResult& result :
           trainer_tests::run_ranks(command(servers, times == 0 ? std::vector<std::string>()
                                                                : std::vector<std::string>{"--resume"}),
                                    2, times == 0 ? 4 : 3))
        EXPECT_TRUE(result.status == 137 || result.status == 0) << result.output;
    // Those kept, the best, and of each start at most one that was not committed.
    EXPECT_LE(checkpoint_folders(), 3U + 1 + 4);
  }
  const StateServers others(data_, 2, state_);  // which know nothing of the run
  EXPECT_EQ(losses("run", command(others, {"--resume"})), expected);
}

TEST_F(OwnersProgram, ARunGoesOnOnAnotherCut_AndWithAnotherNumberOfRanks) {
  const std::vector<std::string> half{"--epochs", "2"};
  {
    const StateServers servers(data_, 2, state_);
    losses("run", links("run", {"--data", data_.string(), "--owners", servers.addresses(), "--epochs", "2"}));
  }
  const StateServers others(other_cut_, 3, state_);
  const std::vector<std::string> on{"--data", other_cut_.string(), "--owners", others.addresses(),
                                    "--resume"};
  EXPECT_EQ(losses("run", links("run", on)), whole());
  std::vector<std::string> longer = on;
  longer.insert(longer.end(), {"--epochs", "7"});
  const std::vector<double> alone = losses("run", links("run", longer), 1);
  ASSERT_EQ(alone.size(), 7U);
  EXPECT_LT(alone[6], alone[0]);
}

TEST_F(OwnersProgram, CheckpointsThatTakeLongerThanRanksWait_ChangeNoLoss) {
  const std::filesystem::path typed = folder_.path() / "typed";
  const testing::TypedGraph graph = testing::typed_training_graph();
  testing::write_typed_dataset(typed, graph, testing::random_typed_cut(graph, 2, 1));
  const StateServers servers(typed, 2, state_);
  // With owners that take twice as long to write and to read a checkpoint as ranks wait for each other.
  const auto trained = [&](const std::string& out, const std::string& epochs, bool slow) {
    const std::string folder = (folder_.path() / out).string();
    for (const ProgramResult& result :
         trainer_tests::run_ranks({program("owners_rank"), typed.string(), folder, servers.addresses(),
                                   epochs, slow ? "3000" : "60000", slow ? "6000" : "0"},
                                  2))
      EXPECT_EQ(result.status, 0) << result.output;
    return read_json(folder_.path() / out / "result.json");
  };
  const nlohmann::json expected = trained("quick", "2", false);
  ASSERT_EQ(expected.at("losses").size(), 2U);
  EXPECT_EQ(trained("slow", "1", true).at("losses").at(0), expected.at("losses").at(0));
  const nlohmann::json found = trained("slow", "2", true);  // which goes on
  EXPECT_EQ(found.at("losses"), expected.at("losses"));
  EXPECT_GE(found.at("seconds"), 6) << "a checkpoint was gone back to, and one written";
}

TEST_F(OwnersProgram, WhatCannotBeIsOneLine) {
  const auto refused = [&](std::vector<std::string> more, const std::string& what) {
    expect_refused(run_program(links("refused", std::move(more))), "link_prediction", what);
  };
  const std::string data = data_.string();
  refused({"--data", data, "--owners", "peers"}, "--owners is peers, and --peers is missing");
  refused({"--data", data, "--owners", "servers"}, "--owners is servers, and --servers is missing");
  refused({"--data", data, "--tables", "a"}, "--tables is of --owners; give both");
  std::vector<std::string> no_out{
      program("link_prediction"), "--edge-type", "listens", "--data", data, "--owners", "127.0.0.1:1"};
  expect_refused(run_program(no_out), "link_prediction", "--owners needs --out");
  const StateServers servers(data_, 2, state_);
  const std::string all = servers.addresses(), first = all.substr(0, all.find(','));
  refused({"--data", data, "--owners", first}, "partition 1");
  // Another run has the tables.
  std::vector<std::string> command = links("first", {"--data", data, "--owners", all, "--epochs", "100000"});
  testing::BackgroundProgram running(command);
  const std::filesystem::path checkpoint = folder_.path() / "first" / "model.checkpoint";
  for (int i = 0; i < 3'000 && !std::filesystem::exists(checkpoint); ++i) std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(std::filesystem::exists(checkpoint));
  refused({"--data", data, "--owners", all}, "is learned by another run");
  EXPECT_EQ(
      run_program(links("second", {"--data", data, "--owners", all, "--tables", "mine", "--epochs", "1"}))
          .status,
      0);
}

}  // namespace
}  // namespace hopfeed
