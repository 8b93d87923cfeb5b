// What processes see of state at its owners: ranks that learn on threads of their own, writers at any time,
// runs and attempts that meet at one table, and owners that were started again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <future>
#include <mutex>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "state/client/dist_rows.h"
#include "state/client/dist_tensor.h"
#include "state/table/learned_table.h"
#include "tests/state/learning_ranks.h"
#include "tests/state/local_network.h"
#include "tests/state/owners_fixture.h"
#include "tests/support/watchdog.h"

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
using testing::refusal;
using testing::rows_spec;

using testing::LocalNetwork;
using testing::OwnerThread;

class StateClient : public testing::WatchedTest<60> {
 protected:
  static void SetUpTestSuite() { graph_ = new CutGraph(kLearningNodes); }
  static void TearDownTestSuite() { delete graph_; }
  static inline CutGraph* graph_ = nullptr;

  StateClient() {
    owners_.push_back(std::make_unique<OwnerThread>(graph_->open({0, 2}), 1));
    owners_.push_back(std::make_unique<OwnerThread>(graph_->open({1}), 2));
  }
  std::shared_ptr<LocalNetwork> network(std::uint64_t connection) {
    return std::make_shared<LocalNetwork>(std::vector{owners_[0].get(), owners_[1].get()}, connection);
  }
  /// Tells the owners that a process is gone.
  void disconnect(std::uint64_t connection) {
    settle();
    for (const auto& owner : owners_) {
      std::promise<void> done;
      owner->post([&] {
        for (const std::uint64_t number : {connection, connection + LocalNetwork::kNewer})
          owner->owner().disconnected(number);
        done.set_value();
      });
      done.get_future().wait();
    }
  }
  /// Waits until owners have had all that was under way to them, repeated questions too.
  void settle() {
    for (const auto& owner : owners_)
      for (int i = 0; i < 2; ++i) {  // a repeat goes behind what was there when its question was given
        std::promise<void> done;
        owner->post([&done] { done.set_value(); });
        done.get_future().wait();
      }
  }
  void let_pass(std::chrono::seconds time) {
    settle();
    for (const auto& owner : owners_) owner->let_pass(time);
  }
  static const DatasetMeta& meta() { return graph_->whole().meta(); }
  static TableSpec tensor_spec(ElementType type = ElementType::kInt64) {
    return {.name = "counts", .node_type = "node", .dtype = type, .width = 2};
  }

  std::vector<std::unique_ptr<OwnerThread>> owners_;
};

TEST_F(StateClient, RanksOnThreadsLearnTheBitsOfATableInOnePlace) {
  for (const std::int64_t ranks : {1, 2, 4}) {
    for (const std::int64_t ahead : {0, 2}) {
      const TableSpec spec = rows_spec("user" + std::to_string(10 * ranks + ahead));
      const std::vector<float> expected = learned_in_one_place(graph_->whole(), spec, ranks);
      std::vector<std::thread> threads;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          DistRows rows(network(static_cast<std::uint64_t>(rank)), meta(), spec,
                        {.run = 9, .rank = rank, .ranks = ranks});
          learn(rows, rank, ahead);
          std::vector<float> values(kLearningNodes * kLearnedWidth);
          rows.pull(all_nodes(), values.data());  // waits for the others' last step
          EXPECT_EQ(values, expected) << "rank " << rank << " of " << ranks << ", " << ahead << " ahead";
        });
      for (std::thread& thread : threads) thread.join();
    }
  }
}

/// What a rank looks up in a step: rows that it reads, some of them several times.
std::vector<std::int64_t> lookups_of(std::int64_t rank, std::int64_t step) {
  std::vector<std::int64_t> lookups = testing::read_by(rank, step);
  std::mt19937_64 random(static_cast<std::uint64_t>(7 * step + rank));
  if (!lookups.empty())
    for (std::uint64_t i = random() % 20; i > 0; --i) lookups.push_back(lookups[random() % lookups.size()]);
  std::ranges::shuffle(lookups, random);
  return lookups;
}

/// In two parts, the second one first.
void in_two_parts(std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count > count / 2) body(count / 2, count);
  if (count > 1) body(0, count / 2);
}

/// Two ranks, one a step ahead, hand rows to lookups and sum their gradients: themselves, or as DistRows does
/// it on the way. Returns what each lookup has read, and all rows afterwards.
std::vector<float> learn_by_lookups(const std::function<std::unique_ptr<DistRows>(std::int64_t rank)>& open,
                                    bool on_the_way) {
  constexpr std::int64_t kRanks = 2;
  std::vector<std::vector<float>> seen(kRanks);
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const std::unique_ptr<DistRows> rows = open(rank);
      for (std::int64_t step = 0; step < testing::kSteps; ++step) {
        for (auto ahead = static_cast<std::int64_t>(rows->steps_looked_at()); ahead <= rank; ++ahead)
          rows->look(RowGroups(lookups_of(rank, step + ahead)).rows());
        const RowGroups groups(lookups_of(rank, step));
        std::vector<float> read(groups.num_lookups() * kLearnedWidth),
            values(rows->ids().size() * kLearnedWidth);
        if (on_the_way) {
          rows->read(groups, read.data(), in_two_parts);
        } else {
          rows->read(values.data());
          for (std::size_t row = 0; row < groups.rows().size(); ++row)
            for (const std::uint32_t lookup : groups.lookups(row))
              std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * kLearnedWidth), kLearnedWidth,
                          read.begin() + static_cast<std::ptrdiff_t>(lookup * kLearnedWidth));
        }
        seen[static_cast<std::size_t>(rank)].insert(seen[static_cast<std::size_t>(rank)].end(), read.begin(),
                                                    read.end());
        const std::vector<float> gradients = testing::gradients_of(rank, step, read);
        groups.sum(gradients.data(), kLearnedWidth, values.data(), serial_for);
        if (on_the_way)
          rows->step(groups, gradients.data(), in_two_parts);
        else
          rows->step({groups.rows(), values.data()});
      }
      std::vector<float> all(kLearningNodes * kLearnedWidth);
      rows->pull(all_nodes(), all.data());
      seen[static_cast<std::size_t>(rank)].insert(seen[static_cast<std::size_t>(rank)].end(), all.begin(),
                                                  all.end());
    });
  for (std::thread& thread : threads) thread.join();
  seen[0].insert(seen[0].end(), seen[1].begin(), seen[1].end());
  return seen[0];
}

TEST_F(StateClient, LookupsThatAreHandedTheirRowsAndSummedOnTheWay_HaveTheBitsOfThoseDoneByHand) {
  std::uint64_t connection = 0;
  std::vector<std::vector<float>> results;
  for (const bool on_the_way : {false, true}) {
    const TableSpec spec = rows_spec(on_the_way ? "on_the_way" : "by_hand");
    std::mutex mutex;
    results.push_back(learn_by_lookups(
        [&](std::int64_t rank) {
          const std::lock_guard lock(mutex);
          return std::make_unique<DistRows>(network(++connection), meta(), spec,
                                            RankOfRun{.run = 9, .rank = rank, .ranks = 2});
        },
        on_the_way));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(StateClient, LookupsOfOtherRowsThanAStepHasLookedAtAreRefused) {
  DistRows rows(network(1), meta(), rows_spec(), {.run = 5});
  rows.look({1, 140});
  std::vector<float> values(3 * kLearnedWidth);
  const std::vector<std::int64_t> others{140, 2, 140}, looked{140, 1, 140};
  expect_in(refusal([&] { rows.read(RowGroups(others), values.data()); }),
            "step 0 of table 'user' is read for lookups of other rows than it has looked at");
  rows.read(RowGroups(looked), values.data());
  std::vector<float> wrong(3 * kLearnedWidth);
  wrong[0] = INFINITY;
  expect_in(refusal([&] { rows.step(RowGroups(looked), wrong.data()); }),
            "a gradient of node 140 (dataset id) has NaN or infinity in step 0 of table 'user'");
  EXPECT_EQ(rows.next_step(), 0);
}

TEST_F(StateClient, WritersOnThreadsAreDoneExactlyOnce) {
  constexpr std::int64_t kWriters = 4, kTimes = 50;
  const std::vector<std::int64_t> all = all_nodes();
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < kWriters; ++writer)
    threads.emplace_back([&, writer] {
      DistTensor tensor(network(writer), meta(), tensor_spec());
      std::vector<std::int64_t> ones(all.size() * 2, 1);
      for (std::int64_t i = 0; i < kTimes; ++i) tensor.add(all, std::as_bytes(std::span(ones)));
    });
  for (std::thread& thread : threads) thread.join();
  DistTensor tensor(network(77), meta(), tensor_spec());
  std::vector<std::int64_t> values(all.size() * 2);
  tensor.pull(all, reinterpret_cast<std::byte*>(values.data()));
  EXPECT_EQ(values, std::vector<std::int64_t>(values.size(), kWriters * kTimes));
}

TEST_F(StateClient, RowsThatOnePutsAnotherReads_InAnyOrderOfIds) {
  DistTensor one(network(1), meta(), tensor_spec()), other(network(2), meta(), tensor_spec());
  EXPECT_EQ(one.rows(), kLearningNodes);
  const std::vector<std::int64_t> ids{140, 3, 70, 3}, values{1, 2, 3, 4, 5, 6, 7, 8}, back{3, 140, 70, 0};
  one.push(ids, std::as_bytes(std::span(values)));
  std::vector<std::int64_t> got(8);
  other.pull(back, reinterpret_cast<std::byte*>(got.data()));
  EXPECT_EQ(got, (std::vector<std::int64_t>{7, 8, 1, 2, 5, 6, 0, 0}));
}

TEST_F(StateClient, ATableThatIsThereIsTheSameOrRefusedByWhatDiffers) {
  DistTensor tensor(network(1), meta(), tensor_spec());
  expect_in(refusal([&] { DistTensor(network(2), meta(), tensor_spec(ElementType::kFloat32)); }),
            R"(table 'counts' is there, and another one: dtype "int64" there and "float32" here)");
  TableSpec wide = tensor_spec();
  wide.width = 3;
  expect_in(refusal([&] { DistTensor(network(2), meta(), wide); }), "width 2 there and 3 here");
  TableSpec rows = rows_spec("counts");
  expect_in(refusal([&] { DistRows(network(2), meta(), rows, {.run = 1}); }), "kind");
  expect_in(refusal([&] { DistTensor(network(2), meta(), rows_spec()); }), "learned step by step");
  expect_in(refusal([&] { DistRows(network(2), meta(), tensor_spec(), {.run = 1}); }),
            "written, and not learned");
  DatasetMeta other = meta();
  other.fingerprint = std::string(64, '0');
  expect_in(refusal([&] { DistTensor(network(2), other, tensor_spec()); }), "of another dataset than");
  expect_in(refusal([&] {
              const std::vector<std::int64_t> ids{kLearningNodes}, row{1, 2};
              tensor.push(ids, std::as_bytes(std::span(row)));
            }),
            "node 150 (dataset id) has no row in table 'counts' of 150 rows");
  expect_in(refusal([&] {
              const std::vector<std::int64_t> ids{1}, row{1};
              tensor.push(ids, std::as_bytes(std::span(row)));
            }),
            "8 bytes are given for 1 rows of 16 bytes");
}

TEST_F(StateClient, AnotherRunIsRefusedUntilNobodyOfTheFirstIsConnected) {
  auto rows = std::make_unique<DistRows>(network(1), meta(), rows_spec(), RankOfRun{.run = 5});
  rows->look({1, 2});
  std::vector<float> values(2 * kLearnedWidth, 1);
  rows->read(values.data());
  rows->step({rows->ids(), values.data()});
  const auto open = [&] { DistRows(network(2), meta(), rows_spec(), {.run = 6}); };
  expect_in(refusal(open), "table 'user' is learned by another run (0000000000000005)");
  disconnect(1);
  expect_in(refusal(open), "learned by another run");  // it may come back within some seconds
  let_pass(6s);
  rows->look({1});
  std::vector<float> again(kLearnedWidth);
  rows->read(again.data());  // and it has
  expect_in(refusal(open), "learned by another run");
  disconnect(1);
  let_pass(6s);
  EXPECT_EQ(refusal(open), "accepted");
}

TEST_F(StateClient, ARunWithoutANumberIsRefused) {
  expect_in(refusal([&] { DistRows(network(1), meta(), rows_spec(), {}); }), "a run of number 0");
}

TEST_F(StateClient, ALaterAttemptBeginsAnew_AndWhatComesOfTheEarlierChangesNothing) {
  DistRows first(network(1), meta(), rows_spec(), {.run = 5, .attempt = 0});
  first.look({1, 2});
  std::vector<float> values(2 * kLearnedWidth);
  first.read(values.data());
  first.step({first.ids(), values.data()});
  DistRows second(network(2), meta(), rows_spec(), {.run = 5, .attempt = 1});
  EXPECT_EQ(second.next_step(), 0);
  expect_in(refusal([&] {
              for (int i = 0; i < 3; ++i) first.look({}), first.step({{}, nullptr});
            }),
            "begun anew by another run or attempt");
  expect_in(refusal([&] { DistRows(network(3), meta(), rows_spec(), {.run = 5, .attempt = 0}); }),
            "learned by attempt 1 of the run, and this is attempt 0");
  expect_in(refusal([&] { DistRows(network(3), meta(), rows_spec(), {.run = 5, .attempt = 1, .ranks = 2}); }),
            "learned by 1 ranks, and this one says 2");
  second.look({1, 2});
  std::vector<float> again(2 * kLearnedWidth);
  second.read(again.data());
  EXPECT_EQ(again, values) << "as before the first attempt's step";
}

TEST_F(StateClient, AnOwnerThatWasStartedAgainSaysThatStateIsGone) {
  DistTensor tensor(network(1), meta(), tensor_spec());
  owners_[1]->start_again();
  std::vector<std::int64_t> values(kLearningNodes * 2);
  expect_in(refusal([&] { tensor.pull(all_nodes(), reinterpret_cast<std::byte*>(values.data())); }),
            "was started again, and what it held is gone; go back to a checkpoint");
}

TEST_F(StateClient, OwnersThatHaveAppliedDifferentStepsSayThatStateIsGone) {
  DistRows rows(network(1), meta(), rows_spec(), {.run = 5});
  rows.step({});
  std::vector<float> values(kLearningNodes * kLearnedWidth);
  rows.pull(all_nodes(), values.data());  // both have applied it
  owners_[1]->start_again();              // before another rank opens the table
  try {
    const DistRows late(network(2), meta(), rows_spec(), {.run = 5});
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kStateLost);
    expect_in(error.what(), "owners of table 'user' have applied 1 and 0 steps; go back to a checkpoint");
  }
}

TEST_F(StateClient, ARankThatLeavesIsNamedToThoseWhoWait) {
  const auto rank = [](std::int64_t number) { return RankOfRun{.run = 5, .rank = number, .ranks = 2}; };
  DistRows stays(network(1), meta(), rows_spec(), rank(0));
  {
    DistRows leaves(network(2), meta(), rows_spec(), rank(1));
    leaves.look({});
  }
  stays.look({1}), stays.look({1});
  std::vector<float> values(kLearnedWidth);
  stays.read(values.data());
  stays.step({stays.ids(), values.data()});
  for (const auto& owner : owners_) owner->post([&owner = *owner] { owner.owner().tick(); });
  expect_in(refusal([&] { stays.read(values.data()); }), "rank 1 has left before step 0 of table 'user'");
}

TEST_F(StateClient, AGradientThatIsNoNumberIsRefusedBeforeItsStepIsBrought) {
  DistRows rows(network(1), meta(), rows_spec(), {.run = 5});
  rows.look({1, 140});
  std::vector<float> values(2 * kLearnedWidth);
  rows.read(values.data());
  std::vector<float> wrong(2 * kLearnedWidth);
  for (const float number : {std::nanf(""), INFINITY}) {
    wrong.back() = number;
    expect_in(refusal([&] {
                rows.step({rows.ids(), wrong.data()});
              }),
              "a gradient of node 140 (dataset id) has NaN or infinity in step 0 of table 'user'");
  }
  rows.step({});
  EXPECT_EQ(rows.next_step(), 1);
  std::vector<float> after(2 * kLearnedWidth);
  rows.pull(std::vector<std::int64_t>{1, 140}, after.data());
  EXPECT_EQ(after, values);
}

TEST_F(StateClient, ATableThatMayNotFitIsRefusedBeforeAnythingIsWritten) {
  owners_.clear();
  owners_.push_back(std::make_unique<OwnerThread>(graph_->open({0, 2}), 1));
  const auto rows = static_cast<std::size_t>(OwnedRows(*graph_->open({1}), 0).count());
  // 5 numbers a row and two of sparse_adam beside each, and 4 bytes of index.
  owners_.push_back(std::make_unique<OwnerThread>(graph_->open({1}), 2, "", rows * (5 * 3 * 4 + 4)));
  const auto opened = [&](const TableSpec& spec, std::uint64_t connection, std::uint64_t run = 5) {
    return refusal([&] { DistRows(network(connection), meta(), spec, {.run = run}); });
  };
  EXPECT_EQ(opened(rows_spec("user"), 1), "accepted");
  expect_in(opened(rows_spec("other"), 2), "table 'other' takes up to");
  expect_in(opened(rows_spec("other"), 2), "start it with more --state-memory");
  EXPECT_EQ(opened(rows_spec("user"), 3), "accepted") << "that it is there takes nothing more";
  TableSpec wide = rows_spec("user");
  wide.width = 6;
  for (const auto& owner : owners_) owner->start_again();
  expect_in(opened(wide, 5, 6), "table 'user' takes up to");
}

TEST_F(StateClient, BytesThatAreNoQuestionAreRefused) {
  for (const std::size_t size : {0, 8, 63, 64, 200}) {
    std::string error;
    owners_[0]->owner().answer(1, std::make_shared<RecycledBytes>(size, std::byte{7}),
                               [&](StateReply reply) { error = std::get<Error>(reply).what(); });
    expect_in(error, "a question about state");
  }
  StateHead head{.ask = StateAsk::kPull, .rows = UINT64_MAX / 8};
  RecycledBytes bytes(sizeof head);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::string error;
  owners_[0]->owner().answer(1, std::make_shared<RecycledBytes>(bytes),
                             [&](StateReply reply) { error = std::get<Error>(reply).what(); });
  expect_in(error, "ends early");
  const auto opening = [&](const std::string& text) {
    owners_[0]->owner().answer(1, std::make_shared<RecycledBytes>(write_opening({}, text)),
                               [&](StateReply reply) { error = std::get<Error>(reply).what(); });
    return error;
  };
  expect_in(opening(""), "the question that opens a table is no JSON object");
  expect_in(opening("[]"), "the question that opens a table is no JSON object");
  expect_in(opening("{\"tables\":{}}"), "tables");
  expect_in(opening("{}"), "table");
  expect_in(opening("{\"table\":{}}"), "name");
  expect_in(opening(std::string(2 << 20, ' ')), "at most 1048576 are taken");
}

}  // namespace
}  // namespace hopfeed
