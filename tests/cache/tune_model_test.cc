// The model of an epoch by arithmetic, and what is recommended.
#include "cache/tune_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hopfeed {
namespace {

constexpr std::int64_t kNoBudget = std::numeric_limits<std::int64_t>::max();

// 10 batches of 1,000 bytes; a worker samples one in 0.2 s and writes 1,000 bytes/s; two workers.
TuneRates rates() {
  return {.sample_seconds = 0.2,
          .gather_bytes_per_second = 1'000,
          .complete_bytes_per_second = 4'000,
          .link_bytes_per_second = 500,
          .train_seconds = 0.5,
          .num_workers = 2};
}

TEST(TuneModel, EachStageIsItsBytesOverItsRate) {
  const EpochTimes times = model_epoch(rates(), {.batches = 10, .block_bytes = 1'000, .held_bytes = 400});
  EXPECT_DOUBLE_EQ(times.sample, 1);      // 10 * 0.2 / 2
  EXPECT_DOUBLE_EQ(times.gather, 3);      // 10 * 600 / 1,000 / 2
  EXPECT_DOUBLE_EQ(times.move, 12);       // 10 * 600 / 500
  EXPECT_DOUBLE_EQ(times.complete, 2.5);  // 10 * 1,000 / 4,000
  EXPECT_DOUBLE_EQ(times.train, 5);
  EXPECT_DOUBLE_EQ(times.epoch, 12);
  EXPECT_EQ(times.binds, TuneStage::kMove);
}

TEST(TuneModel, SampleAndGatherTakeTurnsAndSoDoCompleteAndTrain) {
  TuneRates local = rates();
  local.link_bytes_per_second.reset();
  const TuneLoad load{.batches = 10, .block_bytes = 1'000, .held_bytes = 400};
  EXPECT_DOUBLE_EQ(model_epoch(local, load).move, 0);
  EXPECT_DOUBLE_EQ(model_epoch(local, load).epoch, 7.5);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kTrain);
  local.train_seconds.reset();
  EXPECT_DOUBLE_EQ(model_epoch(local, load).train, 0);
  EXPECT_DOUBLE_EQ(model_epoch(local, load).epoch, 4);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kGather);
  local.complete_bytes_per_second = 1'000;
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kComplete);
  local.sample_seconds = 9;
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kSample);
}

TEST(TuneModel, NothingIsCompletedWhereNothingIsHeld) {
  EXPECT_EQ(model_epoch(rates(), {.batches = 10, .block_bytes = 1'000, .held_bytes = 0}).complete, 0);
}

std::vector<TunePoint> points(const std::vector<double>& seconds) {
  std::vector<TunePoint> out;
  for (const double epoch : seconds) {
    const auto i = static_cast<std::int64_t>(out.size());
    out.push_back({.ratio = static_cast<double>(i) / 100, .held_bytes = 100 * i, .times = {.epoch = epoch}});
  }
  return out;
}

TEST(TuneModel, TheSmallestRatioWithinOnePercentOfTheBestIsTaken) {
  EXPECT_EQ(recommend(points({20, 10.2, 10.09, 10}), kNoBudget).point, 2U);
  EXPECT_EQ(recommend(points({10.05, 10, 10}), kNoBudget).point, 0U);
  EXPECT_EQ(recommend(points({10, 11, 12}), kNoBudget).point, 0U);
}

TEST(TuneModel, ABudgetCutsTheCurve) {
  EXPECT_EQ(recommend(points({20, 15, 10}), 199).point, 1U);
  EXPECT_EQ(recommend(points({20, 15, 10}), 200).point, 2U);
  EXPECT_EQ(recommend(points({20, 15, 10}), 99).point, 0U);
  EXPECT_NE(recommend(points({20, 15, 10}), 199).reason.find("budget"), std::string::npos);
  EXPECT_EQ(recommend(points({20, 15, 10}), 200).reason.find("budget"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
