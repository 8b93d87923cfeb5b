// Pre-sampling against the computed hotness, and the rank correlation that compares them.
#include "partition_tool/hotness/presample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "partition_tool/hotness/hotness.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::TempFolder;
using testing::TinyGraph;

std::vector<double> computed_hotness(const Dataset& dataset, std::span<const std::int64_t> train,
                                     const PresampleOptions& options) {
  const CscPart& part = dataset.csc(0).parts[0];
  std::vector<std::int64_t> indptr;
  for (std::int64_t i = 0; i <= part.num_rows; ++i) indptr.push_back(part.rows[i].offset);
  const std::span indices(static_cast<const std::int32_t*>(part.indices),
                          static_cast<std::size_t>(part.num_edges));
  return inclusion_probability(
      {.num_nodes = part.num_rows, .edges = {{.indptr = indptr, .indices = indices}}, .train = train},
      {.fanouts = options.fanouts, .batch_size = options.batch_size});
}

TEST(Presample, RealBatchesReadWhatTheHotnessSays) {
  const TinyGraph graph = testing::random_graph(
      {.num_nodes = 2'000, .num_edges = 20'000, .x_width = 0, .num_train = 800, .seed = 3});
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", graph);  // dataset ids are original ids
  const Dataset dataset(folder.path() / "d");
  const auto train = dataset.split(0, "train");
  const PresampleOptions options{.fanouts = {5, 3}, .batch_size = 20, .epochs = 25, .seed = 1, .threads = 2};
  const auto counts = presample(dataset, train, options)[0];
  const auto hotness = computed_hotness(dataset, train, options);
  const std::vector<double> measured(counts.begin(), counts.end());
  EXPECT_GT(rank_correlation(hotness, measured), 0.97);
  double error = 0;
  for (std::size_t v = 0; v < hotness.size(); ++v)
    error += std::abs(hotness[v] - measured[v] / (25.0 * 40)) / static_cast<double>(hotness.size());
  EXPECT_LT(error, 0.01);
}

TEST(Presample, WithoutHopsEachSeedIsReadOnceAnEpoch) {
  const TinyGraph graph = testing::random_graph({.num_nodes = 100, .num_edges = 500, .num_train = 60});
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", graph);
  const Dataset dataset(folder.path() / "d");
  const auto counts =
      presample(dataset, dataset.split(0, "train"), {.fanouts = {}, .batch_size = 7, .epochs = 3})[0];
  std::vector<std::int64_t> expected(100);
  for (std::int64_t v : dataset.split(0, "train")) expected[v] = 3;
  EXPECT_EQ(counts, expected);
}

TEST(Presample, AnyNumberOfThreadsCountsTheSame) {
  const TempFolder folder;
  write_tiny_dataset(folder.path() / "d", testing::random_graph({}));
  const Dataset dataset(folder.path() / "d");
  const auto train = dataset.split(0, "train");
  const auto one = presample(dataset, train, {.fanouts = {3, 2}, .batch_size = 8, .epochs = 2, .threads = 1});
  EXPECT_EQ(presample(dataset, train, {.fanouts = {3, 2}, .batch_size = 8, .epochs = 2, .threads = 3}), one);
}

TEST(RankCorrelation, KnownValues) {
  const std::vector<double> rising{1, 2, 3, 4}, curved{1, 10, 100, 1000}, falling{9, 7, 5, 1},
      constant{2, 2, 2, 2};
  EXPECT_DOUBLE_EQ(rank_correlation(rising, curved), 1.0);
  EXPECT_DOUBLE_EQ(rank_correlation(rising, falling), -1.0);
  EXPECT_DOUBLE_EQ(rank_correlation(rising, constant), 0.0);
  const std::vector<double> swapped{1, 3, 2, 4};  // 1 - 6 * 2 / (4 * 15)
  EXPECT_DOUBLE_EQ(rank_correlation(rising, swapped), 0.8);
}

TEST(RankCorrelation, EqualValuesShareTheirMeanRank) {
  const std::vector<double> tied{1, 1, 2}, other{5, 5, 9};
  EXPECT_DOUBLE_EQ(rank_correlation(tied, other), 1.0);
}

}  // namespace
}  // namespace hopfeed
