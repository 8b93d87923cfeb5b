// Alias tables in a dataset's files: read in the layouts of all versions, verified, and errors of the sampler
// where they are damaged.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <tuple>

#include "core/dataset/alias_table.h"
#include "core/dataset/dataset.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

using testing::change_file;
using testing::golden;
using testing::verify;

/// Four weighted edges of node 0: their alias tables with ids of 32 and 64 bits, with sources and without.
class AliasTables : public ::testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  AliasTables() {
    testing::write_typed_dataset(
        data_,
        {.nodes = {{.count = 5}},
         .edges = {{.sources = {1, 2, 3, 4}, .destinations = {0, 0, 0, 0}, .weight = {1, 2, 3, 4}}}},
        {.wide_ids = wide_, .alias_sources = sources_});
  }
  std::size_t source_at(std::size_t source) const { return sizeof(AliasEntry) + source * id_bytes_; }
  void expect_found(const std::string& what) {
    expect_refused([&] { verify(data_); }, what, ErrorCode::kCorrupt);
  }

  const bool wide_ = std::get<0>(GetParam()), sources_ = std::get<1>(GetParam());
  const std::size_t id_bytes_ = wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t);
  const std::size_t entry_bytes_ = sources_ ? alias_entry_bytes(id_bytes_) : sizeof(AliasEntry);
  testing::TempFolder folder_;
  const fs::path data_ = folder_.path() / "data";
  const std::string file_ = "part-0000/edges/node__to__node/alias/weight.npy";
};
INSTANTIATE_TEST_SUITE_P(Layouts, AliasTables, ::testing::Combine(::testing::Bool(), ::testing::Bool()));

/// Those that have sources.
class AliasTableSources : public AliasTables {};
INSTANTIATE_TEST_SUITE_P(Layouts, AliasTableSources,
                         ::testing::Combine(::testing::Bool(), ::testing::Values(true)));

TEST_P(AliasTables, OfOtherWeights_AreFoundByVerify) {
  verify(data_);
  EXPECT_EQ(Dataset(data_).weight(0, "weight").entry_bytes, entry_bytes_);
  testing::swap_first_two(data_, file_, entry_bytes_);
  expect_found("row 0 is not what the weights of its edges give");
}

TEST_P(AliasTableSources, OfOtherNodes_AreFoundByVerify) {
  for (const std::size_t source : {0, 1}) {
    const auto flip = [&](std::byte* first) { first[source_at(source)] ^= std::byte{7}; };
    change_file(data_, file_, flip);
    expect_found("row 0 has other neighbours");
    change_file(data_, file_, flip);
    verify(data_);
  }
}

TEST_P(AliasTables, WithAliasesThatAreNoEdges_AreErrorsOfTheSampler) {
  change_file(data_, file_, [&](std::byte* first) {
    for (std::size_t i = 0; i < 4; ++i) {
      const AliasEntry damaged{.threshold = 0, .alias = UINT32_MAX};
      std::memcpy(first + i * entry_bytes_, &damaged, sizeof(damaged));
    }
  });
  const Dataset dataset(data_);
  for (const bool replace : {false, true}) {
    for (const bool edge_ids : {false, true}) {
      const BatchOptions options{
          .fanouts = {2}, .replace = replace, .weight = "weight", .edge_ids = edge_ids};
      const auto make = [&] { testing::make_batch(dataset, {{0}}, options); };
      // Then nothing needs the position; the source is checked as any other.
      if (sources_ && replace && !edge_ids)
        EXPECT_NO_THROW(make());
      else
        expect_refused(make, "the row of node 0 has a weight", ErrorCode::kCorrupt);
    }
  }
}

TEST_P(AliasTableSources, ThatAreNoNodes_AreErrorsOfTheSampler) {
  change_file(data_, file_, [&](std::byte* first) {
    for (std::size_t i = 0; i < 4; ++i)
      std::memset(first + i * entry_bytes_ + source_at(0), 0x55, 2 * id_bytes_);
  });
  const Dataset dataset(data_);
  for (const std::int64_t fanout : {-1, 2})
    expect_refused([&] { testing::make_batch(dataset, {{0}}, {.fanouts = {fanout}, .weight = "weight"}); },
                   "has source node ", ErrorCode::kCorrupt);
}

testing::TypedGraph weighted_graph() {
  testing::TypedGraph graph{.nodes = {{.count = 40}}, .edges = {{}}};
  for (std::int64_t i = 0; i < 200; ++i) {
    graph.edges[0].sources.push_back((i * 7 + 3) % 40);
    graph.edges[0].destinations.push_back(i * i % 23);
    graph.edges[0].weight.push_back(static_cast<double>(i * 37 % 11));
  }
  return graph;
}

TEST(GoldenDataset, WithWeights_IsReadAndWrittenByteByByte) {
  testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "weights", weighted_graph());
  testing::expect_golden(folder.path() / "weights", "weights-v7");
  EXPECT_EQ(Dataset(testing::golden("weights-v7")).meta().version(), kWeightsDatasetVersion);
}

// Imported and cut in two by hopfeed-partition before alias tables carried sources.
TEST(GoldenDataset, WithWeightsOfVersion4_IsReadAndGivesTheSameBatches) {
  verify(golden("weights-v4"));
  const Dataset before(golden("weights-v4")), now(golden("weights-v7"));
  EXPECT_EQ(before.weight(0, "weight").entry_bytes, sizeof(AliasEntry));
  EXPECT_EQ(now.weight(0, "weight").entry_bytes, sizeof(AliasEntry) + 2 * sizeof(std::int32_t));
  std::vector<std::int64_t> seeds(40);
  std::iota(seeds.begin(), seeds.end(), 0);
  for (const bool replace : {false, true}) {
    for (const std::int64_t fanout : {-1, 3, 17, 40}) {
      const BatchOptions options{
          .fanouts = {fanout, 2}, .replace = replace, .weight = "weight", .edge_ids = true};
      EXPECT_EQ(testing::make_batch(before, {seeds}, options).view().digest(),
                testing::make_batch(now, {seeds}, options).view().digest())
          << "fanout " << fanout << (replace ? " with replacement" : "");
    }
  }
}

}  // namespace
}  // namespace hopfeed
