// Tests of streams over more than 2^33 nodes share this: the dataset, one job of each kind over it, and what
// its batches have to be.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/processes.h"
#include "tests/support/sparse_dataset.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/watchdog.h"
#include "tests/worker_mode/oracle.h"

namespace hopfeed {

class ManyNodesStreamTest : public testing::WatchedTest<60> {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TempFolder;
    testing::write_sparse_dataset(path());
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::filesystem::path path() { return folder_->path() / "sparse"; }

  /// Returns jobs by name, over `train`, whose seeds are all beyond 2^33, or over a few links.
  static std::map<std::string, LoaderOptions> jobs() {
    LoaderOptions plain;
    plain.dataset = path().string();
    plain.batch = {.fanouts = {3, 2}, .edge_ids = true, .edge_attrs = {"w", "t"}};
    plain.deal.batch_size = 8;
    plain.seed = 11;
    plain.execution.num_workers = 2;
    plain.execution.channel_size = 8 << 20;
    std::map<std::string, LoaderOptions> jobs{
        {"uniform", plain}, {"weighted", plain}, {"temporal", plain}, {"walks", plain}, {"links", plain}};
    jobs["weighted"].batch.weight = "w";
    jobs["temporal"].batch.time = "t";
    BatchOptions walks{.sampler = BatchOptions::kWalkSampler};
    walks.walk = {.length = 6, .per_seed = 3};
    jobs["walks"].batch = walks;
    LoaderOptions& links = jobs["links"];
    links.batch.disjoint = true;  // its negatives are holes, which all read as node 0
    links.batch.link = {.edge_type = "to",
                        .negatives = {.mode = NegativeMode::kBinary, .amount = 1, .strict = true}};
    const std::vector<std::int64_t>& all = testing::sparse_graph().links;
    links.links = LinkInput{.pairs = {{all.begin(), all.begin() + 24}}};  // a look into a hole takes its time
    return jobs;
  }

  /// Expects the bytes of one process that has the whole, and ids beyond 2^33 in every batch.
  static void expect_its_bytes(BatchStream& stream, const LoaderOptions& options) {
    std::vector<std::string> lines;
    stream.begin_epoch(0, 0);
    while (const std::optional<Batch> batch = stream.next()) {
      lines.push_back(line_of(batch->view()));
      EXPECT_GE(std::ranges::max(batch->view().n_id()), testing::SparseGraph::kBeyond);
    }
    EXPECT_GT(lines.size(), 1U);
    EXPECT_EQ(lines, expected(options));
  }

  void SetUp() override { before_ = testing::Leftovers::now(); }
  void TearDown() override { EXPECT_EQ(testing::Leftovers::now(), before_); }

 private:
  inline static testing::TempFolder* folder_ = nullptr;
  testing::Leftovers before_;
};

}  // namespace hopfeed
