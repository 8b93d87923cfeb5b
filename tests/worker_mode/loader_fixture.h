// What the tests of the loader share: a small dataset, options that start quickly, and the oracle. The oracle
// is the obvious way: one thread deals, samples and hashes batch after batch in this process, with no channel
// and no workers.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/batch_maker.h"
#include "core/dataset.h"
#include "core/deal.h"
#include "core/error.h"
#include "core/seed_list.h"
#include "tests/support/processes.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// One batch as a line: key, sizes, digest.
inline std::string line_of(const BatchView& batch) {
  char text[160];
  std::snprintf(text, sizeof(text), "%ld %ld %ld %ld %ld %016lx", batch.key().epoch, batch.key().first,
                batch.key().count, batch.num_nodes(), batch.num_edges(), batch.digest());
  return text;
}

struct EpochRange {
  std::int64_t epoch = 0, start = 0;
};

/// All batches of this rank in one epoch, through the loader.
inline std::vector<std::string> loaded(Loader& loader, EpochRange range = {}) {
  std::vector<std::string> lines;
  loader.begin_epoch(range.epoch, range.start);
  while (const std::optional<Batch> batch = loader.next()) lines.push_back(line_of(batch->view()));
  return lines;
}

/// The same by the oracle.
inline std::vector<std::string> expected(const LoaderOptions& options, EpochRange range = {}) {
  const Dataset dataset(options.dataset);
  const SeedList seeds(
      options.seeds ? std::span<const std::int64_t>(*options.seeds) : dataset.split(0, options.split),
      {.node_type = 0, .shuffle = options.shuffle});
  const Deal deal({.num_seeds = seeds.size(),
                   .start = range.start,
                   .batch_size = options.batch_size,
                   .world_size = options.world_size,
                   .drop_last = options.drop_last});
  BatchMaker maker(dataset, seeds, options.batch);
  std::vector<std::string> lines;
  for (std::int64_t step = 0; step < deal.steps(); ++step) {
    const Deal::Range batch = deal.batch(step, options.rank);
    const std::size_t bytes = maker.sample(
        {.seed = options.seed, .epoch = range.epoch, .first = batch.first, .count = batch.count});
    std::vector<std::byte> buffer(bytes + kBlockAlignment);
    const std::size_t shift =
        (kBlockAlignment - reinterpret_cast<std::size_t>(buffer.data()) % kBlockAlignment) % kBlockAlignment;
    maker.write({buffer.data() + shift, bytes});
    lines.push_back(line_of(BatchView({buffer.data() + shift, bytes})));
  }
  return lines;
}

/// "code: message" of the Error that a call throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

/// Every test runs over the same small random graph and leaves nothing behind.
template <int seconds = 60>
class LoaderTestWithin : public testing::WatchedTest<seconds> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 9, .num_train = 230});
    for (int parts : {1, 2, 3})
      testing::write_tiny_dataset(path(parts), graph, testing::random_cut(graph, parts, 5));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::filesystem::path path(int parts) { return folder_->path() / ("parts" + std::to_string(parts)); }
  static const std::filesystem::path& folder() { return folder_->path(); }
  static LoaderOptions options(int parts = 1) {
    LoaderOptions options;
    options.dataset = path(parts).string();
    options.batch.fanouts = {4, 3};
    options.batch_size = 16;
    options.seed = 11;
    options.num_workers = 2;
    options.channel_size = 8 << 20;
    return options;
  }

  void SetUp() override { before_ = testing::Leftovers::now(); }
  void TearDown() override { EXPECT_EQ(testing::Leftovers::now(), before_); }

 private:
  inline static testing::TempFolder* folder_ = nullptr;
  testing::Leftovers before_;
};

using LoaderTest = LoaderTestWithin<>;

}  // namespace hopfeed
