// The model of an epoch by arithmetic, and what is recommended.
#include "partition_tool/tune/tune_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hopfeed {
namespace {

// 10 batches of 1,000 bytes; a worker samples one in 0.2 s and writes 1,000 bytes/s; two workers, and so many
// cores that they never bind.
TuneRates rates() {
  return {.sample_seconds = 0.2,
          .gather_bytes_per_second = 1'000,
          .complete_bytes_per_second = 4'000,
          .wire = WireRates{.bytes_per_second = 500},
          .train_seconds = 0.5,
          .num_workers = 2,
          .cores = 1'000};
}

TEST(TuneModel, EachStageIsItsBytesOverItsRate) {
  const EpochTimes times = model_epoch(rates(), {.batches = 10, .block_bytes = 1'000, .held_bytes = 400});
  EXPECT_DOUBLE_EQ(times.sample, 1);      // 10 * 0.2 / 2
  EXPECT_DOUBLE_EQ(times.gather, 3);      // 10 * 600 / 1,000 / 2
  EXPECT_DOUBLE_EQ(times.move, 12);       // 10 * 600 / 500
  EXPECT_DOUBLE_EQ(times.complete, 2.5);  // 10 * 1,000 / 4,000
  EXPECT_DOUBLE_EQ(times.train, 5);
  // The first batch: 0.2 + 0.6 before it is sent, 0.25 + 0.5 behind that.
  EXPECT_DOUBLE_EQ(times.epoch, 12 + 0.8 + 0.75);
  EXPECT_EQ(times.binds, TuneStage::kMove);
}

TEST(TuneModel, SampleAndGatherTakeTurnsAndSoDoCompleteAndTrain) {
  TuneRates local = rates();
  local.wire.reset();
  const TuneLoad load{.batches = 10, .block_bytes = 1'000, .held_bytes = 400};
  EXPECT_DOUBLE_EQ(model_epoch(local, load).move, 0);
  EXPECT_DOUBLE_EQ(model_epoch(local, load).epoch, 7.5 + 0.8);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kTrain);
  local.train_seconds.reset();
  EXPECT_DOUBLE_EQ(model_epoch(local, load).train, 0);
  EXPECT_DOUBLE_EQ(model_epoch(local, load).epoch, 4 + 0.4 + 0.25);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kGather);
  local.complete_bytes_per_second = 1'000;
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kComplete);
  local.sample_seconds = 9;
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kSample);
}

TEST(TuneModel, NothingIsCompletedWhereNothingIsHeld) {
  EXPECT_EQ(model_epoch(rates(), {.batches = 10, .block_bytes = 1'000, .held_bytes = 0}).complete, 0);
}

TEST(TuneModel, RowsOfFilesAreReadInsteadOfGathered) {
  TuneRates local = rates();
  local.wire.reset();
  local.train_seconds.reset();
  local.files = FileRates{.reads_per_second = 10, .all_reads_per_second = 15, .cpu_seconds_per_read = 0.001};
  const TuneLoad load{.batches = 10, .block_bytes = 1'000, .file_bytes = 900, .reads = 30};
  const EpochTimes times = model_epoch(local, load);
  EXPECT_DOUBLE_EQ(times.gather, 0.5);  // 10 * 100 / 1,000 / 2
  EXPECT_DOUBLE_EQ(times.read, 20);     // of the disk: 10 * 30 / 15; two workers alone would take 15
  EXPECT_DOUBLE_EQ(times.epoch, 20 + (0.2 + 0.1 + 3) - 2);
  EXPECT_EQ(times.binds, TuneStage::kRead);
  local.files->all_reads_per_second = 1'000;  // then each worker waits for its own
  EXPECT_DOUBLE_EQ(model_epoch(local, load).read, 15);
  EXPECT_DOUBLE_EQ(model_epoch(local, load).epoch, 16.5 + 1.65);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kRead);
}

TEST(TuneModel, RowsThatAreNotFloat32AreConverted) {
  TuneRates local = rates();
  local.convert_bytes_per_second = 100;
  const TuneLoad load{.batches = 10, .block_bytes = 1'000, .convert_bytes = 500};
  EXPECT_DOUBLE_EQ(model_epoch(local, load).convert, 50);
  EXPECT_EQ(model_epoch(local, load).binds, TuneStage::kConvert);
}

TEST(TuneModel, NoPaceIsFasterThanTheCores) {
  TuneRates loopback = rates();
  loopback.wire =
      WireRates{.bytes_per_second = {}, .send_seconds_per_byte = 0.001, .receive_seconds_per_byte = 0.002};
  loopback.cores = 2;
  const TuneLoad load{.batches = 10, .block_bytes = 1'000, .held_bytes = 400};
  // 0.2 + 0.6 to make, 0.6 to send, 1.2 to receive, 0.25 to complete, 0.5 to train.
  EXPECT_DOUBLE_EQ(model_epoch(loopback, load).cores, 10 * 3.35 / 2);
  EXPECT_DOUBLE_EQ(model_epoch(loopback, load).move, 12);
  EXPECT_EQ(model_epoch(loopback, load).binds, TuneStage::kCores);
  // On two machines each side has cores of its own.
  loopback.wire->bytes_per_second = 1e9;
  EXPECT_DOUBLE_EQ(model_epoch(loopback, load).cores, 10 * 1.95 / 2);
  EXPECT_EQ(model_epoch(loopback, load).binds, TuneStage::kMove);
}

std::vector<TunePoint> points(const std::vector<double>& seconds) {
  std::vector<TunePoint> out;
  for (const double epoch : seconds) {
    const auto i = static_cast<std::int64_t>(out.size());
    out.push_back({.ratio = static_cast<double>(i) / 100, .held_bytes = 100 * i, .times = {.epoch = epoch}});
  }
  return out;
}

TEST(TuneModel, TheSmallestRatioWithinFivePercentOfTheBestIsTaken) {
  EXPECT_EQ(recommend(points({20, 10.6, 10.49, 10})).point, 2U);
  EXPECT_EQ(recommend(points({10.4, 10, 10})).point, 0U);
  EXPECT_EQ(recommend(points({10, 11, 12})).point, 0U);
  EXPECT_EQ(recommend(points({20, 10.6, 10.49, 10}), {.within = 0.1}).point, 1U);
  EXPECT_EQ(recommend(points({20, 10.6, 10.49, 10}), {.within = 0}).point, 3U);
}

TEST(TuneModel, TheReasonSaysWhatTheBestWouldCostMore) {
  std::vector<TunePoint> curve = points({20, 10.4, 10.2, 10});
  for (TunePoint& point : curve) point.held_bytes *= 30'000;
  const TuneAdvice advice = recommend(curve);
  EXPECT_EQ(advice.point, 1U);
  EXPECT_EQ(advice.best, 3U);
  EXPECT_EQ(
      advice.reason,
      "10.400 s an epoch instead of 20.000 s without held rows, within 5% of the best of all ratios; then "
      "sample binds; the best holds 0.03 of the rows, 6.0 MB more, for an epoch that is 3.8% shorter");
  // Where it is the best itself there is nothing to add.
  EXPECT_EQ(
      recommend(curve, {.within = 0}).reason,
      "10.000 s an epoch instead of 20.000 s without held rows, within 0% of the best of all ratios; then "
      "sample binds");
  EXPECT_EQ(recommend(points({10, 11}), {.held = "a row cache"}).reason,
            "10.000 s an epoch without a row cache, within 5% of the best of all ratios; then sample binds");
}

TEST(TuneModel, ABudgetCutsTheCurve) {
  EXPECT_EQ(recommend(points({20, 15, 10}), {.budget = 199}).point, 1U);
  EXPECT_EQ(recommend(points({20, 15, 10}), {.budget = 200}).point, 2U);
  EXPECT_EQ(recommend(points({20, 15, 10}), {.budget = 99}).point, 0U);
  EXPECT_NE(recommend(points({20, 15, 10}), {.budget = 199}).reason.find("budget"), std::string::npos);
  EXPECT_EQ(recommend(points({20, 15, 10}), {.budget = 200}).reason.find("budget"), std::string::npos);
}

}  // namespace
}  // namespace hopfeed
