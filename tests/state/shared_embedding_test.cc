// A table that ranks learn over two owners, against the same table whole: whatever the order in which
// messages come, and however often, every rank reads what the steps before have made of each row, to the last
// bit.
#include "state/owner/shared_embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "tests/state/owners_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using testing::CutGraph;
using testing::expect_in;
using testing::refusal;
using testing::Reply;

constexpr std::int64_t kNodes = 120, kWidth = 6;

TableSpec spec_of(RowOptimizer optimizer = RowOptimizer::kSparseAdam) {
  return {.name = "user",
          .node_type = "node",
          .kind = TableSpec::Kind::kEmbedding,
          .width = kWidth,
          .first_values = TableSpec::FirstValues::kUniform,
          .seed = 4,
          .optimizer = {.optimizer = optimizer, .lr = 0.05}};
}

std::shared_ptr<const RecycledBytes> step_message(const std::vector<std::int64_t>& ids,
                                                  const std::vector<float>& sums) {
  const std::size_t bytes = sums.size() * sizeof(float);
  return std::make_shared<RecycledBytes>(write_state_question(
      {.ask = StateAsk::kStep}, ids, bytes, [&](std::byte* out) { std::memcpy(out, sums.data(), bytes); }));
}

/// Two owners: one has partition 0, one has 1 and 2.
struct Owners {
  explicit Owners(const CutGraph& graph, std::int64_t ranks,
                  RowOptimizer optimizer = RowOptimizer::kSparseAdam, int threads = 1,
                  std::chrono::milliseconds timeout = 300s) {
    for (std::vector<int> partitions : {std::vector{0}, std::vector{1, 2}}) {
      datasets.push_back(graph.open(std::move(partitions)));
      rows.push_back(std::make_unique<OwnedRows>(*datasets.back(), 0));
      tables.push_back(std::make_unique<SharedEmbedding>(
          spec_of(optimizer), *rows.back(), RanksOfRun{.ranks = ranks, .timeout = timeout}, threads));
    }
  }
  /// Those of these rows, ascending, that lie at an owner.
  std::vector<std::int64_t> at(std::size_t owner, const std::vector<std::int64_t>& ids) const {
    std::vector<std::int64_t> mine;
    for (const std::int64_t id : ids)
      if (rows[owner]->row_of(id) >= 0) mine.push_back(id);
    return mine;
  }
  std::vector<std::unique_ptr<Dataset>> datasets;
  std::vector<std::unique_ptr<OwnedRows>> rows;
  std::vector<std::unique_ptr<SharedEmbedding>> tables;
};

/// What each rank reads in each step, and what it learns: a function of the rows that it has read.
struct Training {
  std::int64_t ranks, steps;
  std::vector<std::vector<std::vector<std::int64_t>>> ids;  // [step][rank], dataset ids, ascending

  Training(std::mt19937_64& random, std::int64_t num_ranks, std::int64_t num_steps)
      : ranks(num_ranks), steps(num_steps), ids(static_cast<std::size_t>(num_steps)) {
    for (auto& step : ids) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        std::set<std::int64_t> read;
        if (random() % 5 != 0)  // else none
          for (int i = 0; i < 15; ++i) read.insert(static_cast<std::int64_t>(random() % kNodes));
        step.emplace_back(read.begin(), read.end());
      }
    }
  }
  const std::vector<std::int64_t>& of(std::int64_t step, std::int64_t rank) const {
    return ids[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)];
  }
  /// Every third row that it has read it does not learn of.
  static std::vector<std::int64_t> learned(const std::vector<std::int64_t>& read) {
    std::vector<std::int64_t> some;
    for (const std::int64_t id : read)
      if (id % 3 != 0) some.push_back(id);
    return some;
  }
  static void gradient(std::int64_t rank, std::int64_t step, const float* value, float* out) {
    for (std::int64_t f = 0; f < kWidth; ++f)
      out[f] = 0.3F * value[f] + static_cast<float>(rank + 1) / static_cast<float>(step + f + 2);
  }
};

/// The whole table, by original ids, and the dataset that maps them.
class Whole {
 public:
  Whole(const Dataset& dataset, RowOptimizer optimizer)
      : dataset_(dataset),
        table_({.rows = kNodes,
                .width = kWidth,
                .seed = spec_of().seed,
                .optimizer = spec_of(optimizer).optimizer},
               [&dataset](std::int64_t row) { return dataset.original_id(0, row); }) {}
  std::vector<float> row(std::int64_t id) const {
    std::vector<float> values(kWidth);
    table_.read({&id, 1}, values.data());
    return values;
  }
  void step(const Training& run, std::int64_t step) {
    std::vector<std::vector<std::int64_t>> rows;
    std::vector<std::vector<float>> sums;
    std::vector<RowSums> by_rank;
    for (std::int64_t rank = 0; rank < run.ranks; ++rank) {
      rows.push_back(Training::learned(run.of(step, rank)));
      std::vector<float>& mine = sums.emplace_back(rows.back().size() * kWidth);
      for (std::size_t i = 0; i < rows.back().size(); ++i)
        Training::gradient(rank, step, row(rows.back()[i]).data(), mine.data() + i * kWidth);
    }
    for (std::size_t rank = 0; rank < rows.size(); ++rank) by_rank.push_back({rows[rank], sums[rank].data()});
    table_.step(by_rank, run.ranks);
  }
  const LearnedTable& table() const { return table_; }

 private:
  const Dataset& dataset_;
  LearnedTable table_;
};

/// One rank against both owners: it looks up to `ahead` steps ahead, and brings a step once it has its rows.
class Rank {
 public:
  Rank(Owners& owners, const Training& run, std::int64_t rank, std::int64_t ahead)
      : owners_(owners), run_(run), rank_(rank), ahead_(ahead) {}
  bool done() const { return brought_ == run_.steps; }

  /// Does what it can do next; `again`: says something for the second time.
  void act(bool again) {
    if (again && !looks_.empty()) {
      const auto some = std::next(looks_.begin(), static_cast<std::ptrdiff_t>(looks_.size() / 2));
      look(some->first, /*owner=*/some->first % 2 == 0 ? 0 : 1);
      rest(some->first, /*owner=*/connection_ % 2);
    }
    if (looked_ < run_.steps && looked_ <= brought_ + ahead_) {
      for (std::size_t owner = 0; owner < 2; ++owner) look(looked_, owner);
      for (std::size_t owner = 0; owner < 2; ++owner) rest(looked_, owner);
      ++looked_;
    }
    if (brought_ < looked_ && take_rows()) bring(again);
  }
  /// What it has read: per step and row.
  const std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>>& read() const { return read_; }
  std::int64_t early() const { return early_; }

 private:
  struct Asked {
    Reply look, rest;
  };
  const std::vector<std::int64_t>& ids(std::int64_t step) const { return run_.of(step, rank_); }
  SharedEmbedding::Asker asker() { return {.rank = rank_, .client = 7, .connection = ++connection_}; }
  /// What has been answered is asked for once more, and that answer gets lost.
  void look(std::int64_t step, std::size_t owner) {
    Reply unused, &reply = looks_[step][owner].look;
    if (!reply.came()) reply = Reply();
    owners_.tables[owner]->look(asker(), step, owners_.at(owner, ids(step)),
                                reply.came() ? unused.done() : reply.done());
  }
  void rest(std::int64_t step, std::size_t owner) {
    Reply unused, &reply = looks_[step][owner].rest;
    if (!reply.came()) reply = Reply();
    owners_.tables[owner]->rest(asker(), step, reply.came() ? unused.done() : reply.done());
  }
  /// Whether all rows of the next step have come.
  bool take_rows() {
    std::array<Asked, 2>& asked = looks_[brought_];
    for (const Asked& one : asked)
      if (!one.look.came() || !one.rest.came()) return false;
    for (std::size_t owner = 0; owner < 2; ++owner) {
      const std::vector<std::int64_t> mine = owners_.at(owner, ids(brought_));
      const Looked looked = read_look(asked[owner].look.answer(), mine.size(), kWidth);
      std::size_t settled = 0, later = 0;
      const std::size_t num_later = mine.size() - looked.settled.size() / kWidth;
      if (num_later > 0) early_ += static_cast<std::int64_t>(looked.settled.size() / kWidth);
      const std::span<const std::byte> rest =
          read_rows(asked[owner].rest.answer(), num_later, kWidth * sizeof(float));
      for (std::size_t i = 0; i < mine.size(); ++i) {
        std::vector<float>& row = read_[{brought_, mine[i]}];
        row.resize(kWidth);
        const void* const from =
            is_later(looked.later, i)
                ? static_cast<const void*>(rest.data() + later++ * kWidth * sizeof(float))
                : looked.settled.data() + settled++ * kWidth;
        std::memcpy(row.data(), from, kWidth * sizeof(float));
      }
    }
    return true;
  }
  void bring(bool again) {
    const std::vector<std::int64_t> learned = Training::learned(ids(brought_));
    for (std::size_t owner = 0; owner < 2; ++owner) {
      const std::vector<std::int64_t> mine = owners_.at(owner, learned);
      std::vector<float> sums(mine.size() * kWidth);
      for (std::size_t i = 0; i < mine.size(); ++i)
        Training::gradient(rank_, brought_, read_[{brought_, mine[i]}].data(), sums.data() + i * kWidth);
      for (int times = 0; times < (again ? 2 : 1); ++times) {
        const auto message = step_message(mine, sums);
        const StateQuestion question = read_state_question(*message);
        Reply reply;
        owners_.tables[owner]->step({.rank = rank_,
                                     .step = brought_,
                                     .rows_of_all_owners = learned.size(),
                                     .ids = question.ids,
                                     .sums = reinterpret_cast<const float*>(question.rest.data()),
                                     .message = message},
                                    reply.done());
        EXPECT_TRUE(reply.came());
        EXPECT_GE(read_steps_applied(reply.answer()), brought_ - 1);
      }
    }
    looks_.erase(brought_);
    ++brought_;
  }

  Owners& owners_;
  const Training& run_;
  const std::int64_t rank_, ahead_;
  std::int64_t looked_ = 0, brought_ = 0, early_ = 0;
  std::uint64_t connection_ = 0;
  std::map<std::int64_t, std::array<Asked, 2>> looks_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<float>> read_;
};

class SharedEmbeddingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { graph_ = new CutGraph(kNodes); }
  static void TearDownTestSuite() { delete graph_; }
  static inline CutGraph* graph_ = nullptr;

  static void expect_same_rows(const Owners& owners, const Whole& whole) {
    for (std::int64_t id = 0; id < kNodes; ++id) {
      const std::size_t owner = owners.rows[0]->row_of(id) >= 0 ? 0 : 1;
      Reply reply;
      owners.tables[owner]->pull(0, {&id, 1}, reply.done());
      std::vector<float> row(kWidth);
      std::memcpy(row.data(), read_rows(reply.answer(), 1, kWidth * sizeof(float)).data(),
                  kWidth * sizeof(float));
      EXPECT_EQ(row, whole.row(id)) << id;
    }
  }
};

TEST_F(SharedEmbeddingTest, InWhateverOrderMessagesCome_EveryRankReadsTheRowsOfTheWholeTable) {
  std::mt19937_64 random(3);
  std::int64_t early = 0;
  for (const RowOptimizer optimizer : {RowOptimizer::kSparseAdam, RowOptimizer::kRowWiseAdagrad}) {
    for (const std::int64_t ranks : {1, 2, 5}) {
      for (const std::int64_t ahead : {0, 1, 3}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(ahead) + " ahead");
        Owners owners(*graph_, ranks, optimizer, /*threads=*/ahead == 3 ? 2 : 1);
        const Training run(random, ranks, 12);
        std::vector<Rank> all;
        for (std::int64_t rank = 0; rank < ranks; ++rank) all.emplace_back(owners, run, rank, ahead);
        std::int64_t turns = 0;
        while (!std::ranges::all_of(all, [](const Rank& rank) { return rank.done(); })) {
          ASSERT_LT(++turns, 100'000) << "they wait for each other";
          all[random() % all.size()].act(/*again=*/random() % 4 == 0);
        }
        Whole whole(graph_->whole(), optimizer);
        for (std::int64_t step = 0; step < run.steps; ++step) {
          for (std::int64_t rank = 0; rank < ranks; ++rank)
            for (const std::int64_t id : run.of(step, rank))
              EXPECT_EQ(all[static_cast<std::size_t>(rank)].read().at({step, id}), whole.row(id))
                  << "step " << step << ", rank " << rank << ", node " << id;
          whole.step(run, step);
        }
        expect_same_rows(owners, whole);
        for (const auto& table : owners.tables) {
          EXPECT_EQ(table->steps_applied(), run.steps);
          EXPECT_EQ(table->table().count(), whole.table().count());
          EXPECT_EQ(table->held_bytes(), 0U);
        }
        EXPECT_EQ(owners.tables[0]->table().num_learned() + owners.tables[1]->table().num_learned(),
                  whole.table().num_learned());
        for (const Rank& rank : all) early += rank.early();
      }
    }
  }
  EXPECT_GT(early, 100) << "rows that nobody moves came before the step was applied";
}

/// Of one owner, two ranks.
class TwoRanks : public SharedEmbeddingTest {
 protected:
  Owners owners_{*graph_, 2, RowOptimizer::kSgd, 1, 20s};
  SharedEmbedding& table_ = *owners_.tables[1];
  std::vector<std::int64_t> all_ = owners_.at(1, [] {
    std::vector<std::int64_t> ids(kNodes);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }());
  std::vector<std::int64_t> ids(std::size_t first, std::size_t count) const {
    return {all_.begin() + static_cast<std::ptrdiff_t>(first),
            all_.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
  Reply look(std::int64_t rank, std::int64_t step, const std::vector<std::int64_t>& at) {
    Reply reply;
    table_.look({.rank = rank}, step, at, reply.done());
    return reply;
  }
  Reply bring(std::int64_t rank, std::int64_t step, const std::vector<std::int64_t>& at, float value = 1) {
    const std::vector<float> sums(at.size() * kWidth, value);
    const auto message = step_message(at, sums);
    const StateQuestion question = read_state_question(*message);
    Reply reply;
    table_.step({.rank = rank,
                 .step = step,
                 .rows_of_all_owners = at.size(),
                 .ids = question.ids,
                 .sums = reinterpret_cast<const float*>(question.rest.data()),
                 .message = message},
                reply.done());
    return reply;
  }
};

TEST_F(TwoRanks, RowsThatNobodyMovesComeAtOnce_TheOthersOnceTheStepIsApplied) {
  EXPECT_TRUE(look(0, 0, ids(0, 4)).came());
  Reply ahead = look(0, 1, ids(2, 4)), rest;
  EXPECT_FALSE(ahead.came()) << "rank 1 may move any row";
  table_.rest({}, 1, rest.done());
  EXPECT_TRUE(look(1, 0, ids(3, 2)).came());
  ASSERT_TRUE(ahead.came());
  const Looked looked = read_look(ahead.answer(), 4, kWidth);
  EXPECT_EQ(looked.settled.size(), std::size_t{1 * kWidth});  // of rows 2, 3, 4, 5 only 5
  EXPECT_TRUE(is_later(looked.later, 0) && is_later(looked.later, 2) && !is_later(looked.later, 3));
  bring(0, 0, ids(0, 4));
  EXPECT_FALSE(rest.came());
  bring(1, 0, ids(3, 2));
  EXPECT_NO_THROW(read_rows(rest.answer(), 3, kWidth * sizeof(float)));
}

TEST_F(TwoRanks, AnEvaluationsPullWaitsForItsStep) {
  Reply now, later;
  table_.pull(0, all_, now.done());
  table_.pull(1, all_, later.done());
  EXPECT_TRUE(now.came());
  for (std::int64_t rank : {0, 1}) look(rank, 0, ids(0, 1)), bring(rank, 0, ids(0, 1));
  EXPECT_TRUE(later.came());
}

TEST_F(TwoRanks, ARankThatIsLateIsNamedWithItsStep_AndSoIsOneThatHasLeft) {
  look(0, 0, ids(0, 2)), look(1, 0, ids(0, 2));
  bring(0, 0, ids(0, 2));
  Reply ahead = look(0, 1, ids(0, 2)), rest, pull;
  table_.rest({}, 1, rest.done());
  table_.pull(1, ids(0, 1), pull.done());
  table_.tick(SharedEmbedding::Clock::now());
  EXPECT_FALSE(rest.came());
  table_.tick(SharedEmbedding::Clock::now() + 21s);
  expect_in(rest.error(), "rank 1 has not brought step 0 of table 'user' within 20.0 s");
  expect_in(pull.error(), "rank 1 has not brought step 0");
  Reply again;
  table_.rest({}, 1, again.done());
  table_.leave(1);
  expect_in(again.error(), "rank 1 has left before step 0 of table 'user'");
}

TEST_F(TwoRanks, AMessageThatComesTwiceIsDoneOnce) {
  Whole whole(graph_->whole(), RowOptimizer::kSgd);
  for (int times = 0; times < 3; ++times) EXPECT_TRUE(look(0, 0, ids(0, 3)).came());
  look(1, 0, {});
  bring(0, 0, ids(0, 3)), bring(0, 0, ids(0, 3), 100);
  EXPECT_EQ(read_steps_applied(bring(1, 0, {}).answer()), 0);
  bring(0, 0, ids(0, 3), 100), bring(1, 0, {});
  EXPECT_EQ(table_.steps_applied(), 1);
  Reply pull;
  table_.pull(1, ids(0, 1), pull.done());
  float first = 0;
  std::memcpy(&first, read_rows(pull.answer(), 1, kWidth * sizeof(float)).data(), sizeof first);
  EXPECT_EQ(first, whole.row(ids(0, 1)[0])[0] - 0.05F * 0.5F);  // lr, and the average over two ranks
}

TEST_F(TwoRanks, AQuestionOfAnOlderConnectionTakesNobodysAnswer) {
  look(0, 0, ids(0, 1));
  Reply later, older;
  table_.look({.client = 1, .connection = 9}, 1, ids(0, 1), later.done());
  table_.look({.client = 1, .connection = 8}, 1, ids(0, 1), older.done());
  EXPECT_EQ(older.error(), "asked again");
  look(1, 0, {});
  EXPECT_TRUE(later.came());
  expect_in(refusal([&] { table_.look({.rank = 0, .client = 3}, 1, ids(0, 1), older.done()); }),
            "rank 0 of table 'user' is another process already");
}

TEST_F(TwoRanks, ARankThatHasLeftMayComeBack) {
  look(1, 0, {});
  table_.leave(1);
  Reply pull;
  table_.pull(1, ids(0, 1), pull.done());
  table_.look({.rank = 1, .client = 4}, 0, {}, Reply().done());
  table_.tick(SharedEmbedding::Clock::now());
  EXPECT_FALSE(pull.came());
}

TEST_F(TwoRanks, WhatCannotBeIsOneLineThatNamesIt_AndChangesNothing) {
  const std::int64_t elsewhere = owners_.rows[0]->dataset_id(0);
  expect_in(refusal([&] { look(2, 0, {}); }), "has ranks 0 to 1");
  expect_in(refusal([&] { look(0, 0, {elsewhere}); }), "is not in a partition of this owner");
  expect_in(refusal([&] { look(0, 0, {kNodes}); }), "is not in a partition of this owner");
  expect_in(refusal([&] { look(0, 0, {-1}); }), "is not in a partition of this owner");
  expect_in(refusal([&] { look(0, 0, {all_[1], all_[0]}); }), "twice, or out of order");
  expect_in(refusal([&] { look(0, 100, {}); }), "more than 64 ahead");
  Reply far;
  expect_in(refusal([&] { table_.pull(100, {}, far.done()); }), "more than 64 ahead");
  expect_in(refusal([&] { bring(0, 0, {}); }), "at which it has not looked");
  Reply unasked;
  expect_in(refusal([&] { table_.rest({}, 0, unasked.done()); }), "at which it has not looked");
  look(0, 0, ids(0, 3));
  expect_in(refusal([&] { look(0, 0, ids(0, 2)); }), "twice, at other rows");
  expect_in(refusal([&] { bring(0, 0, ids(2, 2)); }), "rows of step 0 of table 'user' that it has not read");
  expect_in(refusal([&] { bring(0, 2, {}); }), "0 steps have been applied");
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_in(refusal([&] { bring(0, 0, ids(0, 3), bad); }),
              "NaN or infinity in step 0 of table 'user', of node");
  EXPECT_EQ(table_.held_bytes(), 0U);
  look(1, 0, ids(0, 3));
  for (std::int64_t rank : {0, 1}) bring(rank, 0, ids(0, 3));
  EXPECT_EQ(table_.steps_applied(), 1);
  expect_in(refusal([&] { look(0, 0, ids(0, 3)); }), "1 steps have been applied");
}

TEST_F(TwoRanks, WhoGoesBackToACheckpointTellsThoseWhoWait_AndForgetsWhatWasHeld) {
  look(0, 0, ids(0, 2)), look(1, 0, {});
  bring(0, 0, ids(0, 2));
  Reply waits;
  look(0, 1, ids(0, 2));
  table_.rest({}, 1, waits.done());
  EXPECT_GT(table_.held_bytes(), 0U);
  table_.begin_to_restore();
  LearnedTable& table = table_.table_to_restore();
  const std::vector<float> values(kWidth, 7);
  table.restore(0, values);
  table_.restored(5, {});
  expect_in(waits.error(), "goes back to a checkpoint");
  EXPECT_EQ(table_.held_bytes(), 0U);
  EXPECT_EQ(table_.steps_applied(), 5);
  const Reply again = look(0, 5, ids(0, 1));
  EXPECT_EQ(read_look(again.answer(), 1, kWidth).settled[0], 7);
}

}  // namespace
}  // namespace hopfeed
