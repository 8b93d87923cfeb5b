// Checkpoints of state: what owners write, and how they go back to it, with the same owners, after an owner
// was lost, and on another cut; and what becomes of files that are damaged, missing or not those of the
// checkpoint.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "core/base/half_floats.h"
#include "core/base/limits.h"
#include "state/client/dist_rows.h"
#include "state/client/dist_tensor.h"
#include "tests/state/learning_ranks.h"
#include "tests/state/local_network.h"
#include "tests/state/owners_fixture.h"
#include "tests/support/sanitized.h"
#include "tests/support/watchdog.h"

namespace hopfeed {
namespace {

using testing::all_nodes;
using testing::CutGraph;
using testing::expect_in;
using testing::kLearnedWidth;
using testing::kLearningNodes;
using testing::learn;
using testing::learned_in_one_place;
using testing::LocalNetwork;
using testing::OwnerThread;
using testing::refusal;
using testing::Reply;
using testing::rows_spec;

using Owners = std::vector<std::unique_ptr<OwnerThread>>;
constexpr std::int64_t kRanks = 2, kAt = 10;  // steps, when the checkpoint is taken
constexpr std::uint64_t kRun = 5;

class StateCheckpoint : public testing::WatchedTest<60> {
 protected:
  static void SetUpTestSuite() { graph_ = new CutGraph(kLearningNodes); }
  static void TearDownTestSuite() { delete graph_; }
  static inline CutGraph* graph_ = nullptr;

  /// Owners of the partitions, each with a folder `folder_of(owner)`.
  static Owners owners_of(const CutGraph& graph, const std::vector<std::vector<int>>& partitions,
                          const std::function<std::filesystem::path(std::size_t)>& folder_of) {
    Owners owners;
    for (std::size_t i = 0; i < partitions.size(); ++i)
      owners.push_back(std::make_unique<OwnerThread>(graph.open(partitions[i]), i + 1, folder_of(i)));
    return owners;
  }
  Owners owners() const {
    return owners_of(*graph_, {{0, 2}, {1}}, [this](std::size_t) { return folder_.path(); });
  }
  static std::shared_ptr<LocalNetwork> network(const Owners& owners, std::uint64_t connection) {
    std::vector<OwnerThread*> all;
    for (const auto& owner : owners) all.push_back(owner.get());
    return std::make_shared<LocalNetwork>(std::move(all), connection);
  }
  static std::unique_ptr<DistRows> open(const Owners& owners, std::int64_t rank, std::uint32_t attempt,
                                        const CutGraph& graph = *graph_,
                                        const TableSpec& spec = rows_spec()) {
    return std::make_unique<DistRows>(
        network(owners, attempt * 10 + static_cast<std::uint64_t>(rank)), graph.whole().meta(), spec,
        RankOfRun{.run = kRun, .attempt = attempt, .rank = rank, .ranks = kRanks});
  }
  static void learn_together(const std::vector<std::unique_ptr<DistRows>>& ranks, std::int64_t end) {
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] { learn(*ranks[static_cast<std::size_t>(rank)], rank, 2, end); });
    for (std::thread& thread : threads) thread.join();
  }
  /// All ranks of an attempt, up to step kAt, and the checkpoint that rank 0 then takes.
  static std::vector<ShardSum> learned_and_saved(const Owners& owners, std::uint32_t attempt = 0) {
    std::vector<std::unique_ptr<DistRows>> ranks;
    for (std::int64_t rank = 0; rank < kRanks; ++rank) ranks.push_back(open(owners, rank, attempt));
    learn_together(ranks, kAt);
    return ranks[0]->save(kAt);
  }
  /// Goes back to that checkpoint and on to the end.
  static std::vector<float> learned_on(const Owners& owners, std::uint32_t attempt,
                                       const std::vector<ShardSum>& shards, const CutGraph& graph = *graph_) {
    std::vector<std::unique_ptr<DistRows>> ranks;
    ranks.push_back(open(owners, 0, attempt, graph));
    ranks[0]->restore(kAt, shards);
    EXPECT_EQ(ranks[0]->next_step(), kAt);
    for (std::int64_t rank = 1; rank < kRanks; ++rank) ranks.push_back(open(owners, rank, attempt, graph));
    EXPECT_EQ(ranks[1]->next_step(), kAt);
    learn_together(ranks, testing::kSteps);
    return all_rows(*ranks[0]);
  }
  static std::vector<float> all_rows(const DistRows& rows) {
    std::vector<float> values(kLearningNodes * kLearnedWidth);
    rows.pull(all_nodes(), values.data());
    return values;
  }
  std::filesystem::path shard(std::int64_t first_partition, const std::string& table = "user") const {
    return shard_path(checkpoint_folder(folder_.path(), kRun, kAt), table, first_partition);
  }

  testing::TempFolder folder_;
};

TEST_F(StateCheckpoint, WhoGoesBackLearnsTheBitsOfWhoWasNeverInterrupted) {
  const std::vector<float> expected = learned_in_one_place(graph_->whole(), rows_spec(), kRanks);
  const Owners owners = this->owners();
  const std::vector<ShardSum> shards = learned_and_saved(owners);
  EXPECT_EQ(learned_on(owners, 1, shards), expected) << "owners that went on after the checkpoint";
  owners[1]->start_again();
  EXPECT_EQ(learned_on(owners, 2, shards), expected) << "an owner that had lost all";
  EXPECT_EQ(learned_on(this->owners(), 3, shards), expected) << "owners that know nothing of the run";
}

TEST_F(StateCheckpoint, ShardsHaveTheSameBytesWheneverAndWhereverTheyAreWritten) {
  const std::vector<ShardSum> first = learned_and_saved(owners());
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].first_partition, 0);
  EXPECT_EQ(first[1].first_partition, 1);
  EXPECT_EQ(std::filesystem::file_size(shard(0)), static_cast<std::uintmax_t>(first[0].bytes));
  EXPECT_LT(first[0].rows + first[1].rows, kLearningNodes) << "only rows that were learned";
  EXPECT_EQ(learned_and_saved(owners()), first);
}

TEST_F(StateCheckpoint, AnotherCutTakesRowsFromTheShardsOfAll) {
  const std::vector<ShardSum> shards = learned_and_saved(owners());
  // Rows by original id of the cut that the checkpoint is of.
  const Owners before = owners();
  const std::unique_ptr<DistRows> was = open(before, 0, 1);
  was->restore(kAt, shards);
  const std::vector<float> values = all_rows(*was);
  const CutGraph other(kLearningNodes, 4, 77), swapped(kLearningNodes, 3, 78);
  for (const auto& [graph, cut] :
       {std::pair{&other, std::vector<std::vector<int>>{{0}, {1, 3}, {2}}},
        std::pair{&other, std::vector<std::vector<int>>{{0, 1, 2, 3}}},
        std::pair{&swapped, std::vector<std::vector<int>>{{0, 2}, {1}}}}) {  // as many, with other nodes
    const Owners now = owners_of(*graph, cut, [this](std::size_t) { return folder_.path(); });
    const std::unique_ptr<DistRows> is = open(now, 0, 0, *graph);
    is->restore(kAt, shards);
    EXPECT_EQ(is->next_step(), kAt);
    const std::vector<float> rows = all_rows(*is);
    for (std::int64_t id = 0; id < kLearningNodes; ++id) {
      const std::int64_t old = graph_->whole().dataset_id(0, graph->whole().original_id(0, id));
      for (std::int64_t f = 0; f < kLearnedWidth; ++f)
        ASSERT_EQ(rows[static_cast<std::size_t>(id * kLearnedWidth + f)],
                  values[static_cast<std::size_t>(old * kLearnedWidth + f)]);
    }
  }
}

TEST_F(StateCheckpoint, FoldersOfTheirOwnSuffice_UntilTheCutIsAnother) {
  const auto own = [this](std::size_t owner) { return folder_.path() / std::to_string(owner); };
  const Owners apart = owners_of(*graph_, {{0, 2}, {1}}, own);
  const std::vector<ShardSum> shards = learned_and_saved(apart);
  EXPECT_EQ(learned_on(apart, 1, shards), learned_in_one_place(graph_->whole(), rows_spec(), kRanks));
  const Owners others = owners_of(*graph_, {{0}, {1, 2}}, own);
  const std::unique_ptr<DistRows> rows = open(others, 0, 2);
  const std::string why = refusal([&] { rows->restore(kAt, shards); });
  expect_in(why, "checkpoint 10 of table 'user' cannot be restored: its shard " + own(0).string());
  expect_in(why, "put them into one folder");
}

TEST_F(StateCheckpoint, WhatIsDamagedOrMissingIsNamed_AndChangesNothing) {
  const Owners owners = this->owners();
  const std::vector<ShardSum> shards = learned_and_saved(owners);
  const std::unique_ptr<DistRows> rows = open(owners, 0, 1);
  rows->restore(kAt, shards);
  const std::vector<float> before = all_rows(*rows);
  const auto restored_after = [&](const std::function<void()>& change, std::int64_t first_partition,
                                  std::vector<ShardSum> named) {
    std::filesystem::copy(shard(first_partition), folder_.path() / "kept");
    change();
    const std::string why = refusal([&] { rows->restore(kAt, named); });
    std::filesystem::rename(folder_.path() / "kept", shard(first_partition));
    expect_in(why, "checkpoint 10 of table 'user' cannot be restored: ");
    expect_in(why, shard(first_partition).string());
    return why;
  };
  const auto with_byte = [&](std::int64_t at) {
    return [this, at] {
      std::fstream file(shard(0), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
      const auto byte = static_cast<char>(file.get() ^ 1);
      file.seekp(at, at < 0 ? std::ios::end : std::ios::beg);
      file.put(byte);
    };
  };
  for (const std::int64_t at : {0, 9, 40, 600, -9, -1})
    expect_in(restored_after(with_byte(at), 0, shards), "is damaged");
  for (const std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{17}, std::uintmax_t{100}, std::filesystem::file_size(shard(0)) - 8})
    expect_in(restored_after([&] { std::filesystem::resize_file(shard(0), size); }, 0, shards), "is damaged");
  expect_in(restored_after([&] { std::filesystem::remove(shard(0)); }, 0, shards), "is not there");
  std::vector<ShardSum> others = shards;
  others[0].xxh3 ^= 1;
  expect_in(restored_after([] {}, 0, others), "is not the file that the checkpoint names");
  expect_in(refusal([&] { rows->restore(kAt, {}); }),
            "checkpoint 10 of table 'user' cannot be restored: the checkpoint names no shards");
  EXPECT_EQ(all_rows(*rows), before);
}

TEST_F(StateCheckpoint, AnotherTableOrDatasetIsRefused) {
  const std::vector<ShardSum> shards = learned_and_saved(owners());
  TableSpec spec = rows_spec();
  spec.optimizer.optimizer = RowOptimizer::kSgd;
  const Owners owners = this->owners();
  expect_in(refusal([&] { open(owners, 0, 0, *graph_, spec)->restore(kAt, shards); }),
            "optimizer \"sparse_adam\" there and \"sgd\" here");
  const CutGraph larger(kLearningNodes + 1);
  const Owners of_larger = owners_of(larger, {{0, 2}, {1}}, [this](std::size_t) { return folder_.path(); });
  expect_in(refusal([&] { open(of_larger, 0, 0, larger)->restore(kAt, shards); }), "is of another dataset");
}

TEST_F(StateCheckpoint, ShardsThatNobodyGoesBackToAreRemoved) {
  const Owners owners = this->owners();
  std::vector<std::unique_ptr<DistRows>> ranks;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) ranks.push_back(open(owners, rank, 0));
  for (std::int64_t at = 1; at <= 4; ++at) {
    learn_together(ranks, at);
    ranks[0]->save(static_cast<std::uint64_t>(at));
  }
  const auto there = [this](std::uint64_t checkpoint) {
    return std::filesystem::exists(checkpoint_folder(folder_.path(), kRun, checkpoint));
  };
  ranks[0]->keep({2, 4});
  for (const std::uint64_t checkpoint : {1, 3}) EXPECT_FALSE(there(checkpoint)) << checkpoint;
  for (const std::uint64_t checkpoint : {2, 4}) EXPECT_TRUE(there(checkpoint)) << checkpoint;
  const auto other_run = checkpoint_folder(folder_.path(), kRun + 1, 7);
  std::filesystem::create_directories(other_run);
  ranks[0]->keep({});
  EXPECT_FALSE(there(4));
  EXPECT_TRUE(std::filesystem::exists(other_run));
}

TEST_F(StateCheckpoint, ATensorComesBackWithItsTypeAndCanBeWrittenOn) {
  const Owners owners = this->owners();
  const TableSpec spec{.name = "score",
                       .node_type = "node",
                       .dtype = ElementType::kBfloat16,
                       .width = 3,
                       .first_values = TableSpec::FirstValues::kUniform,
                       .seed = 4};
  DistTensor tensor(network(owners, 1), graph_->whole().meta(), spec, {.run = kRun});
  const std::vector<std::int64_t> some{0, 7, 149};
  const std::vector<std::uint16_t> written(9, bfloat16_from(2.5F));
  tensor.push(some, std::as_bytes(std::span(written)));
  const auto values = [&] {
    std::vector<std::uint16_t> all(kLearningNodes * 3);
    tensor.pull(all_nodes(), reinterpret_cast<std::byte*>(all.data()));
    return all;
  };
  const std::vector<std::uint16_t> before = values();
  const std::vector<ShardSum> shards = tensor.save(1);
  EXPECT_EQ(shards[0].rows + shards[1].rows, 3);
  const std::vector<std::uint16_t> more(kLearningNodes * 3, written[0]), none(9, 0);
  tensor.add(all_nodes(), std::as_bytes(std::span(more)));
  EXPECT_NE(values(), before);
  tensor.restore(1, shards);
  EXPECT_EQ(values(), before);
  tensor.push(some, std::as_bytes(std::span(none)));
  EXPECT_NE(values(), before);
}

TEST_F(StateCheckpoint, AMessageThatComesLateChangesNothing) {
  const Owners owners = owners_of(*graph_, {{0, 1, 2}}, [this](std::size_t) { return folder_.path(); });
  StateOwner& owner = owners[0]->owner();
  const TableSpec spec{.name = "counts", .node_type = "node", .dtype = ElementType::kInt64, .width = 1};
  DistTensor tensor(network(owners, 1), graph_->whole().meta(), spec, {.run = kRun});
  const std::vector<ShardSum> empty = tensor.save(1);
  // Somebody's message to go back, as it is given twice.
  const StateHead head = TableAtOwners(network(owners, 3), graph_->whole().meta(), spec, {.run = kRun})
                             .head(0, StateAsk::kRestore, 0);
  const auto give = [&](std::uint64_t client, std::int64_t message, std::uint32_t attempt) {
    StateHead of_owner = head;
    of_owner.client = client;
    of_owner.attempt = attempt;
    Reply reply;
    const std::vector<std::int64_t> numbers{message, 1, 0};
    owner.answer(3,
                 std::make_shared<RecycledBytes>(write_state_question(
                     of_owner, numbers, sizeof(ShardSum),
                     [&](std::byte* out) { std::memcpy(out, empty.data(), sizeof(ShardSum)); })),
                 reply.done());
    return reply;
  };
  const std::vector<std::int64_t> five{5}, one{1};
  const auto value = [&] {
    std::int64_t number = 0;
    tensor.pull(five, reinterpret_cast<std::byte*>(&number));
    return number;
  };
  tensor.add(five, std::as_bytes(std::span(one)));
  EXPECT_EQ(read_restored(give(99, 2, 4).answer()).rows, 0);
  EXPECT_EQ(value(), 0);
  DistTensor again(network(owners, 2), graph_->whole().meta(), spec, {.run = kRun, .attempt = 4});
  again.add(five, std::as_bytes(std::span(one)));
  EXPECT_EQ(read_restored(give(99, 2, 4).answer()).rows, 0) << "answered as before";
  expect_in(give(99, 1, 4).error(), "came after 2");
  expect_in(give(98, 3, 3).error(), "has gone on with attempt 4 of the run, and this is attempt 3");
  EXPECT_EQ(value(), 1) << "and nothing is forgotten";
}

TEST_F(StateCheckpoint, RanksThatDoNotStopAndOwnersWithoutAFolderAreRefused) {
  const Owners owners = this->owners();
  std::vector<std::unique_ptr<DistRows>> ranks;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) ranks.push_back(open(owners, rank, 0));
  learn_together(ranks, 3);
  std::vector<float> unused(kLearnedWidth);
  const TableAtOwners late(network(owners, 9), graph_->whole().meta(), rows_spec(),
                           {.run = kRun, .attempt = 0, .rank = 0, .ranks = kRanks});
  expect_in(refusal([&] { late.save(2, 2); }),
            "a checkpoint of step 2 of table 'user' is asked for, and 3 steps have been applied");
  const Owners without = owners_of(*graph_, {{0, 2}, {1}}, [](std::size_t) { return ""; });
  expect_in(refusal([&] { open(without, 0, 0)->save(0); }), "has no folder for checkpoints");
}

TEST_F(StateCheckpoint, ADiskThatIsFullIsSaid_AndTheOlderCheckpointStands) {
  const Owners owners = this->owners();
  const std::vector<ShardSum> shards = learned_and_saved(owners);
  std::vector<std::unique_ptr<DistRows>> ranks;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) ranks.push_back(open(owners, rank, 1));
  learn_together(ranks, 2);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 500, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string why = refusal([&] { ranks[0]->save(11); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  expect_in(why, "checkpoint 11 of table 'user' cannot be written: ");
  expect_in(why, shard_path(checkpoint_folder(folder_.path(), kRun, 11), "user", 0).string());
  expect_in(why, "those before it stand: give its owner's --state folder room, and save again");
  EXPECT_FALSE(std::filesystem::exists(shard_path(checkpoint_folder(folder_.path(), kRun, 11), "user", 0)));
  learn_together(ranks, 4);  // and training may go on
  EXPECT_EQ(learned_on(owners, 2, shards), learned_in_one_place(graph_->whole(), rows_spec(), kRanks));
}

// ---- while an owner is at its files

/// It counts how often an owner is busy.
class CountingNetwork final : public StateNetwork {
 public:
  explicit CountingNetwork(std::shared_ptr<StateNetwork> owners) : owners_(std::move(owners)) {}
  int num_owners() const override { return owners_->num_owners(); }
  int owner_of(int partition) const override { return owners_->owner_of(partition); }
  Ticket ask(int owner, RecycledBytes question) override { return owners_->ask(owner, std::move(question)); }
  std::shared_ptr<const RecycledBytes> wait(Ticket ticket) override {
    try {
      return owners_->wait(ticket);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kBusy) ++busy;
      throw;
    }
  }
  void drop(Ticket ticket) noexcept override { owners_->drop(ticket); }
  std::atomic<int> busy = 0;

 private:
  const std::shared_ptr<StateNetwork> owners_;
};

/// Takes the address space of this process that is left, but for so many bytes.
class LittleAddressSpace {
 public:
  explicit LittleAddressSpace(std::size_t left) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    const rlimit little{.rlim_cur = pages * static_cast<std::size_t>(getpagesize()) + left,
                        .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_AS, &little);
  }
  ~LittleAddressSpace() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

class AtFiles : public StateCheckpoint {
 protected:
  AtFiles() : owners_(owners_of(*graph_, {{0, 1, 2}}, [this](std::size_t) { return folder_.path(); })) {}
  ~AtFiles() override { files().let_go(); }
  testing::HeldFiles& files() { return owners_[0]->files(); }
  std::unique_ptr<DistTensor> tensor(const std::string& name, std::uint64_t connection) const {
    return std::make_unique<DistTensor>(
        network(owners_, connection), graph_->whole().meta(),
        TableSpec{.name = name, .node_type = "node", .dtype = ElementType::kInt64, .width = 1},
        RankOfRun{.run = kRun});
  }
  static std::int64_t value(const DistTensor& tensor) {
    const std::vector<std::int64_t> five{5};
    std::int64_t number = 0;
    tensor.pull(five, reinterpret_cast<std::byte*>(&number));
    return number;
  }
  static void add_one(DistTensor& tensor) {
    const std::vector<std::int64_t> five{5}, one{1};
    tensor.add(five, std::as_bytes(std::span(one)));
  }
  static void wait_until(const std::function<bool()>& so) {  // the watchdog ends it
    while (!so()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static std::size_t held_bytes(const Owners& owners) {
    std::size_t bytes = 0;
    for (const TableStatus& table : owners[0]->owner().status()) bytes += table.held_bytes;
    return bytes;
  }
  /// As somebody asks who has a connection of its own.
  static Reply asked(StateOwner& owner, const StateHead& head, const std::vector<std::int64_t>& ids,
                     const std::vector<std::int64_t>& rows = {}) {
    Reply reply;
    owner.answer(4,
                 std::make_shared<RecycledBytes>(write_state_question(
                     head, ids, rows.size() * sizeof(std::int64_t),
                     [&](std::byte* out) { std::memcpy(out, rows.data(), rows.size() * sizeof rows[0]); })),
                 reply.done());
    return reply;
  }
  /// Waits until an owner is at its files. Returns the bytes that it holds then, of messages that came twice.
  static std::size_t wait_at_files(const Owners& owners) {
    owners[0]->files().wait();
    for (int i = 0; i < 2; ++i) {  // the first is behind the message, the second behind its like
      std::promise<void> done;
      owners[0]->post([&] { done.set_value(); });
      done.get_future().wait();
    }
    return held_bytes(owners);
  }
  static void wait_until_held(const Owners& owners, std::size_t before) {
    wait_until([&] { return held_bytes(owners) > before; });
  }

  const Owners owners_;
};

TEST_F(AtFiles, WhatOneOwnerRefuses_IsThrownOnceNoOtherIsAtItStill) {
  const Owners owners = this->owners();
  const std::vector<ShardSum> shards = learned_and_saved(owners);
  const std::unique_ptr<DistRows> rows = open(owners, 0, 1);
  rows->restore(kAt, shards);
  const std::vector<float> before = all_rows(*rows);
  std::filesystem::remove(shard(0));
  owners[1]->files().hold();
  std::string why;
  std::atomic<bool> refused = false;
  std::thread restorer([&] {
    why = refusal([&] { rows->restore(kAt, shards); });
    refused = true;
  });
  owners[1]->files().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the first has refused by now
  EXPECT_FALSE(refused);
  owners[1]->files().let_go();
  restorer.join();
  expect_in(why, "is not there");
  EXPECT_EQ(all_rows(*rows), before);
}

TEST_F(AtFiles, OtherTablesGoOn_AndWhatIsWrittenToThisOneIsHeld) {
  const std::unique_ptr<DistTensor> saved = tensor("saved", 1), writes = tensor("saved", 2),
                                    other = tensor("other", 3);
  add_one(*saved);
  files().hold();
  std::vector<ShardSum> shards;
  std::thread saver([&] { shards = saved->save(7); });
  const std::size_t before = wait_at_files(owners_);
  add_one(*other);
  EXPECT_EQ(value(*other), 1);
  EXPECT_EQ(owners_[0]->owner().status().size(), 2U);
  owners_[0]->owner().tick();
  std::atomic<bool> written = false;
  std::thread writer([&] {
    add_one(*writes);
    written = true;
  });
  wait_until_held(owners_, before);
  EXPECT_FALSE(written);
  EXPECT_EQ(value(*other), 1);
  const std::unique_ptr<DistTensor> reads = tensor("saved", 4);
  EXPECT_EQ(value(*reads), 1) << "as the checkpoint has it";
  files().let_go();
  saver.join();
  writer.join();
  EXPECT_EQ(value(*reads), 2);
  saved->restore(7, shards);
  EXPECT_EQ(value(*tensor("saved", 5)), 1) << "what was held is not in the checkpoint";
}

TEST_F(AtFiles, RanksGoOnLearningBehindACheckpoint_AndNoneIsLate) {
  std::vector<std::unique_ptr<DistRows>> ranks;
  for (std::int64_t rank = 0; rank < kRanks; ++rank) ranks.push_back(open(owners_, rank, 0));
  learn_together(ranks, kAt);
  files().hold();
  std::vector<ShardSum> shards;
  std::thread saver([&] { shards = ranks[0]->save(kAt); });
  const std::size_t before = wait_at_files(owners_);
  std::thread goes_on([&] { learn(*ranks[1], 1, 2, testing::kSteps); });
  wait_until_held(owners_, before);
  owners_[0]->let_pass(std::chrono::seconds(1'000));  // more than a rank may be late
  owners_[0]->owner().tick();
  owners_[0]->let_pass(std::chrono::seconds(-1'000));
  EXPECT_EQ(owners_[0]->owner().status()[0].steps_applied, kAt);
  files().let_go();
  saver.join();
  learn(*ranks[0], 0, 2, testing::kSteps);
  goes_on.join();
  const std::vector<float> expected = learned_in_one_place(graph_->whole(), rows_spec(), kRanks);
  EXPECT_EQ(all_rows(*ranks[0]), expected);
  EXPECT_EQ(learned_on(owners_, 1, shards), expected);
}

TEST_F(AtFiles, ALaterAttemptGivesUpACheckpointThatNobodyWants) {
  std::unique_ptr<DistRows> first = open(owners_, 0, 0);
  files().hold();
  std::string why;
  std::thread saver([&] { why = refusal([&] { first->save(0); }); });
  const std::size_t before = wait_at_files(owners_);
  std::unique_ptr<DistRows> later;
  std::thread opener([&] { later = open(owners_, 0, 1); });
  wait_until_held(owners_, before);
  files().let_go();
  saver.join();
  opener.join();
  EXPECT_EQ(later->next_step(), 0);
  expect_in(why, "was begun anew by another run or attempt");
  EXPECT_FALSE(std::filesystem::exists(shard_path(checkpoint_folder(folder_.path(), kRun, 0), "user", 0)));
}

TEST_F(AtFiles, ATableThatGoesBackAnswersNobodyBeforeItHasItsRows) {
  const std::unique_ptr<DistTensor> table = tensor("saved", 1), other = tensor("other", 3);
  add_one(*table);
  const std::vector<ShardSum> shards = table->save(7);
  add_one(*table);
  files().hold();
  std::thread goes_back([&] { table->restore(7, shards); });
  const std::size_t before = wait_at_files(owners_);
  std::atomic<std::int64_t> read = 0;
  std::thread reader([&] { read = value(*tensor("saved", 2)); });
  wait_until_held(owners_, before);
  EXPECT_EQ(read, 0);
  add_one(*other);
  EXPECT_EQ(value(*other), 1);
  EXPECT_EQ(owners_[0]->owner().status()[1].written, 1) << "as it was before";
  owners_[0]->owner().tick();
  files().let_go();
  goes_back.join();
  reader.join();
  EXPECT_EQ(read, 1);
}

TEST_F(AtFiles, ATableThatIsBegunAnewBehindItsFilesGivesItsMemoryBackFirst) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer's shadow memory leaves no address space to limit";
  constexpr std::size_t kGiB = std::size_t{1} << 30;
  TableSpec spec = rows_spec();
  spec.width = kMaxHidden;
  const CutGraph large(static_cast<std::int64_t>(kGiB) / stored_row_bytes(spec));
  const Owners owners = owners_of(large, {{0, 1, 2}}, [this](std::size_t) { return folder_.path(); });
  const std::unique_ptr<DistRows> first = open(owners, 0, 0, large, spec);
  owners[0]->files().hold();
  std::thread saver([&] { refusal([&] { first->save(0); }); });
  const std::size_t before = wait_at_files(owners);
  std::string why;
  std::thread opener([&] { why = refusal([&] { open(owners, 0, 1, large, spec); }); });
  wait_until_held(owners, before);
  {
    const LittleAddressSpace too_little_for_two(kGiB * 3 / 4);
    owners[0]->files().let_go();
    opener.join();
  }
  saver.join();
  EXPECT_EQ(why, "accepted");
}

TEST_F(AtFiles, WritesBeyondWhatATableHoldsAreAskedAgain_AndLaterOnesGoOn) {
  const std::vector<std::int64_t> five{5}, one{1};
  const TableSpec spec{.name = "saved", .node_type = "node", .dtype = ElementType::kInt64, .width = 1};
  const std::size_t message = sizeof(StateHead) + 16;
  Owners owners;
  owners.push_back(std::make_unique<OwnerThread>(graph_->open({0, 1, 2}), 1, folder_.path(), 0, 2 * message));
  StateOwner& owner = owners[0]->owner();
  const auto counting = std::make_shared<CountingNetwork>(network(owners, 2));
  DistTensor writes(counting, graph_->whole().meta(), spec, {.run = kRun});
  const TableAtOwners table(network(owners, 3), graph_->whole().meta(), spec, {.run = kRun});
  const auto ask = [&](StateAsk what, std::uint64_t number, const std::vector<std::int64_t>& ids,
                       const std::vector<std::int64_t>& rows) {
    return asked(owner, table.head(0, what, number), ids, rows);
  };
  owners[0]->files().hold();
  const Reply saved = ask(StateAsk::kSave, 0, {1, 7}, {});
  const Reply first = ask(StateAsk::kAdd, 1, five, one), second = ask(StateAsk::kAdd, 2, five, one),
              third = ask(StateAsk::kAdd, 3, five, one);
  EXPECT_FALSE(saved.came() || first.came() || second.came());
  expect_in(third.error(), "160 bytes of questions wait for it already");
  EXPECT_EQ(held_bytes(owners), 2 * message);
  std::thread writer([&] {  // in several messages
    const std::vector<std::int64_t> fives(400'000, 5), ones(400'000, 1);
    writes.add(fives, std::as_bytes(std::span(ones)));
  });
  wait_until([&] { return counting->busy > 0; });
  owners[0]->files().let_go();
  writer.join();
  EXPECT_EQ(read_shard_sum(saved.answer()).rows, 0);
  EXPECT_TRUE(first.came() && second.came());
  add_one(writes);
  EXPECT_EQ(value(writes), 400'003);
}

TEST_F(AtFiles, AnOwnerThatEndsGivesUpWhatItDoesThere_AndBeginsNothingMore) {
  StateOwner& owner = owners_[0]->owner();
  const std::unique_ptr<DistTensor> saved = tensor("saved", 1);
  const TableAtOwners table(network(owners_, 3), graph_->whole().meta(), saved->spec(), {.run = kRun});
  files().hold();
  const StateHead head = table.head(0, StateAsk::kSave, 0);
  const Reply first = asked(owner, head, {1, 7}), second = asked(owner, head, {2, 8});
  owner.give_up();
  files().let_go();
  for (const Reply& reply : {first, second}) expect_in(reply.error(), "the owner of table 'saved' ends");
  for (const std::uint64_t checkpoint : {7, 8})
    EXPECT_FALSE(
        std::filesystem::exists(shard_path(checkpoint_folder(folder_.path(), kRun, checkpoint), "saved", 0)));
}

}  // namespace
}  // namespace hopfeed
