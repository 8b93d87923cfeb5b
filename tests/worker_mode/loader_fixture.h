// Tests of the loader share this: a small dataset, options that start quickly, and nothing left behind.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/batch/deal.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/seeds/node_list.h"
#include "tests/support/processes.h"
#include "tests/support/sharded_ids.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/worker_mode/oracle.h"
#include "worker_mode/loader.h"

namespace hopfeed {

/// Returns "code: message" of the Error that a call throws.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "no error";
}

/// Every test runs over the same small random graph and leaves nothing behind. Its rows are of 68 bytes: a
/// row cache takes none below 64.
template <int seconds = 60>
class LoaderTestWithin : public testing::WatchedTest<seconds> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    const testing::TinyGraph graph =
        testing::random_graph({.num_nodes = 400, .num_edges = 4'000, .x_width = 17, .num_train = 230});
    for (int parts : {1, 2, 3})
      testing::write_tiny_dataset(path(parts), graph, testing::random_cut(graph, parts, 5));
    testing::TinyCut with_halos = testing::random_cut(graph, 3, 5);
    with_halos.halos = true;
    testing::write_tiny_dataset(folder_->path() / "halos3", graph, with_halos);
    testing::write_tiny_dataset(folder_->path() / "sharded3", graph, with_halos);
    testing::shard_ids(folder_->path() / "sharded3");
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
    options.deal.batch_size = 16;
    options.seed = 11;
    options.execution.num_workers = 2;
    options.execution.channel_size = 8 << 20;
    return options;
  }

  /// Returns hopfeed-sample with options() but its number of workers and memory, and `more`.
  static std::vector<std::string> sample_command(const std::vector<std::string>& more = {},
                                                 const std::filesystem::path& dataset = path(1)) {
    std::vector<std::string> command{testing::program("hopfeed-sample"), dataset.string()};
    for (const char* word : {"--fanouts", "4,3", "--batch-size", "16", "--seed", "11"})
      command.push_back(word);
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  /// Returns the command of sample_command() as a line for a shell.
  static std::string sample_line(const std::vector<std::string>& more = {},
                                 const std::filesystem::path& dataset = path(1)) {
    std::string line;
    for (const std::string& word : sample_command(more, dataset)) line += word + " ";
    return line;
  }

  void SetUp() override { take_stock(); }
  /// Takes stock: what is there now may stay.
  void take_stock() { before_ = testing::Leftovers::now(); }
  void TearDown() override { EXPECT_EQ(testing::Leftovers::now(), before_); }

 private:
  inline static testing::TempFolder* folder_ = nullptr;
  testing::Leftovers before_;
};

using LoaderTest = LoaderTestWithin<>;

}  // namespace hopfeed
