// What is at a dataset's place when it is finished: nothing is replaced unasked, whenever it has appeared,
// and links stay.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "core/dataset/dataset.h"
#include "core/dataset/dataset_writer.h"
#include "tests/partition_tool/made_dataset.h"
#include "tests/support/expect_refused.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::no_progress;
using testing::write_bytes;

class CommitDataset : public ::testing::Test {
 protected:
  /// Makes a ring of so many nodes at `target`; `meanwhile` is called before its last step.
  template <class Meanwhile>
  void make(const fs::path& target, std::int64_t nodes, bool overwrite, const Meanwhile& meanwhile) {
    const RawGraph graph = testing::raw_graph_of(testing::ring_graph(nodes));
    DatasetWriter writer(target, {.overwrite = overwrite});
    const DatasetBuildResult result =
        build_dataset(writer, graph, order_nodes(graph, {}, 1, {}, no_progress), {.threads = 1}, no_progress);
    meanwhile();
    writer.commit(result.meta);
  }
  void make(const fs::path& target, std::int64_t nodes, bool overwrite = false) {
    make(target, nodes, overwrite, [] {});
  }
  /// Another process makes one: what this one's writers leave is not swept by itself.
  void make_elsewhere(std::int64_t nodes, bool overwrite) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        make(target_, nodes, overwrite);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        _exit(1);
      }
      _exit(0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  static std::int64_t nodes_of(const fs::path& folder) { return Dataset(folder).num_nodes(0); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }

  const testing::TempFolder folder_;
  const fs::path target_ = folder_.path() / "d";
};

TEST_F(CommitDataset, WhatHasAppearedMeanwhileIsLeftAsItIs) {
  for (const bool overwrite : {false, true}) {
    const std::string why = overwrite ? "is not a hopfeed dataset" : "exists; choose another folder";
    expect_refused([&] { make(target_, 6, overwrite, [&] { write_bytes(target_, "precious"); }); }, why);
    EXPECT_EQ(testing::file_bytes(target_), "precious");
    fs::remove(target_);
    expect_refused(
        [&] {
          make(target_, 6, overwrite, [&] {
            fs::create_directory(target_);
            write_bytes(target_ / "thesis.txt", "precious");
          });
        },
        why);
    EXPECT_EQ(testing::file_bytes(target_ / "thesis.txt"), "precious");
    EXPECT_EQ(entries(), 1U) << "and nothing of what was written";
    fs::remove_all(target_);
  }
}

TEST_F(CommitDataset, OfTwoAtOnceTheSecondIsRefused_AndAnEmptyFolderIsTaken) {
  expect_refused([&] { make(target_, 6, false, [&] { make_elsewhere(8, false); }); },
                 "exists; choose another folder");
  EXPECT_EQ(nodes_of(target_), 8);
  make(target_, 6, true, [&] { make_elsewhere(10, true); });
  EXPECT_EQ(nodes_of(target_), 6) << "both were asked to replace";
  fs::remove_all(target_);
  make(target_, 6, false, [&] { fs::create_directory(target_); });
  EXPECT_EQ(nodes_of(target_), 6);
  EXPECT_EQ(entries(), 1U);
}

TEST_F(CommitDataset, ALinkStays_AndTheDatasetAppearsWhereItLeads) {
  fs::create_directory(folder_.path() / "big");
  fs::create_directory(folder_.path() / "big/empty");
  fs::create_directory_symlink("big/v1", target_);
  expect_refused([&] { make(target_, 6); }, "is a symbolic link to big/v1, which is not there");
  make(folder_.path() / "big/v1", 6);
  expect_refused([&] { make(target_, 8); }, "exists; choose another folder");
  make(target_, 8, true);
  EXPECT_TRUE(fs::is_symlink(target_));
  EXPECT_EQ(nodes_of(folder_.path() / "big/v1"), 8);
  fs::create_directory_symlink("big/empty", folder_.path() / "out");
  make(folder_.path() / "out", 10);
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "out"));
  EXPECT_EQ(nodes_of(folder_.path() / "big/empty"), 10);
}

}  // namespace
}  // namespace hopfeed
