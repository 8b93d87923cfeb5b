// A graph of 12 billion nodes in three partitions: seeds beyond 2^33, which lie in every partition, and their
// neighbours are those that were written, by every kind of sampling, whole and over machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/memory_limits.h"
#include "core/seeds/negative_draws.h"
#include "tests/core/chi_square.h"
#include "tests/support/machines.h"
#include "tests/support/made_batch.h"
#include "tests/support/sparse_dataset.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using testing::sparse_graph;
using testing::SparseGraph;

BatchOptions walks() {
  BatchOptions options{.sampler = BatchOptions::kWalkSampler};
  options.walk = {.length = 6, .per_seed = 3};
  return options;
}

/// Every kind, by its name.
std::map<std::string, BatchOptions> kinds() {
  std::map<std::string, BatchOptions> kinds{
      {"all", {.fanouts = {-1, -1}}},
      {"uniform", {.fanouts = {3, 2}}},
      {"replace", {.fanouts = {3, 2}, .replace = true}},
      {"disjoint", {.fanouts = {3, 2}, .disjoint = true}},
      {"labor", {.fanouts = {3, 2}, .labor = true}},
      {"weighted", {.fanouts = {3, 2}, .weight = "w"}},
      {"weighted with replacement", {.fanouts = {3, 2}, .replace = true, .weight = "w"}},
      {"temporal", {.fanouts = {3, 2}, .time = "t"}},
      {"temporal, last", {.fanouts = {3, 2}, .time = "t", .temporal_strategy = TemporalStrategy::kLast}},
      {"induced", {.fanouts = {3, 2}, .subgraph = Subgraph::kInduced}},
      {"walks", walks()}};
  for (auto& [name, options] : kinds) {
    options.edge_ids = true;
    options.edge_attrs = {"w", "t"};
  }
  return kinds;
}

/// Every edge is one that was written, with its attributes, and so is every node.
void expect_written(const BatchView& batch) {
  const Ints sources = testing::source_row(batch), targets = testing::target_row(batch);
  const auto n_id = batch.n_id();
  const auto ids = batch.get("e_id", Store::kEdge).as<std::int64_t>(),
             times = batch.get("t", Store::kEdge).as<std::int64_t>(),
             y = batch.get("y", Store::kNode).as<std::int64_t>();
  const auto weights = batch.get("w", Store::kEdge).as<double>();
  const auto x = batch.get("x", Store::kNode).as<float>();
  EXPECT_FALSE(sources.empty());
  for (std::size_t e = 0; e < sources.size(); ++e) {
    const auto& row = sparse_graph().rows.at(n_id[static_cast<std::size_t>(targets[e])]);
    const auto at = std::ranges::find(row, ids[e], &SparseGraph::Edge::id);
    ASSERT_NE(at, row.end()) << ids[e];
    EXPECT_EQ(n_id[static_cast<std::size_t>(sources[e])], at->source);
    EXPECT_EQ(weights[e], at->weight);
    EXPECT_EQ(times[e], at->time);
  }
  for (std::size_t i = 0; i < n_id.size(); ++i) {
    EXPECT_TRUE(sparse_graph().new_id.contains(n_id[i])) << n_id[i];
    if (n_id[i] == 0) continue;  // the rows of holes are zeros
    EXPECT_EQ(y[i], SparseGraph::y_of(n_id[i]));
    for (std::int64_t k = 0; k < SparseGraph::kWidth; ++k)
      EXPECT_EQ(x[i * SparseGraph::kWidth + static_cast<std::size_t>(k)], SparseGraph::x_of(n_id[i], k));
  }
}

class ManyNodes : public ::testing::Test {
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
  static BatchOptions of_links(NegativeMode mode, bool strict) {
    BatchOptions options{.fanouts = {3, 2},
                         .disjoint = mode != NegativeMode::kNone,
                         .edge_ids = true,
                         .edge_attrs = {"w", "t"}};
    options.link = {
        .edge_type = "to",
        .negatives = {.mode = mode, .amount = mode == NegativeMode::kNone ? 1.0 : 2.0, .strict = strict}};
    return options;
  }

 private:
  inline static testing::TempFolder* folder_ = nullptr;
};

// Otherwise all of these would test little.
TEST_F(ManyNodes, SeedsBeyond2To33_LieInEveryPartition) {
  const Dataset dataset(path());
  std::set<int> partitions;
  for (const std::int64_t v : dataset.split(0, "train")) {
    EXPECT_GE(v, SparseGraph::kBeyond);
    EXPECT_EQ(dataset.original_id(0, dataset.dataset_id(0, v)), v);
    partitions.insert(dataset.row_place(0, dataset.dataset_id(0, v)).part);
  }
  EXPECT_EQ(partitions.size(), 3U);
}

TEST_F(ManyNodes, EveryKindOfSampling_GivesWhatWasWritten) {
  const Dataset dataset(path());
  for (const auto& [name, options] : kinds()) {
    SCOPED_TRACE(name);
    const testing::Block block = testing::make_batch(dataset, {sparse_graph().train, true}, options);
    expect_written(block.view());
    EXPECT_GE(std::ranges::max(block.view().n_id()), SparseGraph::kBeyond);
  }
}

/// Eight of them: a look into a hole may read megabytes of it.
Ints some_links() { return {sparse_graph().links.begin(), sparse_graph().links.begin() + 16}; }

/// Local ids of the sources and destinations of the batch's links, and of its negatives behind them.
std::pair<Ints, Ints> ends_of(const BatchView& batch) {
  const auto of_edges = [&](const char* name) { return testing::ints(batch.get(name, Store::kEdge)); };
  if (batch.has("src_index", Store::kEdge)) return {of_edges("src_index"), of_edges("dst_pos_index")};
  const Ints index = of_edges("edge_label_index");
  const auto middle = index.begin() + std::ssize(index) / 2;
  return {Ints(index.begin(), middle), Ints(middle, index.end())};
}

// Negatives are holes, which all read as node 0: only in trees of their own are they told apart.
TEST_F(ManyNodes, LinksAndNegatives_GiveWhatWasWritten) {
  const Dataset dataset(path());
  const Ints links = some_links();
  for (const NegativeMode mode : {NegativeMode::kNone, NegativeMode::kBinary, NegativeMode::kTriplet}) {
    for (const bool strict : {false, mode != NegativeMode::kNone}) {
      SCOPED_TRACE(std::string(to_string(mode)) + (strict ? ", strict" : ""));
      const testing::Block block =
          testing::make_link_batch(dataset, {.pairs = links}, of_links(mode, strict));
      const BatchView batch = block.view();
      expect_written(batch);
      const auto [sources, destinations] = ends_of(batch);
      EXPECT_EQ(std::ssize(sources), std::ssize(links) / 2 * (mode == NegativeMode::kBinary ? 3 : 1));
      for (std::size_t i = 0; i < links.size() / 2; ++i) {
        EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(sources[i])], links[2 * i]);
        EXPECT_EQ(batch.n_id()[static_cast<std::size_t>(destinations[i])], links[2 * i + 1]);
      }
    }
  }
}

TEST_F(ManyNodes, NegativesAreDrawnFromAllNodes) {
  const Dataset dataset(path());
  const Ints sources(500, 0);
  const NegativeDraws::Links links{.key = {.seed = 3, .epoch = 0, .first = 0, .count = std::ssize(sources)},
                                   .sources = sources,
                                   .times = {},
                                   .input_id = sources};
  NegativeDraws draws(dataset, 0, of_links(NegativeMode::kBinary, false));
  NegativeDraws::Negatives out;
  draws.draw(links, out);
  Ints counts(12);
  for (const Ints* ends : {&out.sources, &out.destinations})
    for (const std::int64_t v : *ends) ++counts.at(static_cast<std::size_t>(v / 1'000'000'000));
  EXPECT_GT(testing::uniform_p_value(counts), 1e-6);
}

TEST_F(ManyNodes, StrictNegatives_TakeNoMemoryOfTheNumberOfNodes) {
  const Dataset dataset(path());
  const NegativeDraws draws(dataset, 0, of_links(NegativeMode::kBinary, true),
                            KnownLinks(sparse_graph().links));
  EXPECT_LT(draws.bytes(), 1'000'000U);
}

TEST_F(ManyNodes, MachinesThatHaveSomePartitions_MakeTheBytesOfTheWhole) {
  const Dataset whole(path());
  for (const int machines : {2, 3}) {
    const testing::Machines several(path(), machines);
    for (const auto& [name, options] : kinds()) {
      SCOPED_TRACE(name);
      const std::uint64_t digest =
          testing::make_batch(whole, {sparse_graph().train, true}, options).view().digest();
      for (std::size_t m = 0; m < several.size(); ++m)
        EXPECT_EQ(
            testing::make_batch(several.dataset(m), {sparse_graph().train, true}, options).view().digest(),
            digest);
    }
    const BatchOptions links = of_links(NegativeMode::kBinary, true);
    const std::uint64_t digest =
        testing::make_link_batch(whole, {.pairs = some_links()}, links).view().digest();
    for (std::size_t m = 0; m < several.size(); ++m)
      EXPECT_EQ(testing::make_link_batch(several.dataset(m), {.pairs = some_links()}, links).view().digest(),
                digest);
  }
}

TEST_F(ManyNodes, WhatTakesMemoryOfAllNodes_IsRefusedInOneLine) {
  constexpr std::uint64_t kLeast = 8 * static_cast<std::uint64_t>(SparseGraph::kNodes);
  if (available_memory().bytes > kLeast) GTEST_SKIP() << "this machine has memory for it";
  const Dataset whole(path());
  const testing::Machines machines(path(), 3);
  BatchOptions options = of_links(NegativeMode::kTriplet, false);
  options.link.negatives.dst_weight = "t";
  for (const Dataset* dataset : {&whole, &machines.dataset(1)}) {
    try {
      testing::make_link_batch(*dataset, {.pairs = some_links()}, options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNoSpace) << error.what();
      EXPECT_NE(error.message().find("attribute 't' of all 12000000000 nodes of type 'node'"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(ManyNodes, SeedsBeyondTheGraph_AreRefused) {
  const Dataset dataset(path());
  for (const std::int64_t seed : {SparseGraph::kNodes, SparseGraph::kNodes + (std::int64_t{1} << 33)}) {
    try {
      testing::make_batch(dataset, {{seed}}, {.fanouts = {2}});
      ADD_FAILURE() << seed;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(seed)), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace hopfeed
