// A batch is a pure function: not of the cut, the width of the ids on disk, the history of the maker or its relabel table.
#include <gtest/gtest.h>

#include <random>

#include "core/relabel_table.h"
#include "tests/core/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

std::vector<std::uint64_t> digests(const Dataset& dataset, const BatchOptions& options) {
  const SeedList list(dataset.split(0, "train"), {.node_type = 0, .shuffle = true});
  BatchMaker maker(dataset, list, options);
  std::vector<std::uint64_t> out;
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t first = 0; first < list.size(); first += 32) {
      const BatchKey key{.seed = 3,
                         .epoch = epoch,
                         .first = first,
                         .count = std::min<std::int64_t>(32, list.size() - first)};
      out.push_back(testing::make_block(maker, key).view().digest());
    }
  }
  return out;
}

TEST(Purity, TheCutAndTheWidthOfIdsAreInvisible) {
  testing::TempFolder folder;
  const auto graph =
      testing::random_graph({.num_nodes = 500, .num_edges = 6'000, .num_train = 200, .seed = 8});
  const BatchOptions options{.fanouts = {5, -1, 3}, .edge_ids = true};
  std::vector<std::vector<std::uint64_t>> all;
  for (int partitions : {1, 2, 3, 7}) {
    for (bool wide : {false, true}) {
      auto cut = testing::random_cut(graph, partitions, static_cast<std::uint64_t>(partitions));
      cut.wide_ids = wide;
      testing::write_tiny_dataset(folder.path() / "graph", graph, cut);
      all.push_back(digests(Dataset(folder.path() / "graph"), options));
    }
  }
  for (const auto& one : all) EXPECT_EQ(one, all[0]);
}

TEST(Purity, DatasetIdsNameTheSameNodes) {
  testing::TempFolder folder;
  const auto graph = testing::random_graph({.num_nodes = 200, .num_edges = 2'000, .seed = 2});
  testing::write_tiny_dataset(folder.path() / "graph", graph, testing::random_cut(graph, 3, 9));
  const Dataset dataset(folder.path() / "graph");
  const auto original = testing::make_batch(dataset, {.seeds = {5, 17, 99}}, {.fanouts = {4, 4}});
  const auto own =
      testing::make_batch(dataset, {.seeds = {5, 17, 99}}, {.fanouts = {4, 4}, .dataset_ids = true});
  const auto a = original.view().n_id(), b = own.view().n_id();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(dataset.dataset_id(0, a[i]), b[i]);
}

TEST(Purity, TheHistoryOfAMakerIsInvisible) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph",
                              testing::random_graph({.num_nodes = 300, .num_edges = 3'000, .seed = 4}));
  const Dataset dataset(folder.path() / "graph");
  const SeedList list(dataset.split(0, "train"), {});
  BatchMaker used(dataset, list, {.fanouts = {5, 5}}), fresh(dataset, list, {.fanouts = {5, 5}});
  const BatchKey key{.seed = 1, .epoch = 0, .first = 64, .count = 20};
  for (std::int64_t i = 0; i < 1'000; ++i)
    used.sample(
        {.seed = 9, .epoch = i, .first = i % 50, .count = 1 + i % 60});  // the table's generations wrap
  EXPECT_EQ(testing::make_block(used, key).view().digest(), testing::make_block(fresh, key).view().digest());
}

TEST(Purity, OtherKeysAndOptionsGiveOtherBatches) {
  testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "graph",
                              testing::random_graph({.num_nodes = 300, .num_edges = 6'000, .seed = 4}));
  const Dataset dataset(folder.path() / "graph");
  const SeedList list(dataset.split(0, "train"), {});
  BatchMaker maker(dataset, list, {.fanouts = {3, 3}});
  const BatchKey base{.seed = 1, .epoch = 0, .first = 0, .count = 20};
  const auto digest = [&](BatchKey key) { return testing::make_block(maker, key).view().digest(); };
  EXPECT_EQ(digest(base), digest(base));
  EXPECT_NE(digest(base), digest({.seed = 2, .epoch = 0, .first = 0, .count = 20}));
  EXPECT_NE(digest(base), digest({.seed = 1, .epoch = 1, .first = 0, .count = 20}));
  EXPECT_NE(digest(base), digest({.seed = 1, .epoch = 0, .first = 1, .count = 20}));
}

// Both relabel tables against each other over many batches; small generations make the direct one wrap.
TEST(RelabelTable, DirectAndHashedGiveTheSameLocalIds) {
  std::mt19937_64 random(6);
  DirectRelabel direct(1 << 22);
  HashRelabel hashed(1 << 22);
  LocalNodes a, b;
  for (int batch = 0; batch < 1'500; ++batch) {
    direct.begin_batch(a);
    hashed.begin_batch(b);
    const int nodes = batch % 100 == 0 ? 20'000 : 50;
    for (int i = 0; i < nodes; i += 10) {
      direct.make_room(a, 10);
      hashed.make_room(b, 10);
      std::uint32_t locals[2][10];
      DirectRelabel::Inserter into_direct(direct, a, locals[0]);
      HashRelabel::Inserter into_hashed(hashed, b, locals[1]);
      for (std::size_t j = 0; j < 10; ++j) {
        const std::uint64_t node = random() % (batch % 3 ? 40 : 1 << 22);
        into_direct.insert(node, j);
        into_hashed.insert(node, j);
        ASSERT_EQ(locals[0][j], locals[1][j]);
      }
      into_direct.close();
      into_hashed.close();
    }
    ASSERT_EQ(a.count, b.count);
    for (std::uint32_t i = 0; i < a.count; ++i) ASSERT_EQ(a.ids[i], b.ids[i]);
  }
}

}  // namespace
}  // namespace hopfeed
