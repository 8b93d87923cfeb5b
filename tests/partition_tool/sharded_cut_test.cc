// Cuts with sharded ids: nothing is lost on the way there and back, the bytes are those of any number of
// threads, and what comes back from sharded ids is, to the byte, what never had them.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/dataset/inverse_ids.h"
#include "core/maker/batch_maker.h"
#include "partition_tool/inspect_dataset.h"
#include "partition_tool/partition_nodes.h"
#include "partition_tool/read_dataset.h"
#include "tests/partition_tool/typed_raw_graph.h"
#include "tests/support/made_batch.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using testing::no_progress;

class ShardedCut : public ::testing::Test {
 protected:
  ShardedCut() : typed_(testing::random_typed_graph({.edge_types = 6, .seed = 21, .empty_type = true})) {
    testing::TypedEdges& edges = typed_.edges[1];
    for (const char* name : {"train", "valid"}) {
      testing::TypedLinks& links = edges.splits[name];
      for (std::size_t i = 0; i < edges.sources.size() && i < 40; ++i) {
        links.pairs.insert(links.pairs.end(), {edges.sources[i], edges.destinations[i]});
        links.labels.push_back(static_cast<std::int64_t>(i % 2));
        if (*name == 't') links.times.push_back(static_cast<std::int64_t>(i * i));
      }
    }
    whole_ = testing::write_dataset(path("whole"), testing::raw_graph_of(typed_));
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  DatasetMeta cut(const std::string& from, const std::string& to, int partitions, bool sharded,
                  int threads = 2) const {
    const Dataset input(path(from));
    const RawGraph graph = read_dataset(input, threads, no_progress);
    testing::BuildCut how{
        .partitions = partitions, .partition_of = {}, .sharded_ids = sharded, .halos = partitions > 1};
    how.hotness.threads = threads;
    if (partitions > 1)
      how.partition_of = partition_randomly(graph, {.partitions = partitions, .seed = 1, .threads = threads});
    return testing::write_dataset(path(to), graph, how);
  }
  /// Expects the files to be the same, made by whomever.
  void expect_same(const DatasetMeta& one, const DatasetMeta& other) const {
    ASSERT_EQ(one.files.size(), other.files.size());
    for (const auto& [file, about] : one.files) EXPECT_EQ(other.files.at(file).xxh3, about.xxh3) << file;
  }
  const testing::TempFolder folder_;
  testing::TypedGraph typed_;
  DatasetMeta whole_;
};

TEST_F(ShardedCut, NothingIsLostThereAndBack) {
  for (const int partitions : {2, 4, 5}) {
    const std::string n = std::to_string(partitions);
    SCOPED_TRACE(n);
    const DatasetMeta replicated = cut("whole", "replicated" + n, partitions, false),
                      sharded = cut("whole", "sharded" + n, partitions, true);
    for (const std::string& name : {"replicated" + n, "sharded" + n}) testing::verify(path(name));
    EXPECT_EQ(replicated.version(), whole_.version());
    EXPECT_EQ(sharded.version(), kShardedIdsDatasetVersion);
    EXPECT_EQ(sharded.fingerprint, whole_.fingerprint);
    EXPECT_EQ(sharded.cut.edges_cut, replicated.cut.edges_cut);
    expect_same(cut("sharded" + n, "back" + n, partitions, false), replicated);
    expect_same(cut("replicated" + n, "again" + n, partitions, true), sharded);
    expect_same(cut("sharded" + n, "one" + n, 1, false), whole_);
  }
  // From one number of partitions to another, sharded both.
  expect_same(cut("sharded2", "two", 5, true), Dataset(path("sharded5")).meta());
}

TEST_F(ShardedCut, TellsTheSameIdsSplitsAndLinks) {
  cut("whole", "replicated", 4, false), cut("whole", "sharded", 4, true);
  const Dataset replicated(path("replicated")), sharded(path("sharded"));
  const auto same = [](auto a, auto b) { EXPECT_TRUE(std::ranges::equal(a, b)); };
  for (int t = 0; t < replicated.num_node_types(); ++t) {
    EXPECT_EQ(inverse_ids(sharded, t), inverse_ids(replicated, t));
    for (const auto& [name, count] : replicated.meta().node_types[t].splits)
      same(sharded.split(t, name), replicated.split(t, name));
  }
  for (const char* name : {"train", "valid"}) {
    const LinkSplit links = sharded.edge_split(1, name), expected = replicated.edge_split(1, name);
    same(links.pairs, expected.pairs), same(links.labels, expected.labels), same(links.times, expected.times);
    EXPECT_GT(links.count(), 4);
  }
}

TEST_F(ShardedCut, IsTheSameWithAnyNumberOfThreads) {
  expect_same(cut("whole", "one", 4, true, 1), cut("whole", "three", 4, true, 3));
}

TEST_F(ShardedCut, GivesTheSameBatchesWhereAllPartitionsAre) {
  cut("whole", "sharded", 4, true);
  const Dataset whole(path("whole")), sharded(path("sharded"));
  const NodeList seeds(whole.split(0, "train"), {}), same_seeds(sharded.split(0, "train"), {});
  const BatchOptions options{.fanouts = {5, 3}, .edge_ids = true};
  BatchMaker maker(whole, seeds, options), other(sharded, same_seeds, options);
  const BatchKey key{.seed = 9, .epoch = 2, .first = 0, .count = std::min<std::int64_t>(16, seeds.size())};
  EXPECT_EQ(testing::make_block(other, key).view().digest(), testing::make_block(maker, key).view().digest());
}

TEST_F(ShardedCut, SizesByKindKnowIds) {
  const DatasetMeta replicated = cut("whole", "replicated", 4, false),
                    sharded = cut("whole", "sharded", 4, true);
  const SizeSummary before = summarise_sizes(Dataset(path("replicated"))),
                    after = summarise_sizes(Dataset(path("sharded")));
  EXPECT_EQ(after.attrs, before.attrs);
  EXPECT_EQ(after.tables, before.tables);
  EXPECT_GT(after.other, 0);
}

// What is damaged is found by whoever reads it, without verify.
TEST_F(ShardedCut, DamagedIds_AreNamedWhenTheyAreRead) {
  cut("whole", "sharded", 2, true);
  const DatasetMeta meta = Dataset(path("sharded")).meta();
  const auto refused = [&](const std::string& file, std::int64_t number, const std::string& what) {
    const std::string sound = testing::file_bytes(path("sharded") / file);
    testing::change_file(path("sharded"), file, [&](std::byte* first) {
      if (file.ends_with("new_ids.npy"))
        *reinterpret_cast<std::int32_t*>(first) = static_cast<std::int32_t>(number);
      else
        *reinterpret_cast<std::int64_t*>(first) = number;
    });
    try {
      read_dataset(Dataset(path("sharded")), 1, no_progress);
      ADD_FAILURE() << file;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file + ": " + what), std::string::npos) << error.what();
    }
    testing::change_file(path("sharded"), file, [&](std::byte* first) {
      const NpyArray now(path("sharded") / file);
      std::copy_n(reinterpret_cast<const std::byte*>(sound.data()) + now.header().data_offset,
                  now.bytes().size(), first);
    });
  };
  const std::string ids = new_ids_shard_path(1, meta.node_types[0]);
  refused(ids, meta.node_types[0].count, "entry 0 is");
  refused(ids, Dataset(path("sharded")).dataset_id(0, 0), "entry 0: nodes 0 and");
  refused(split_shard_path(1, meta.node_types[0], "train"), -1, "node -1 is out of range");
  refused(link_pairs_shard_path(1, meta.edge_types[1], "train"), -1, "link 0 has node -1, out of range");
  read_dataset(Dataset(path("sharded")), 1, no_progress);
}

}  // namespace
}  // namespace hopfeed
