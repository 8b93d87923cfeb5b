// What the tuner says of reads, against reads that are made; and that every rate is measured.
#include "partition_tool/tune/tune_files.h"

#include <gtest/gtest.h>

#include <vector>

#include "cache/cache_memory.h"
#include "cache/cached_attrs.h"
#include "cache/dynamic_cache.h"
#include "cache/file_features.h"
#include "core/maker/mapped_features.h"
#include "partition_tool/tune/tune_measure.h"
#include "partition_tool/tune/tune_rates.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

class TuneFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    // 300 rows of 320 bytes over 24 pages.
    const auto graph = testing::random_graph({.num_nodes = 300, .num_edges = 2'000, .x_width = 80});
    write_tiny_dataset(folder_.path() / "d", graph, testing::random_cut(graph, 2, 3));
    dataset_.emplace(folder_.path() / "d");
    pass_ = measure_batches(*dataset_, dataset_->split(0, "train"), {.batch = batch(), .batch_size = 16});
    attrs_ = file_attrs(*dataset_, batch());
  }
  static BatchOptions batch() { return {.fanouts = {3, 2}}; }
  TempFolder folder_;
  std::optional<Dataset> dataset_;
  TunePass pass_;
  std::vector<FeatureName> attrs_;
};

TEST_F(TuneFiles, LongRowsAloneAreReadFromFiles) {
  ASSERT_EQ(attrs_.size(), 1U);
  EXPECT_EQ(attrs_[0].name, "x");
  EXPECT_EQ(file_row_bytes(*dataset_, attrs_), (std::vector<std::int64_t>{320}));
  EXPECT_TRUE(file_attrs(*dataset_, {.fanouts = {2}, .attrs = std::vector<std::string>{"y"}}).empty());
}

TEST_F(TuneFiles, ReadsAreCountedAsTheyAreMade) {
  FileFeatures file(open_row_files(*dataset_, attrs_[0]), {});
  std::vector<std::byte> out(300 * 320);
  for (const auto& ids : pass_.ids) file.gather(file.prepare(ids[0]), out.data());
  const FileReads counted = count_reads(*dataset_, attrs_, pass_.ids);
  const auto batches = static_cast<double>(pass_.ids.size());
  EXPECT_GT(counted.reads, 0);
  EXPECT_DOUBLE_EQ(counted.reads * batches, static_cast<double>(file.counts().reads));
  EXPECT_DOUBLE_EQ(counted.read_bytes * batches, static_cast<double>(file.counts().read_bytes));
  EXPECT_EQ(count_reads(*dataset_, attrs_, pass_.ids, [](auto, auto, auto) { return false; }).reads, 0);
  const FileReads one_page =
      count_reads(*dataset_, attrs_, pass_.ids, [](auto, auto, std::int64_t id) { return id == 0; });
  EXPECT_LE(one_page.reads, 1);
}

TEST_F(TuneFiles, ARowCacheIsAsLargeAsItIsMade) {
  const std::vector<CachedAttr> cached = cached_attrs(*dataset_);
  const auto bytes = static_cast<std::size_t>(row_cache_bytes(*dataset_, attrs_, 0.5));
  const OwnedFd memory = make_dynamic_cache(cached, bytes);
  EXPECT_NEAR(static_cast<double>(DynamicCache(memory.get()).counts().frames), 150, 8);
  EXPECT_NEAR(row_cache_share(*dataset_, attrs_, bytes), 0.5, 0.02);
  EXPECT_EQ(row_cache_share(*dataset_, attrs_, 10), 0);
  EXPECT_EQ(row_cache_share(*dataset_, attrs_, 1 << 30), 1);
}

TEST_F(TuneFiles, RatesAreMeasured) {
  const FileRates rates = measure_files(*dataset_, attrs_, pass_.ids, {.workers = 2, .seconds = 0.01});
  EXPECT_GT(rates.reads_per_second, 0);
  EXPECT_GE(rates.all_reads_per_second, rates.reads_per_second);
  EXPECT_GT(rates.cpu_seconds_per_read, 0);
}

TEST_F(TuneFiles, ARehearsalMeasuresEveryStage) {
  double last = 0;
  const Rehearsal rates = rehearse(*dataset_, dataset_->split(0, "train"),
                                   {.batch = batch(),
                                    .batch_size = 16,
                                    .workers = 3,
                                    .seconds = 0.05,
                                    .held = {.millionths = HeldShare::kAll / 2},
                                    .digest = true,
                                    .make_source = mapped_features,
                                    .progress = [&](double done, double) { last = done; }});
  EXPECT_GT(rates.batches, 3);
  EXPECT_GT(rates.sample_seconds, 0);
  EXPECT_GT(rates.gather_bytes_per_second, 0);
  EXPECT_GT(rates.complete_bytes_per_second, 0);
  EXPECT_GT(rates.digest_bytes_per_second, 0);
  EXPECT_GT(last, 0);
}

TEST_F(TuneFiles, ARehearsalThrowsWhatAWorkerThrows) {
  const auto refuse = [](const Dataset&, const FeatureName&) -> std::unique_ptr<FeatureSource> {
    class Refusing final : public FeatureSource {
      std::size_t prepare(std::span<const std::int64_t> ids) override { return ids.size(); }
      void gather(std::size_t, std::byte*) override { throw Error(ErrorCode::kIo, "the disk is gone"); }
      TierCounts counts() const override { return {}; }
    };
    return std::make_unique<Refusing>();
  };
  EXPECT_THROW(rehearse(*dataset_, dataset_->split(0, "train"),
                        {.batch = batch(), .batch_size = 16, .make_source = refuse}),
               Error);
}

}  // namespace
}  // namespace hopfeed
