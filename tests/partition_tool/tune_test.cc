// hopfeed-partition tune, the real program: what it reports of batches that are known, and what it refuses.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/partition_tool/program_fixture.h"

namespace hopfeed {
namespace {

using nlohmann::json;

class Tune : public PartitionProgram {
 protected:
  void SetUp() override { make_small("d"); }
  json tune(const std::string& arguments) {
    succeed("tune d --fanouts 5,3 --batch-size 16 --seconds 0.05 --json t.json " + arguments);
    return read_json("t.json");
  }
};

TEST_F(Tune, CurvesRiseFromNothingToAllAndTheOracleIsNeverBelow) {
  const json report = tune("--policies stored,vip,degree,oracle");
  EXPECT_EQ(report["batches"], report["epoch_batches"]);
  std::map<std::string, std::map<int, double>> hits;
  double whole = 0;
  for (const json& point : report["curve"]) {
    const int percent = static_cast<int>(point["ratio"].get<double>() * 100 + 0.5);
    hits[point["policy"]][percent] = point["hit_rate"];
    const double sum = point["bytes_per_batch"].get<double>() + point["held_bytes_per_batch"].get<double>();
    if (whole == 0) whole = sum;
    EXPECT_NEAR(sum, whole, 1e-6);
    EXPECT_GT(point["epoch_seconds"].get<double>(), 0);
  }
  EXPECT_EQ(hits.size(), 4U);
  for (const auto& [policy, curve] : hits) {
    ASSERT_EQ(curve.size(), 101U) << policy;
    EXPECT_EQ(curve.at(0), 0);
    EXPECT_EQ(curve.at(100), 1);
    for (int i = 1; i <= 100; ++i) {
      EXPECT_GE(curve.at(i), curve.at(i - 1)) << policy;
      EXPECT_GE(hits["oracle"].at(i), curve.at(i)) << policy << " " << i;
    }
  }
}

TEST_F(Tune, AGivenMachineDecidesTheTimesAndTheRecommendation) {
  // The wire binds until the bytes that are left take as long as training.
  write("machine.json",
        R"({"sample_seconds": 1e-9, "gather_bytes_per_second": 1e15, "complete_bytes_per_second": 1e15,
            "link_bytes_per_second": 1e6, "num_workers": 1, "cores": 64, "send_seconds_per_byte": 1e-15,
            "receive_seconds_per_byte": 1e-15})");
  const json report = tune("--machine machine.json");
  const double batches = report["epoch_batches"];
  const json first = report["curve"][0];
  EXPECT_EQ(first["binds"], "move");
  EXPECT_GT(first["epoch_seconds"].get<double>(), batches * first["bytes_per_batch"].get<double>() / 1e6);
  const double ratio = report["recommended"]["ratio"];
  EXPECT_GT(ratio, 0);
  // Training so slow that nothing else matters: no row is worth holding.
  const json slow = tune("--machine machine.json --train-ms 1e6");
  EXPECT_EQ(slow["recommended"]["ratio"], 0);
  EXPECT_NEAR(slow["curve"][0]["epoch_seconds"].get<double>(), batches * 1e3, 1);
  EXPECT_EQ(slow["curve"][0]["binds"], "train");
}

TEST_F(Tune, ABudgetBoundsWhatIsRecommended) {
  write("machine.json", R"({"link_bytes_per_second": 1e3})");
  const json report = tune("--machine machine.json --budget 4000 --within 0");
  const double ratio = report["recommended"]["ratio"];
  double held = 0, more = 0;
  for (const json& point : report["curve"]) {
    if (point["policy"] != "stored") continue;
    if (point["ratio"] == ratio) held = point["held_rows_bytes"];
    if (more == 0 && point["ratio"] > ratio) more = point["held_rows_bytes"];
  }
  EXPECT_GT(held, 0);
  EXPECT_LE(held, 4000);
  EXPECT_GT(more, 4000);
  EXPECT_NE(report["recommended"]["reason"].get<std::string>().find("budget"), std::string::npos);
}

TEST_F(Tune, InWorkerModeNothingIsHeld) {
  const json report = tune("");
  EXPECT_EQ(report["recommended"]["ratio"], 0);
  EXPECT_NE(report["recommended"]["reason"].get<std::string>().find("--link"), std::string::npos);
}

TEST_F(Tune, WithFilesInWorkerModeARowCacheIsWhatIsRecommended) {
  write("machine.json",
        R"({"reads_per_second": 10, "all_reads_per_second": 10, "cpu_seconds_per_read": 1e-9})");
  succeed("generate d --overwrite --nodes 500 --edges 4000 --features 32 --classes 3 --seed 1");  // 128 bytes
                                                                                                  // a row
  const json report = tune("--features-from file --machine machine.json");
  const json& first = report["curve"][0];
  EXPECT_EQ(first["policy"], "row cache");
  EXPECT_EQ(first["binds"], "read");
  EXPECT_EQ(first["cached_bytes_per_batch"], 0);
  EXPECT_GT(first["file_bytes_per_batch"].get<double>(), 0);
  EXPECT_NEAR(first["stages"]["read"].get<double>(),
              report["epoch_batches"].get<double>() * first["reads_per_batch"].get<double>() / 10, 1e-6);
  const json& all = report["curve"][100];
  EXPECT_EQ(all["hit_rate"], 1);
  EXPECT_EQ(all["reads_per_batch"], 0);
  EXPECT_NE(report["recommended"]["ratio"], 0);
  EXPECT_NE(report["recommended"]["reason"].get<std::string>().find("a row cache"), std::string::npos);
  // One that is given takes reads away, whatever the consumer holds.
  const json given = tune("--features-from file --machine machine.json --row-cache 60K");
  EXPECT_EQ(given["curve"][0]["policy"], "stored");
  EXPECT_LT(given["curve"][0]["reads_per_batch"].get<double>(), first["reads_per_batch"].get<double>());
  EXPECT_GT(given["curve"][0]["cached_bytes_per_batch"].get<double>(), 0);
}

TEST_F(Tune, OverLoopbackTheWireIsMeasuredAndTheCoresBind) {
  write("machine.json", R"({"cores": 1})");
  const json report = tune("--link loopback --machine machine.json");
  EXPECT_GT(report["machine"]["send_seconds_per_byte"].get<double>(), 0);
  EXPECT_GT(report["machine"]["receive_seconds_per_byte"].get<double>(), 0);
  EXPECT_FALSE(report["machine"].contains("link_bytes_per_second"));
  EXPECT_EQ(report["curve"][0]["binds"], "cores");
}

TEST_F(Tune, MeasuredRunsStandBesideWhatIsSaid) {
  write("run.json", R"({"epoch_rows": [{"seconds": 9}, {"seconds": 0.5, "hit_rate": 0.3}]})");
  const auto result = succeed(
      "tune d --fanouts 5,3 --batch-size 16 --seconds 0.05 --json t.json --plot c.svg --measured run.json");
  const json report = read_json("t.json");
  const json& measured = report["measured"][0];
  EXPECT_EQ(measured["epoch_seconds"], 0.5);
  for (const json& point : report["curve"]) {
    if (point["policy"] != "stored" || point["ratio"] != measured["ratio"]) continue;
    EXPECT_NEAR(point["hit_rate"].get<double>(), 0.3, 0.02);
    EXPECT_EQ(point["epoch_seconds"], measured["predicted_epoch_seconds"]);
  }
  EXPECT_NE(result.out.find("run.json"), std::string::npos);
  EXPECT_NE(testing::file_bytes(work() / "c.svg").find("x measured: run.json"), std::string::npos);
}

TEST_F(Tune, TrainingIsReadFromASummary) {
  write("summary.json", R"({"batches_per_s": 20, "trainer_wait_fraction": 0.25})");
  EXPECT_DOUBLE_EQ(tune("--summary summary.json")["machine"]["train_seconds"].get<double>(), 0.75 / 20);
}

TEST_F(Tune, WithoutAFigureTrainingIsLeftOutAndThatIsSaid) {
  const auto result = succeed("tune d --fanouts 5 --seconds 0.05 --json t.json --plot curve.svg");
  EXPECT_NE(result.out.find("training is not known"), std::string::npos);
  EXPECT_NE(result.out.find("recommended: "), std::string::npos);
  EXPECT_FALSE(read_json("t.json")["machine"].contains("train_seconds"));
  const std::string svg = testing::file_bytes(work() / "curve.svg");
  EXPECT_NE(svg.find("hit rate, %"), std::string::npos);
  EXPECT_NE(svg.find("recommended: "), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST_F(Tune, WhatIsShownIsHeadedByTheDatasetsNameAndNotByItsFolder) {
  const std::string folder = (work() / "d").string(), name = Dataset(folder).meta().name;
  const auto result = succeed("tune " + folder + " --fanouts 5 --seconds 0.05 --json t.json --plot c.svg");
  EXPECT_EQ(result.out.find("\n" + name + ": "), result.out.find('\n')) << result.out;  // behind the memory
  const std::string svg = testing::file_bytes(work() / "c.svg");
  EXPECT_NE(svg.find(">" + name + ": "), std::string::npos);
  EXPECT_EQ(svg.find(folder), std::string::npos);
  EXPECT_EQ(read_json("t.json")["name"], name);
}

TEST_F(Tune, FewerRowsThanTheBestAreRecommendedWhereTheEpochIsWithinTheAskedPercent) {
  write("machine.json",
        R"({"sample_seconds": 1e-9, "gather_bytes_per_second": 1e15, "complete_bytes_per_second": 1e15,
            "link_bytes_per_second": 1e6, "num_workers": 1, "cores": 64, "send_seconds_per_byte": 1e-15,
            "receive_seconds_per_byte": 1e-15})");
  double before = 2;
  for (const double percent : {0.0, 5.0, 50.0}) {
    const json report = tune("--machine machine.json --within " + std::to_string(percent));
    const json &told = report["recommended"], &best = told["best"];
    const double ratio = told["ratio"], limit = (1 + percent / 100) * best["epoch_seconds"].get<double>();
    EXPECT_EQ(told["within_percent"], percent);
    EXPECT_LE(ratio, best["ratio"].get<double>());
    EXPECT_LE(ratio, before);
    before = ratio;
    for (const json& point : report["curve"]) {
      if (point["policy"] != "stored" || point["ratio"].get<double>() > ratio) continue;
      EXPECT_EQ(point["epoch_seconds"].get<double>() <= limit, point["ratio"] == ratio) << point;
    }
    const bool costs = told["reason"].get<std::string>().find("; the best holds ") != std::string::npos;
    EXPECT_EQ(costs, best["ratio"] != told["ratio"]) << told;
  }
}

TEST_F(Tune, FewBatchesAreSpreadAndThatIsSaid) { EXPECT_EQ(tune("--batches 2")["batches"], 2); }

TEST_F(Tune, AReadersEvictionsAreOfRowsOfOtherPartitions) {
  succeed("partition d cut --parts 3 --method metis --seed 1 --fanouts 5,3 --batch-size 16");
  const auto result =
      succeed("tune cut --fanouts 5,3 --batch-size 8 --evictions --reader 1 --batches 10 --json t.json");
  EXPECT_NE(result.out.find("static, reader's list"), std::string::npos) << result.out;
  const json reader = read_json("t.json")["reader"];
  EXPECT_EQ(reader["partition"], 1);
  EXPECT_EQ(reader["list_stored"], true);
  EXPECT_EQ(reader["batches"], 10);
  std::map<std::string, std::map<int, double>> hits;
  for (const json& cache : reader["caches"]) {
    const double rate = cache["hit_rate"];
    hits[cache["how"]][static_cast<int>(cache["ratio"].get<double>() * 100 + 0.5)] = rate;
    EXPECT_NEAR(cache["fetched_rows_per_batch"].get<double>(),
                (1 - rate) * reader["remote_rows_per_batch"].get<double>(), 1e-9);
  }
  EXPECT_EQ(hits.size(), 9U);
  for (const int percent : {5, 10, 20}) {
    EXPECT_GE(hits["static, oracle"].at(percent), hits["static, reader's list"].at(percent));
    EXPECT_GE(hits["static, oracle"].at(percent), hits["static, owners' order"].at(percent));
    EXPECT_GE(hits["static, oracle"].at(percent), hits["static, global order"].at(percent));
    EXPECT_GE(hits["belady, whole"].at(percent), hits["belady, window 4"].at(percent));
  }
}

TEST_F(Tune, AReaderThatIsNotThereIsRefused) {
  succeed("partition d cut --parts 2 --method random --seed 1");
  refuse("tune cut --evictions --reader 2", "--reader is 2");
  refuse("tune cut --reader 1", "--evictions");
  refuse("tune d --evictions --reader 0", "one partition");
}

TEST_F(Tune, EvictionsAreSimulatedOnTheSameBatches) {
  const json report = tune("--evictions");
  std::map<std::string, std::map<int, double>> hits;
  for (const json& entry : report["evictions"])
    hits[entry["eviction"]][static_cast<int>(entry["ratio"].get<double>() * 100 + 0.5)] = entry["hit_rate"];
  EXPECT_EQ(hits.size(), 8U);
  for (const int percent : {5, 10, 20, 30}) {
    EXPECT_GE(hits["belady, whole"].at(percent), hits["belady, window 16"].at(percent));
    EXPECT_GE(hits["belady, whole"].at(percent), hits["lru"].at(percent));
    EXPECT_GE(hits["belady, whole"].at(percent), hits["sieve"].at(percent));
    EXPECT_NEAR(hits["static"].at(percent), report["curve"][percent]["hit_rate"].get<double>(), 1e-12);
  }
  EXPECT_EQ(tune("")["evictions"], json::array());
}

TEST_F(Tune, BadInputIsOneLineEach) {
  refuse("tune d --policies random",
         "--policies: there is no policy 'random'; choose one of vip, degree, presample, oracle, stored");
  refuse("tune d --budget 10", "--budget is 10 bytes, and a row has ");
  refuse("tune d --split best", "best");
  refuse("tune d --within -1", "--within is -1; give percent from 0 to 100");
  refuse("tune d --train-ms 0", "--train-ms");
  refuse("tune d --fanouts -2", "fanouts");
  refuse("tune d --machine none.json", "--machine: cannot read none.json");
  refuse("tune d --summary none.json --train-ms 3", "--summary and --train-ms both");
  write("bad.json", R"({"gather_bytes_per_second": -1})");
  refuse("tune d --machine bad.json", "gather_bytes_per_second is -1; give a number above 0");
  write("bad.json", R"({"speed": 3})");
  refuse("tune d --machine bad.json", "'speed' is no rate");
  write("bad.json", "{");
  refuse("tune d --machine bad.json", "is no JSON object");
  refuse("tune d --link fast", "--link");
  refuse("tune d --link 0", "--link is '0'; give bytes a second");
  refuse("tune d --row-cache 1M", "row cache");
  refuse("tune d --features-from file --window 3", "window");
  refuse("tune d --measured none.json", "--measured: cannot read none.json");
  write("bad.json", "{}");
  refuse("tune d --measured bad.json", "lacks epoch_rows");
  refuse("tune d --summary bad.json", "lacks batches_per_s");
}

}  // namespace
}  // namespace hopfeed
