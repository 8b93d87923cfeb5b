// Where features are read from changes no byte of a batch: in the calling thread, in workers and over a
// server.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "stream/local_execution.h"
#include "tests/server_client_mode/served_stream.h"
#include "tests/worker_mode/loader_fixture.h"
#include "worker_mode/worker_config.h"

namespace hopfeed {
namespace {

/// Rows of 160 bytes, which come from the file; those of labels stay mapped.
class FeaturesFromTest : public LoaderTestWithin<120> {
 protected:
  static LoaderOptions wide(FeaturesFrom from, std::int64_t num_workers) {
    const std::filesystem::path path = folder() / "wide";
    if (!std::filesystem::exists(path)) {
      const testing::TinyGraph graph =
          testing::random_graph({.num_nodes = 500, .num_edges = 4'000, .x_width = 40, .num_train = 130});
      testing::write_tiny_dataset(path, graph, testing::random_cut(graph, 2, 5));
    }
    LoaderOptions options = LoaderTestWithin<120>::options();
    options.dataset = path.string();
    options.execution.num_workers = num_workers;
    options.execution.features.from = from;
    return options;
  }
  static std::vector<std::uint64_t> digests(BatchStream& stream) {
    std::vector<std::uint64_t> all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      stream.begin_epoch(epoch, 0);
      while (const auto batch = stream.next()) all.push_back(batch->view().digest());
    }
    return all;
  }
  static std::vector<std::uint64_t> loaded(const FeatureTiers& tiers, std::int64_t num_workers,
                                           TierCounts* counts = nullptr) {
    LoaderOptions options = wide(tiers.from, num_workers);
    options.execution.features = tiers;
    Loader loader(options);
    std::vector<std::uint64_t> all = digests(loader);
    if (counts != nullptr) *counts = loader.stats().tiers;
    return all;
  }
  static std::vector<std::uint64_t> loaded(FeaturesFrom from, std::int64_t num_workers) {
    return loaded(FeatureTiers{.from = from}, num_workers);
  }
  static std::vector<std::uint64_t> served(const FeatureTiers& tiers) {
    const LoaderOptions options = wide(FeaturesFrom::kMemory, 1);
    ServerOptions server = server_options(options.dataset);
    server.features = tiers;
    server.worker_program = testing::program("hopfeed-worker");
    ServedStream stream(server, remote_options({}), options);
    return digests(stream);
  }
};

TEST_F(FeaturesFromTest, FilesGiveTheBatchesOfMemory) {
  const std::vector<std::uint64_t> expected = loaded(FeaturesFrom::kMemory, 0);
  EXPECT_EQ(expected.size(), 2U * 9);
  EXPECT_EQ(loaded(FeaturesFrom::kFile, 0), expected) << "in the calling thread";
  EXPECT_EQ(loaded(FeaturesFrom::kFile, 2), expected) << "in workers";
  EXPECT_EQ(served({}), expected) << "over a server";
  EXPECT_EQ(served({.from = FeaturesFrom::kFile}), expected) << "over a server that reads files";
}

/// 500 rows of 160 bytes, of which this holds a part, whatever the bookkeeping takes.
FeatureTiers with_row_cache(std::int64_t window) {
  return {.from = FeaturesFrom::kFile, .row_cache_bytes = 100 << 10, .window = window};
}

TEST_F(FeaturesFromTest, ARowCacheAndAnyWindowGiveTheBatchesOfMemory) {
  const std::vector<std::uint64_t> expected = loaded(FeaturesFrom::kMemory, 0);
  for (const std::int64_t window : {-1, 0, 1, 4, 31}) {
    for (const std::int64_t workers : {0, 1, 3}) {
      TierCounts counts;
      EXPECT_EQ(loaded(with_row_cache(window), workers, &counts), expected) << window << " of " << workers;
      EXPECT_GT(counts.cache_rows, 0) << window << " of " << workers;
      EXPECT_GT(counts.file_rows, 0) << window << " of " << workers;
      EXPECT_GT(counts.memory_rows, 0) << "labels";
      EXPECT_EQ(counts.cache_bytes, 160 * counts.cache_rows);
    }
  }
  EXPECT_EQ(served(with_row_cache(4)), expected) << "over a server";
}

TEST_F(FeaturesFromTest, WorkersOfSeveralLoadersShareTheRowCache) {
  LoaderOptions options = wide(FeaturesFrom::kFile, 1);
  options.execution.features.row_cache_bytes = 1 << 20;  // has room for all rows
  Loader first(options);
  digests(first);
  Loader second(options);
  digests(second);
  EXPECT_EQ(second.stats().tiers.file_rows, 0) << "all were there";
  EXPECT_GT(second.stats().tiers.cache_rows, 0);
}

/// A dataset that may be replaced: the same content in another order for each seed.
LoaderOptions replaceable(LoaderOptions options, const std::filesystem::path& path, std::uint64_t seed) {
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 500, .num_edges = 4'000, .x_width = 40, .num_train = 130});
  testing::write_tiny_dataset(path, graph, testing::random_cut(graph, 2, seed));
  options.dataset = path.string();
  return options;
}

TEST_F(FeaturesFromTest, ARowCacheIsNotThatOfAnotherOrderOfTheSameContent) {
  const std::vector<std::uint64_t> expected = loaded(FeaturesFrom::kMemory, 0);
  for (const std::int64_t workers : {0, 1}) {
    LoaderOptions options = replaceable(wide(FeaturesFrom::kFile, workers), folder() / "replaced", 5);
    options.execution.features.row_cache_bytes = 1 << 20;
    Loader first(options);
    EXPECT_EQ(digests(first), expected);
    replaceable(options, folder() / "replaced", 6);
    Loader second(options);
    EXPECT_EQ(digests(second), expected);
  }
}

constexpr const char* kReplaced = "was replaced while it was in use; start the loader, or the server, again";

TEST_F(FeaturesFromTest, AWorkerThatFindsAnotherOrderThanItsLoader_SaysThatItWasReplaced) {
  LoaderOptions options = replaceable(wide(FeaturesFrom::kFile, 1), folder() / "replaced", 5);
  options.execution.features.row_cache_bytes = 1 << 20;
  Loader loader(options);
  digests(loader);
  replaceable(options, folder() / "replaced", 6);
  for (const int pid : loader.worker_pids()) ::kill(pid, SIGKILL);
  const std::string error = error_of([&] { digests(loader); });
  EXPECT_NE(error.find(options.dataset + " " + kReplaced), std::string::npos) << error;
}

// The client holds rows of the order that the server told it.
TEST_F(FeaturesFromTest, AServersWorkerThatFindsAnotherOrder_SaysThatItWasReplaced) {
  const LoaderOptions options = replaceable(wide(FeaturesFrom::kMemory, 1), folder() / "replaced", 5);
  ServerOptions server = server_options(options.dataset, 1);
  server.worker_program = testing::program("hopfeed-worker");
  RemoteExecution remote = remote_options({});
  remote.cache.ratio = 0.5;
  ServedStream stream(server, remote, options);
  digests(stream);
  replaceable(options, folder() / "replaced", 6);
  for (const int pid : stream.server().worker_pids()) ::kill(pid, SIGKILL);
  const std::string error = error_of([&] { digests(stream); });
  EXPECT_NE(error.find(std::string("the dataset tiny ") + kReplaced), std::string::npos) << error;
}

TEST_F(FeaturesFromTest, KilledWorkersTakeNoRowOfTheCacheAlong) {
  const std::vector<std::uint64_t> expected = loaded(FeaturesFrom::kMemory, 0);
  LoaderOptions options = wide(FeaturesFrom::kFile, 2);
  options.execution.features = with_row_cache(4);
  Loader loader(options);
  std::vector<std::uint64_t> all;
  for (int epoch = 0; epoch < 2; ++epoch) {
    loader.begin_epoch(epoch, 0);
    while (const auto batch = loader.next()) {
      all.push_back(batch->view().digest());
      if (all.size() % 3 != 0) continue;
      for (const int pid : loader.worker_pids()) ::kill(pid, SIGKILL);
    }
  }
  EXPECT_EQ(all, expected);
  EXPECT_GT(loader.stats().tiers.cache_rows, 0);
}

// The file is really what is read: bytes that are changed in the page cache alone are not seen, but a file
// that lost its end is named.
TEST_F(FeaturesFromTest, FileTruncatedDuringAnEpoch_IsNamed) {
  LoaderOptions options = wide(FeaturesFrom::kFile, 0);
  const std::filesystem::path copy = folder() / "damaged";
  std::filesystem::copy(options.dataset, copy, std::filesystem::copy_options::recursive);
  options.dataset = copy.string();
  Loader loader(options);
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  const std::filesystem::path file = copy / "part-0001" / "nodes" / "node" / "x.npy";
  std::filesystem::resize_file(file, 4'096);
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_NE(error.find(file.string() + " ends at byte 4096"), std::string::npos) << error;
}

TEST(FeaturesFromName, IsReadAndTold) {
  for (const FeaturesFrom from : {FeaturesFrom::kMemory, FeaturesFrom::kFile}) {
    EXPECT_EQ(features_from(to_string(from)), from);
    WorkerConfig config;
    config.asks_for_jobs = true;
    config.execution.features = {.from = from, .row_cache_bytes = 4'096, .window = 7};
    const FeatureTiers read = WorkerConfig::from_json(config.to_json()).execution.features;
    EXPECT_EQ(read.from, from);
    EXPECT_EQ(read.row_cache_bytes, 4'096U);
    EXPECT_EQ(read.window, 7);
  }
  EXPECT_THROW(features_from("disk"), Error);
}

TEST(FeatureTiers, WindowIsShortForLargeBatchesAndSharedByManyWorkers) {
  FeatureTiers tiers{.from = FeaturesFrom::kFile, .row_cache_bytes = 1 << 20};
  EXPECT_EQ(tiers.window_for(1'024, 2), 4);
  EXPECT_EQ(tiers.window_for(64, 1), 16);
  EXPECT_EQ(tiers.window_for(64, 4), 7) << "32 batches are known at a time";
  EXPECT_EQ(tiers.window_for(64, 100), 1);
  EXPECT_EQ(tiers.window_for(64, 0), 16) << "the calling thread";
  EXPECT_EQ(tiers.window_for(1'024, 2, /*some_partitions=*/true), 15) << "few rows of a batch are others'";
  tiers.window = 0;
  EXPECT_EQ(tiers.window_for(64, 100), 0);
  tiers.row_cache_bytes = 0;
  tiers.window = -1;
  EXPECT_EQ(tiers.window_for(64, 1), 0) << "nobody would be told";
}

TEST(FeatureTiers, RowCacheOrWindowWithoutFilesIsRefused) {
  EXPECT_THROW((FeatureTiers{.row_cache_bytes = 1 << 20}.validate()), Error);
  EXPECT_THROW((FeatureTiers{.from = FeaturesFrom::kFile, .window = 4}.validate()), Error);
  EXPECT_THROW((FeatureTiers{.from = FeaturesFrom::kFile, .row_cache_bytes = 4'096, .window = 32}.validate()),
               Error);
  EXPECT_NO_THROW((FeatureTiers{.from = FeaturesFrom::kFile, .row_cache_bytes = 4'096}.validate()));
}

}  // namespace
}  // namespace hopfeed
