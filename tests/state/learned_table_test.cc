// Learned tables against serial oracles: formulas in double, sums in their one order to the last bit, and the
// memory that learned rows take.
#include "state/table/learned_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "core/base/error.h"
#include "core/base/parallel_ranges.h"
#include "tests/support/processes.h"
#include "tests/support/sanitized.h"

namespace hopfeed {
namespace {

ParallelFor on_threads(int threads) {
  return [threads](std::int64_t count, const std::function<void(std::int64_t, std::int64_t)>& body) {
    parallel_ranges(threads, count, [&](int, std::int64_t begin, std::int64_t end) {
      if (begin < end) body(begin, end);
    });
  };
}

std::vector<float> all_values(const LearnedTable& table) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(table.options().rows));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> values(rows.size() * static_cast<std::size_t>(table.options().width));
  table.read(rows, values.data());
  return values;
}

/// What a rank learns in a step, and the memory of it.
struct Learned {
  std::vector<std::int64_t> rows;
  std::vector<float> sums;
  operator RowSums() const { return {rows, sums.data()}; }
};

Learned learn(std::span<const std::int64_t> lookups, std::span<const float> gradients, std::int64_t width,
              int threads = 1) {
  const RowGroups groups(lookups);
  Learned learned{.rows = groups.rows(), .sums = {}};
  learned.sums.resize(learned.rows.size() * static_cast<std::size_t>(width));
  groups.sum(gradients.data(), width, learned.sums.data(), on_threads(threads));
  return learned;
}

/// The lookups of a step of several ranks, with repeats.
struct Step {
  std::vector<std::vector<std::int64_t>> lookups;
  std::vector<std::vector<float>> gradients;

  Step(std::mt19937_64& random, int ranks, std::int64_t rows, std::int64_t width, std::size_t count) {
    std::normal_distribution<float> normal;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<std::int64_t>& ids = lookups.emplace_back(rank == 1 ? 0 : count);  // one has none
      for (std::int64_t& id : ids)
        id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rows));
      std::vector<float>& values = gradients.emplace_back(ids.size() * static_cast<std::size_t>(width));
      for (float& value : values) value = normal(random);
    }
  }
  void take(LearnedTable& table, int threads) const {
    std::vector<Learned> learned;
    for (std::size_t rank = 0; rank < lookups.size(); ++rank)
      learned.push_back(learn(lookups[rank], gradients[rank], table.options().width, threads));
    table.step(std::vector<RowSums>(learned.begin(), learned.end()), std::ssize(lookups),
               on_threads(threads));
  }
};

/// Sums as the header says, one addition after the other.
std::map<std::int64_t, std::vector<float>> gradients_of(const Step& step, std::int64_t width) {
  std::map<std::int64_t, std::vector<float>> all;
  for (std::size_t rank = 0; rank < step.lookups.size(); ++rank) {
    std::map<std::int64_t, std::vector<float>> mine;
    for (std::size_t i = 0; i < step.lookups[rank].size(); ++i) {
      const float* gradient = &step.gradients[rank][i * static_cast<std::size_t>(width)];
      const auto [at, first] = mine.try_emplace(step.lookups[rank][i], gradient, gradient + width);
      for (std::size_t f = 0; !first && f < at->second.size(); ++f) at->second[f] += gradient[f];
    }
    for (const auto& [row, sum] : mine) {
      const auto [at, first] = all.try_emplace(row, sum);
      for (std::size_t f = 0; !first && f < sum.size(); ++f) at->second[f] += sum[f];
    }
  }
  for (auto& [row, sum] : all)
    for (float& value : sum) value *= 1 / static_cast<float>(step.lookups.size());
  return all;
}

/// An optimizer in double, by the books: Kingma and Ba 2015 as torch.optim.SparseAdam has it, Duchi, Hazan
/// and Singer 2011 as torch.optim.Adagrad, FBGEMM's exact_row_wise_adagrad (one sum a row, of the mean of its
/// gradient's squares; epsilon outside of the root), plain descent.
struct Oracle {
  RowOptimizerOptions options;
  std::int64_t width;
  std::map<std::int64_t, std::vector<double>> values, state;
  double steps = 0;

  void step(const LearnedTable& table, const std::map<std::int64_t, std::vector<float>>& gradients) {
    ++steps;
    for (const auto& [row, gradient] : gradients) {
      if (!values.contains(row)) {
        std::vector<float> first(static_cast<std::size_t>(width));
        first_values(table.options().seed, row, std::sqrt(3 / static_cast<float>(width)), width,
                     first.data());
        values[row].assign(first.begin(), first.end());
        state[row].assign(static_cast<std::size_t>(2 * width), 0);
      }
      move(values[row], state[row], gradient);
    }
  }
  void move(std::vector<double>& value, std::vector<double>& kept, const std::vector<float>& gradient) const {
    double squares = 0;
    for (const double g : gradient) squares += g * g;
    kept[0] += options.optimizer == RowOptimizer::kRowWiseAdagrad ? squares / static_cast<double>(width) : 0;
    for (std::size_t f = 0; f < value.size(); ++f) {
      const double g = gradient[f];
      double &mean = kept[f], &square = kept[f + value.size()];
      switch (options.optimizer) {
        case RowOptimizer::kSparseAdam:
          mean = options.beta1 * mean + (1 - options.beta1) * g;
          square = options.beta2 * square + (1 - options.beta2) * g * g;
          value[f] -= options.lr * std::sqrt(1 - std::pow(options.beta2, steps)) /
                      (1 - std::pow(options.beta1, steps)) * mean / (std::sqrt(square) + options.epsilon);
          break;
        case RowOptimizer::kAdagrad:
          square += g * g;
          value[f] -= options.lr * g / (std::sqrt(square) + options.epsilon);
          break;
        case RowOptimizer::kRowWiseAdagrad:
          value[f] -= options.lr * g / (std::sqrt(kept[0]) + options.epsilon);
          break;
        case RowOptimizer::kSgd:
          value[f] -= options.lr * g;
      }
    }
  }
};

constexpr RowOptimizer kAll[] = {RowOptimizer::kSparseAdam, RowOptimizer::kAdagrad,
                                 RowOptimizer::kRowWiseAdagrad, RowOptimizer::kSgd};

TEST(LearnedTable, EachOptimizerFollowsItsFormula) {
  for (const RowOptimizer optimizer : kAll) {
    for (const std::int64_t width : {1, 5, 16, 37}) {
      std::mt19937_64 random(7);
      const RowOptimizerOptions options{.optimizer = optimizer, .lr = 0.05};
      LearnedTable table({.rows = 40, .width = width, .seed = 3, .optimizer = options});
      Oracle oracle{.options = options, .width = width, .values = {}, .state = {}};
      for (int i = 0; i < 20; ++i) {
        const Step step(random, 3, 30, width, 25);
        oracle.step(table, gradients_of(step, width));
        step.take(table, 1);
      }
      const std::vector<float> values = all_values(table);
      for (const auto& [row, expected] : oracle.values)
        for (std::size_t f = 0; f < expected.size(); ++f)
          ASSERT_NEAR(values[static_cast<std::size_t>(row * width) + f], expected[f], 2e-5)
              << name_of(optimizer) << ", width " << width << ", row " << row;
      EXPECT_EQ(table.num_learned(), std::ssize(oracle.values));
      EXPECT_EQ(table.count().steps, 20);
    }
  }
}

// sgd with lr 1 subtracts the gradient itself, so every bit of the sums shows.
TEST(LearnedTable, SumsAreInTheOrderOfLookupsThenOfRanks_ToTheLastBit) {
  constexpr std::int64_t kWidth = 7;
  std::mt19937_64 random(11);
  for (const int ranks : {1, 2, 5}) {
    const Step step(random, ranks, 300, kWidth, 2'000);
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 7}) {
      LearnedTable table(
          {.rows = 400, .width = kWidth, .optimizer = {.optimizer = RowOptimizer::kSgd, .lr = 1}});
      std::vector<float> expected = all_values(table);
      for (const auto& [row, gradient] : gradients_of(step, kWidth))
        for (std::size_t f = 0; f < gradient.size(); ++f)
          expected[static_cast<std::size_t>(row * kWidth) + f] -= gradient[f];
      step.take(table, threads);
      EXPECT_EQ(all_values(table), expected) << ranks << " ranks, " << threads << " threads";
    }
  }
}

TEST(RowGroups, AreAStableSortOfTheLookups_WhateverTheirRange) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  std::mt19937_64 random(13);
  const auto check = [&](std::int64_t from, std::int64_t to, std::size_t count) {
    std::uniform_int_distribution<std::int64_t> any(from, to);
    std::vector<std::int64_t> lookups(count);
    for (std::int64_t& row : lookups) row = any(random);
    if (count > 1) lookups.front() = to, lookups.back() = from;
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return lookups[i]; });
    const RowGroups groups(lookups);
    ASSERT_EQ(groups.num_lookups(), count);
    std::size_t next = 0;
    for (std::size_t group = 0; group < groups.rows().size(); ++group) {
      ASSERT_TRUE(group == 0 || groups.rows()[group - 1] < groups.rows()[group]);
      ASSERT_FALSE(groups.lookups(group).empty());
      for (const std::uint32_t lookup : groups.lookups(group)) {
        ASSERT_EQ(lookup, order[next++]) << "from " << from << " to " << to;
        ASSERT_EQ(lookups[lookup], groups.rows()[group]);
      }
    }
    ASSERT_EQ(next, count);
  };
  check(0, 0, 0);
  for (const std::size_t count : {1U, 2U, 3'000U}) {
    for (int bits = 0; bits < 63; ++bits) check(5, 5 + (std::int64_t{1} << bits) - 1, count);
    check(-20, 20, count);
    check(0, kMost, count);
    check(kLeast, kMost, count);
  }
}

TEST(LearnedTable, ManyStepsOnAnyNumberOfThreads_GiveTheSameBits) {
  for (const RowOptimizer optimizer : kAll) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 4}) {
      std::mt19937_64 random(5);
      LearnedTable table({.rows = 5'000, .width = 12, .seed = 8, .optimizer = {.optimizer = optimizer}});
      for (int i = 0; i < 6; ++i) Step(random, 2, 4'000, 12, 6'000).take(table, threads);
      results.push_back(all_values(table));
    }
    EXPECT_EQ(results[0], results[1]) << name_of(optimizer);
  }
}

TEST(LearnedTable, AStepInWhichNobodyLearnsIsNone_AndOneOfOtherShardsCounts) {
  LearnedTable table({.rows = 10, .width = 2});
  table.step(std::vector<RowSums>(3), 3);
  EXPECT_EQ(table.count(), StepCount{});
  table.count_step();
  EXPECT_EQ(table.count().steps, 1);
  EXPECT_EQ(table.count().power1, 0.9);
  EXPECT_EQ(table.num_learned(), 0);
}

TEST(LearnedTable, FirstValuesGoByOriginalIds) {
  const LearnedTable whole({.rows = 100, .width = 8, .seed = 4});
  const LearnedTable shard({.rows = 10, .width = 8, .seed = 4},
                           [](std::int64_t row) { return 95 - 7 * row; });
  const std::vector<float> all = all_values(whole), mine = all_values(shard);
  for (std::int64_t row = 0; row < 10; ++row)
    EXPECT_TRUE(
        std::equal(mine.begin() + row * 8, mine.begin() + (row + 1) * 8, all.begin() + (95 - 7 * row) * 8))
        << row;
}

TEST(LearnedTable, RestoredRowsAndCountsGoOnWithTheVeryBits) {
  for (const RowOptimizer optimizer : kAll) {
    std::mt19937_64 random(3);
    const LearnedTableOptions options{.rows = 60, .width = 6, .optimizer = {.optimizer = optimizer}};
    LearnedTable run(options), resumed(options);
    for (int i = 0; i < 3; ++i) Step(random, 2, 50, 6, 20).take(run, 1);
    Step(random, 2, 50, 6, 20).take(resumed, 1);  // its own past is forgotten
    resumed.clear();
    std::int64_t last = -1;
    run.for_each_learned([&](std::int64_t row, const float* numbers) {
      EXPECT_GT(row, last);
      resumed.restore(last = row, {numbers, static_cast<std::size_t>(run.row_numbers())});
    });
    resumed.restore_count(run.count());
    const Step next(random, 2, 60, 6, 20);
    next.take(run, 1), next.take(resumed, 1);
    EXPECT_EQ(all_values(run), all_values(resumed)) << name_of(optimizer);
    EXPECT_EQ(run.num_learned(), resumed.num_learned());
  }
}

// Where rows lie, and in which order they are learned, costs nothing: a table of pages would take those of
// nearly all rows for a tenth of them.
TEST(LearnedTable, MemoryIsThatOfLearnedRowsAndFourBytesARow) {
  constexpr std::int64_t kRows = 400'000, kWidth = 64;
  for (const RowOptimizer optimizer : kAll) {
    for (const std::int64_t tenths : {1, 5, 10}) {
      LearnedTable table({.rows = kRows, .width = kWidth, .optimizer = {.optimizer = optimizer}});
      const std::size_t before = testing::resident_bytes(getpid());
      Learned learned;
      for (std::int64_t row = 0; row < kRows; ++row)
        if (row % 10 < tenths) learned.rows.push_back(row);
      const std::vector<float> ones(static_cast<std::size_t>(kWidth) * 1'000, 1);
      for (std::size_t first = 0; first < learned.rows.size(); first += 1'000) {
        const RowSums sums{std::span(learned.rows).subspan(first, 1'000), ones.data()};
        table.step({&sums, 1}, 1);
      }
      const auto count = static_cast<double>(learned.rows.size());
      const double allowed = count * static_cast<double>(table.row_numbers()) * sizeof(float) + 16 * count +
                             4.0 * kRows,
                   taken = static_cast<double>(testing::resident_bytes(getpid()) - before);
      if (!testing::kSanitized) {  // sanitizers have memory of their own beside each byte
        EXPECT_LE(taken,
                  allowed + 8.0 * static_cast<double>(learned.rows.size()) + (4 << 20))  // and its list
            << name_of(optimizer) << ", " << tenths << " tenths";
      }
      EXPECT_LE(static_cast<double>(table.bytes()), allowed);
      EXPECT_EQ(table.num_learned(), std::ssize(learned.rows));
      table.clear();
      EXPECT_EQ(table.num_learned(), 0);
    }
  }
}

TEST(LearnedTable, NamesOfOptimizersAreReadBack) {
  for (const RowOptimizer optimizer : kAll) EXPECT_EQ(row_optimizer(name_of(optimizer)), optimizer);
  try {
    row_optimizer("adam");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no optimizer 'adam'"), std::string::npos) << error.what();
  }
}

TEST(LearnedTable, NumbersThatAreNotFiniteAreFoundWhereverTheyAre) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (std::size_t count : {1, 15, 16, 40}) {
      std::vector<float> values(count, std::numeric_limits<float>::max());
      EXPECT_TRUE(all_finite(values.data(), std::ssize(values)));
      for (float& value : values) {
        const float kept = std::exchange(value, bad);
        EXPECT_FALSE(all_finite(values.data(), std::ssize(values)));
        value = kept;
      }
    }
  }
}

}  // namespace
}  // namespace hopfeed
