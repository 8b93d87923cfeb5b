// The deal of seeds to ranks: hand-written cases and the rules over every small combination.
#include "core/batch/deal.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"

namespace hopfeed {
namespace {

// Counts of all batches in order of position.
std::vector<std::int64_t> counts(const DealOptions& options, std::int64_t seeds, std::int64_t start = 0) {
  const Deal deal(options, seeds, start);
  std::vector<std::int64_t> out;
  std::int64_t position = start;
  for (std::int64_t step = 0; step < deal.steps(); ++step) {
    EXPECT_EQ(deal.position_after(step), position);
    for (std::int64_t rank = 0; rank < options.world_size; ++rank) {
      const Deal::Range batch = deal.batch(step, rank);
      EXPECT_EQ(batch.first, position);
      position += batch.count;
      out.push_back(batch.count);
    }
  }
  EXPECT_EQ(deal.position_after(deal.steps()), position);
  return out;
}

using Counts = std::vector<std::int64_t>;

TEST(Deal, FullRoundsAreFull) {
  EXPECT_EQ(counts({.batch_size = 3, .world_size = 2}, 12), (Counts{3, 3, 3, 3}));
}
TEST(Deal, TheLastRoundIsSpreadWithTheLargerBatchesFirst) {
  EXPECT_EQ(counts({.batch_size = 3, .world_size = 2}, 11), (Counts{3, 3, 3, 2}));
}
TEST(Deal, OneSeedFewerThanARoundIsSpreadToo) {
  EXPECT_EQ(counts({.batch_size = 3, .world_size = 2}, 9), (Counts{3, 3, 2, 1}));
}
TEST(Deal, FewerSeedsThanRanksShareTheLastTwoRounds) {
  EXPECT_EQ(counts({.batch_size = 4, .world_size = 3}, 13), (Counts{3, 2, 2, 2, 2, 2}));
}
TEST(Deal, DropLastDropsTheIncompleteRound) {
  EXPECT_EQ(counts({.batch_size = 4, .world_size = 3, .drop_last = true}, 13), (Counts{4, 4, 4}));
}
TEST(Deal, ALonelyRankTakesTheRestAsItIs) {
  EXPECT_EQ(counts({.batch_size = 4, .world_size = 1}, 10), (Counts{4, 4, 2}));
}
// cuGraph's case: five nodes in batches of two.
TEST(Deal, FiveSeedsInTwosAreThreeBatchesOrTwoWithDropLast) {
  EXPECT_EQ(counts({.batch_size = 2}, 5), (Counts{2, 2, 1}));
  EXPECT_EQ(counts({.batch_size = 2, .drop_last = true}, 5), (Counts{2, 2}));
}
TEST(Deal, AFinishedEpochHasNoSteps) {
  EXPECT_EQ(counts({.batch_size = 4, .world_size = 2}, 10, 10), Counts{});
}

TEST(Deal, ABatchThatWouldBeEmptyIsRefused) {
  EXPECT_THROW(Deal({.batch_size = 8, .world_size = 3}, 2), Error);  // fewer seeds than ranks
  EXPECT_THROW(Deal({.batch_size = 1, .world_size = 3}, 5),
               Error);  // 5 seeds in two rounds of three
  EXPECT_NO_THROW(Deal({.batch_size = 1, .world_size = 3, .drop_last = true}, 5));
  EXPECT_NO_THROW(Deal({.batch_size = 1, .world_size = 3}, 6));
}

std::string refusal(const DealOptions& options, std::int64_t num_seeds, std::int64_t start = 0) {
  try {
    const Deal deal(options, num_seeds, start);
    return "not refused";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Deal, FewerSeedsThanRanks_AdviceIsWhatHelps) {
  const std::string few = refusal({.batch_size = 8, .world_size = 3}, 2);
  EXPECT_NE(few.find("use at most as many trainers as seeds"), std::string::npos) << few;
  EXPECT_EQ(few.find("drop_last"), std::string::npos) << "it would leave no batch: " << few;
  EXPECT_EQ(few.find("batch size"), std::string::npos) << "it changes nothing: " << few;
  const std::string resumed = refusal({.batch_size = 1, .world_size = 3}, 8, 6);
  EXPECT_NE(resumed.find("or drop_last, which leaves these out"), std::string::npos) << resumed;
  const std::string empty = refusal({.batch_size = 1, .world_size = 3}, 5);
  EXPECT_NE(empty.find("a larger batch size or drop_last"), std::string::npos) << empty;
}

TEST(Deal, OptionsOutOfRangeAreRefused) {
  EXPECT_THROW(Deal({.batch_size = 0}, 5), Error);
  EXPECT_THROW(Deal({.world_size = 0}, 5), Error);
  EXPECT_THROW(Deal({}, 5, 6), Error);
  EXPECT_THROW(Deal({}, 5, -1), Error);
  EXPECT_THROW(Deal({}, 5).batch(1, 0), Error);
}

TEST(Deal, EverySmallEpochIsCoveredOnceInBatchesThatDifferByOne) {
  for (std::int64_t seeds = 1; seeds <= 40; ++seeds) {
    for (std::int64_t world = 1; world <= 5; ++world) {
      for (std::int64_t batch = 1; batch <= 9; ++batch) {
        for (std::int64_t start : {std::int64_t{0}, seeds / 3, seeds - 1}) {
          const DealOptions options{.batch_size = batch, .world_size = world};
          Counts all;
          try {
            all = counts(options, seeds, start);
          } catch (const Error&) {
            const std::int64_t left = seeds - start;
            EXPECT_TRUE(left < world || batch == 1)
                << "refused " << left << " seeds, " << world << " ranks, batch " << batch;
            continue;
          }
          std::int64_t sum = 0;
          for (std::size_t i = 0; i < all.size(); ++i) {
            sum += all[i];
            EXPECT_GE(all[i], 1);
            EXPECT_LE(all[i], batch);
            if (i > 0) {
              EXPECT_LE(all[i], all[i - 1]);  // full ones first, then the larger of the spread ones
            }
          }
          EXPECT_EQ(sum, seeds - start);
          EXPECT_EQ(all.size() % static_cast<std::size_t>(world), 0u);
        }
      }
    }
  }
}

TEST(Deal, AResumedRunWithTheSameRanksKeepsTheFullBatches) {
  const Deal whole({.batch_size = 30, .world_size = 2}, 1000);
  const Deal resumed({.batch_size = 30, .world_size = 2}, 1000, whole.position_after(5));
  EXPECT_EQ(resumed.steps(), whole.steps() - 5);
  for (std::int64_t step = 0; step < resumed.steps(); ++step) {
    EXPECT_EQ(resumed.batch(step, 1).first, whole.batch(step + 5, 1).first);
    EXPECT_EQ(resumed.batch(step, 1).count, whole.batch(step + 5, 1).count);
  }
}

TEST(Deal, ARunResumedWithOtherNumbersOfRanks_SeesEachPositionOnce) {
  for (std::int64_t seeds = 1; seeds <= 130; ++seeds) {
    for (std::int64_t batch : {4, 7}) {
      // Two trainers, three, two again: each run is left after some rounds, the last one goes to the end.
      for (std::int64_t rounds : {0, 1, 2}) {
        std::vector<int> seen(static_cast<std::size_t>(seeds));
        std::int64_t start = 0;
        for (const bool last : {false, false, true}) {
          const std::int64_t world = !last && start > 0 ? 3 : 2;
          if (seeds - start < world && start < seeds) break;  // refused; another test has it
          const Deal deal({.batch_size = batch, .world_size = world}, seeds, start);
          const std::int64_t steps = last ? deal.steps() : std::min(rounds, deal.steps());
          for (std::int64_t step = 0; step < steps; ++step) {
            for (std::int64_t rank = 0; rank < world; ++rank) {
              const Deal::Range range = deal.batch(step, rank);
              for (std::int64_t i = 0; i < range.count; ++i)
                ++seen[static_cast<std::size_t>(range.first + i)];
            }
          }
          start = deal.position_after(steps);
        }
        for (std::int64_t position = 0; position < seeds; ++position)
          ASSERT_EQ(seen[static_cast<std::size_t>(position)], position < start ? 1 : 0)
              << seeds << " seeds, batches of " << batch << ", " << rounds << " rounds, position "
              << position;
      }
    }
  }
}

}  // namespace
}  // namespace hopfeed
