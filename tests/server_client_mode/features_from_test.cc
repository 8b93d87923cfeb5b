// Where features are read from changes no byte of a batch: in the calling thread, in workers and over a
// server.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/batch/execution_options.h"
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
    options.execution.features = from;
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
  static std::vector<std::uint64_t> loaded(FeaturesFrom from, std::int64_t num_workers) {
    Loader loader(wide(from, num_workers));
    return digests(loader);
  }
  static std::vector<std::uint64_t> served(FeaturesFrom from) {
    const LoaderOptions options = wide(FeaturesFrom::kMemory, 1);
    ServerOptions server = server_options(options.dataset);
    server.features = from;
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
  EXPECT_EQ(served(FeaturesFrom::kMemory), expected) << "over a server";
  EXPECT_EQ(served(FeaturesFrom::kFile), expected) << "over a server that reads files";
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
    config.execution.features = from;
    EXPECT_EQ(WorkerConfig::from_json(config.to_json()).execution.features, from);
  }
  EXPECT_THROW(features_from("disk"), Error);
}

}  // namespace
}  // namespace hopfeed
