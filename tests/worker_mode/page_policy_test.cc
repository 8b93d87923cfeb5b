// The page policy of a loader reaches its workers and changes no byte; what the kernel gave is told.
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using PagePolicyTest = LoaderTestWithin<>;

// Features of more than 2 MiB, so that huge pages are possible.
LoaderOptions wide_options(const std::filesystem::path& folder, HugePages policy) {
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 3'000, .num_edges = 9'000, .x_width = 500, .num_train = 200});
  if (!std::filesystem::exists(folder)) testing::write_tiny_dataset(folder, graph);
  LoaderOptions options;
  options.dataset = folder.string();
  options.batch.fanouts = {4, 3};
  options.deal.batch_size = 16;
  options.execution.channel_size = 64 << 20;
  options.execution.huge_pages = policy;
  return options;
}

TEST_F(PagePolicyTest, Never_MapsTheDatasetByPagesOf4KiBInTheWorkers) {
  const LoaderOptions options = wide_options(folder() / "wide", HugePages::kNever);
  Loader loader(options);
  EXPECT_EQ(loaded(loader), expected(options));
  EXPECT_GT(loader.stats().dataset_pages.resident, 0u);
  EXPECT_EQ(loader.stats().dataset_pages.huge, 0u);
}

TEST_F(PagePolicyTest, Always_IsHeldOrRefusedByNameAndGivesTheSameBytes) {
  const LoaderOptions options = wide_options(folder() / "wide", HugePages::kAlways);
  try {
    Loader loader(options);
    EXPECT_EQ(loaded(loader), expected(options));
    EXPECT_GE(loader.stats().dataset_pages.huge, 2 * kHugePageBytes);
  } catch (const Error& error) {  // a file system without huge pages
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("use huge pages auto"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace hopfeed
