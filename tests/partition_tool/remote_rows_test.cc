// Rows of other partitions, ranked as each partition's own training nodes read them: what is stored, what is
// looked up, what is refused, and what caches would have by it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "cache/cached_attrs.h"
#include "cache/remote_ranks.h"
#include "core/base/error.h"
#include "partition_tool/generate.h"
#include "partition_tool/hotness/hotness.h"
#include "partition_tool/partition_limits.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "partition_tool/tune/remote_reads.h"
#include "tests/partition_tool/made_dataset.h"
#include "tests/support/dataset_files.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::no_progress;
using testing::TempFolder;
using Ids = std::vector<std::int64_t>;

constexpr int kParts = 3;

class RemoteRows : public ::testing::Test {
 protected:
  RemoteRows() {
    const RawGraph graph = generate_graph({.num_nodes = 2'000,
                                           .num_edges = 12'000,
                                           .num_features = 16,
                                           .num_classes = 4,
                                           .seed = 3,
                                           .train_fraction = 0.02},
                                          no_progress);
    meta_ = testing::write_dataset(
        data(), graph,
        {.partitions = kParts,
         .partition_of = partition_by_metis(graph, {.partitions = kParts, .seed = 1}, no_progress)});
  }
  fs::path data() const { return folder_.path() / "cut"; }
  Ids offsets() const { return meta_.node_types[0].partition_offsets; }
  bool own(int p, std::int64_t id) const { return id >= offsets()[p] && id < offsets()[p + 1]; }
  Ids list(const Dataset& dataset, int p) const {
    Ids ids;
    const RankedRows ranked = dataset.remote_rows(0, p);
    for (std::int64_t i = 0; i < ranked.count; ++i) ids.push_back(ranked[i]);
    return ids;
  }
  /// What opening the ranks of partition 0 throws.
  std::string complaint() const {
    try {
      const RemoteRanks ranks(Dataset(data()), 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      return error.what();
    }
    return "nothing";
  }

  const TempFolder folder_;
  DatasetMeta meta_;
};

TEST_F(RemoteRows, AreThoseThatTheReadersOwnTrainingNodesReadTheHottestFirst) {
  const Dataset dataset(data());
  const RawGraph graph = read_dataset(dataset, 1, no_progress);
  for (int p = 0; p < kParts; ++p) {
    const Ids train = own_seeds(dataset, 0, dataset.split(0, "train"), p);
    ASSERT_LT(train.size(), dataset.split(0, "train").size());
    const auto hot = inclusion_probability(
        {.num_nodes = graph.num_nodes(),
         .edges = {{.indptr = graph.edges[0].csc.indptr, .indices = graph.edges[0].csc.rows()}},
         .train = train},
        {.fanouts = {3, 2}, .batch_size = 8});
    Ids expected;
    for (std::int64_t v = 0; v < graph.num_nodes(); ++v)
      if (!own(p, dataset.dataset_id(0, v)) && hot[v] > 0) expected.push_back(v);
    ASSERT_LT(std::ssize(expected), 2'000 - (offsets()[p + 1] - offsets()[p])) << "some are never read";
    std::ranges::stable_sort(expected, [&](std::int64_t a, std::int64_t b) { return hot[a] > hot[b]; });
    for (std::int64_t& v : expected) v = dataset.dataset_id(0, v);
    EXPECT_EQ(list(dataset, p), expected) << p;
    EXPECT_EQ(meta_.node_types[0].remote_rows[p], std::ssize(expected));
  }
}

TEST_F(RemoteRows, AreNoPartOfTheContentAndChangeNoOrder) {
  const Dataset dataset(data());
  const DatasetMeta whole =
      testing::write_dataset(folder_.path() / "whole", read_dataset(dataset, 1, no_progress));
  EXPECT_EQ(whole.fingerprint, meta_.fingerprint);
  EXPECT_TRUE(whole.node_types[0].remote_rows.empty()) << "one partition has no others";
  for (const auto& [path, file] : whole.files) EXPECT_EQ(path.find("remote_rows"), std::string::npos);
}

TEST_F(RemoteRows, AreAtMostAFewTimesThePartitionsOwn) {
  // Partition 1 has 10 nodes, and its training node reads all others.
  testing::TinyGraph tiny{.num_nodes = 210, .src = {}, .dst = {}, .x = std::vector<float>(210), .x_width = 1};
  for (std::int64_t v = 0; v < 200; ++v) {
    tiny.src.push_back(v);
    tiny.dst.push_back(200);
  }
  tiny.splits["train"] = {0, 200};
  std::vector<std::int32_t> partition_of(210);
  std::fill(partition_of.begin() + 200, partition_of.end(), 1);
  const DatasetMeta meta = testing::write_dataset(folder_.path() / "tiny", testing::raw_graph_of(tiny),
                                                  {.partitions = 2, .partition_of = partition_of});
  EXPECT_EQ(meta.node_types[0].remote_rows, (Ids{0, kRemoteRowsPerOwn * 10}));
  testing::verify(folder_.path() / "tiny");
}

TEST_F(RemoteRows, RanksGoByTheListAndHeatFallsInEvenClasses) {
  const Dataset dataset(data());
  for (int p = 0; p < kParts; ++p) {
    const RemoteRanks ranks(dataset, p);
    EXPECT_TRUE(ranks.stored(0));
    const RemoteRanksView view = ranks.view(0);
    const Ids ids = list(dataset, p);
    ASSERT_EQ(view.ranked(), std::ssize(ids));
    std::vector<std::int64_t> of_class(256);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(view.rank(ids[i]), i);
      ++of_class[view.heat(ids[i])];
      if (i > 0) {
        EXPECT_GE(view.heat(ids[i]), view.heat(ids[i - 1]));
      }
    }
    EXPECT_EQ(view.heat(ids.front()), 0);
    EXPECT_GE(view.heat(ids.back()), 255 - 256 / std::ssize(ids) - 1) << "one class a row where they are few";
    const auto [least, most] = std::ranges::minmax(of_class);
    EXPECT_LE(most - least, 1);
    const std::set<std::int64_t> ranked(ids.begin(), ids.end());
    for (std::int64_t id = 0; id < 2'000; ++id) {
      if (ranked.contains(id)) continue;
      EXPECT_EQ(view.rank(id), RemoteRanksView::kUnranked);
      EXPECT_EQ(view.heat(id), RemoteRanksView::kColdest);
    }
  }
}

TEST_F(RemoteRows, ACacheIsToldTheReadersHeatForNodesAlone) {
  const Dataset dataset(data());
  RowHeats owners;
  owners.add(0, 7);
  const std::vector<CachedAttr> attrs = reader_attrs(
      dataset,
      {{.what = {.store = Store::kNode, .type = 0, .name = "x"}, .rows = 2'000, .heat = owners},
       {.what = {.store = Store::kEdge, .type = 0, .name = "w"}, .rows = 12'000, .heat = owners}},
      1);
  const RemoteRanks ranks(dataset, 1);
  for (std::int64_t id = 0; id < 2'000; ++id) EXPECT_EQ(attrs[0].heat(id), ranks.view(0).heat(id));
  EXPECT_EQ(attrs[1].heat(5), 7);
}

TEST_F(RemoteRows, WithoutAListTheOwnersOrderTakesItsPlace) {
  // As a release before the lists wrote it.
  std::string meta = testing::file_bytes(data() / "meta.json");
  const std::size_t at = meta.find("   \"remote_rows\": [");
  ASSERT_NE(at, std::string::npos);
  meta.erase(at, meta.find("],\n", at) + 3 - at);
  testing::write_bytes(data() / "meta.json", seal_meta(meta));
  const Dataset dataset(data());
  EXPECT_TRUE(dataset.meta().node_types[0].remote_rows.empty());
  EXPECT_EQ(dataset.remote_rows(0, 1).count, 0);
  const RemoteRanks ranks(dataset, 1);
  EXPECT_FALSE(ranks.stored(0));
  const RemoteRanksView view = ranks.view(0);
  EXPECT_EQ(view.ranked(), 2'000 - (offsets()[2] - offsets()[1]));
  const std::set<std::uint32_t> first{view.rank(offsets()[0]), view.rank(offsets()[2])};
  EXPECT_EQ(first, (std::set<std::uint32_t>{0, 1})) << "the hottest of each partition come first";
  EXPECT_EQ(view.rank(offsets()[1]), RemoteRanksView::kUnranked);
}

TEST_F(RemoteRows, OfADamagedListAreRefusedByName) {
  const std::string path = "part-0000/remote_rows/node.npy";
  ASSERT_TRUE(meta_.files.contains(path));
  const auto damaged = [&](std::int32_t second, const std::string& part) {
    std::int32_t good = 0;
    testing::change_file(data(), path, [&](std::byte* ids) {
      good = reinterpret_cast<std::int32_t*>(ids)[1];
      reinterpret_cast<std::int32_t*>(ids)[1] = second;
    });
    try {
      testing::verify(data());
      ADD_FAILURE() << second;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    const std::string said = complaint();
    testing::change_file(data(), path,
                         [&](std::byte* ids) { reinterpret_cast<std::int32_t*>(ids)[1] = good; });
    return said;
  };
  const Ids ids = list(Dataset(data()), 0);
  EXPECT_NE(damaged(-1, "entry 1").find(path), std::string::npos);
  EXPECT_NE(damaged(2'000, "entry 1").find(path), std::string::npos);
  EXPECT_NE(damaged(static_cast<std::int32_t>(ids[0]), "again").find(path), std::string::npos);
  EXPECT_EQ(damaged(0, "of the partition itself"), "nothing") << "it is never asked for";
  testing::verify(data());
  EXPECT_EQ(complaint(), "nothing");
}

TEST_F(RemoteRows, MetaSaysOfMoreThanThereAreIsRefused) {
  std::string meta = testing::file_bytes(data() / "meta.json");
  const std::size_t at = meta.find("\"remote_rows\": [") + std::string("\"remote_rows\": [").size();
  const std::size_t digit = meta.find_first_of("0123456789", at);
  meta.insert(digit, "9");
  testing::write_bytes(data() / "meta.json", seal_meta(meta));
  try {
    const Dataset dataset(data());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("remote_rows"), std::string::npos) << error.what();
  }
}

TEST_F(RemoteRows, OfTheReadersBatchesAreCountedAndRankedBetterByItsListThanByTheirOwners) {
  const Dataset dataset(data());
  for (int p = 0; p < kParts; ++p) {
    const Ids seeds = own_seeds(dataset, 0, dataset.split(0, "train"), p);
    const RemoteReads reads(dataset, p, seeds,
                            {.batch = {.fanouts = {3, 2}}, .batch_size = 4, .batches = 12});
    EXPECT_EQ(std::ssize(reads.trace().batches), 12);
    EXPECT_EQ(reads.remote_rows(), 2'000 - (offsets()[p + 1] - offsets()[p]));
    std::int64_t sum = 0;
    for (const auto& batch : reads.trace().batches) {
      EXPECT_EQ(std::set(batch.begin(), batch.end()).size(), batch.size());
      sum += std::ssize(batch);
    }
    EXPECT_EQ(sum, reads.remote_reads());
    EXPECT_GT(reads.own_reads(), 0);
    for (const std::int64_t capacity : {0, 20, 100, 300, 2'000}) {
      const std::int64_t own = simulate_static(reads.trace(), capacity).hits,
                         owners = reads.static_by_owners(capacity).hits,
                         best = reads.static_by_reads(capacity).hits;
      EXPECT_LE(own, best) << capacity;
      EXPECT_LE(owners, best) << capacity;
      if (capacity == 100 || capacity == 300) {
        EXPECT_GT(own, owners) << p << " " << capacity;
      }
      if (capacity == 2'000) {
        EXPECT_EQ(best, reads.remote_reads());
      }
    }
    // By the numbers of the list itself it is the list.
    std::vector<std::vector<double>> hotness(1, std::vector<double>(2'000));
    const RemoteRanks ranks(dataset, p);
    for (std::int64_t id = 0; id < 2'000; ++id)
      hotness[0][static_cast<std::size_t>(id)] = -static_cast<double>(ranks.view(0).rank(id));
    EXPECT_EQ(reads.static_by(hotness, 100).hits, simulate_static(reads.trace(), 100).hits);
  }
}

TEST_F(RemoteRows, APartitionWithoutTrainingNodesReadsForAll) {
  const Dataset dataset(data());
  const Ids train(dataset.split(0, "train").begin(), dataset.split(0, "train").end());
  const Ids elsewhere = own_seeds(dataset, 0, train, 0);
  EXPECT_EQ(own_seeds(dataset, 0, elsewhere, 1), elsewhere);
}

}  // namespace
}  // namespace hopfeed
