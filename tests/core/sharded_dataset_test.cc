// Sharded ids: what a dataset tells is what it tells with ids replicated, machines with some partitions know
// the ids that are theirs, and each file that is not what the others say is found and named.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/dataset/id_ranges.h"
#include "core/dataset/inverse_ids.h"
#include "core/dataset/remote_ids.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;
using testing::change_file;

constexpr int kParts = 3;

Ints list(std::span<const std::int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

/// Three types with splits, and links of three kinds: with labels and times, with neither, and fewer than
/// there are partitions.
testing::TypedGraph graph_with_splits() {
  testing::TypedGraph graph =
      testing::random_typed_graph({.node_types = 3, .edge_types = 5, .max_nodes = 300, .seed = 2});
  testing::TypedEdges& edges = graph.edges[0];
  testing::TypedLinks &train = edges.splits["train"], &valid = edges.splits["valid"],
                      &test = edges.splits["test"];
  for (std::size_t i = 0; i < edges.sources.size() && i < 50; ++i) {
    testing::TypedLinks& links = i % 3 == 0 ? valid : train;
    links.pairs.insert(links.pairs.end(), {edges.sources[i], edges.destinations[i]});
  }
  for (std::int64_t i = 0; i < std::ssize(train.pairs) / 2; ++i)
    train.labels.push_back(i % 2), train.times.push_back(7 * i);
  test.pairs = {edges.sources[0], edges.destinations[0], edges.sources[1], edges.destinations[1]};
  graph.nodes[0].splits["valid"] = {1, 0};
  return graph;
}

/// Puts a file, and the manifest, back as they were.
class Restored {
 public:
  Restored(fs::path data, std::string file) : data_(std::move(data)), file_(std::move(file)) {}
  ~Restored() {
    testing::write_bytes(data_ / file_, sound_);
    testing::write_bytes(data_ / "meta.json", meta_);
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  const fs::path data_;
  const std::string file_, sound_ = testing::file_bytes(data_ / file_),
                           meta_ = testing::file_bytes(data_ / "meta.json");
};

class ShardedDataset : public ::testing::TestWithParam<bool> {
 protected:
  ShardedDataset() : graph_(graph_with_splits()) {
    testing::TypedCut cut = testing::random_typed_cut(graph_, kParts, 8);
    cut.halos = true;
    cut.wide_ids = GetParam();
    testing::write_typed_dataset(temp_.path() / "replicated", graph_, cut);
    cut.sharded_ids = true;
    testing::write_typed_dataset(data_, graph_, cut);
    meta_ = Dataset(data_).meta();
  }
  std::size_t id_bytes() const { return GetParam() ? 8 : 4; }
  void write_id(std::byte* first, std::int64_t at, std::int64_t id) const {
    if (GetParam())
      reinterpret_cast<std::int64_t*>(first)[at] = id;
    else
      reinterpret_cast<std::int32_t*>(first)[at] = static_cast<std::int32_t>(id);
  }
  /// Expects verify to name the file and `what` while the number there is another; `numbers` are int64.
  void found(const std::string& file, std::int64_t at, std::int64_t number, const std::string& what,
             bool numbers = false) const {
    const Restored restored(data_, file);
    change_file(data_, file, [&](std::byte* first) {
      if (numbers)
        reinterpret_cast<std::int64_t*>(first)[at] = number;
      else
        write_id(first, at, number);
    });
    expect_refused([&] { testing::verify(data_); }, file + ": " + what, ErrorCode::kCorrupt);
  }
  const testing::TempFolder temp_;
  const testing::TypedGraph graph_;
  const fs::path data_ = temp_.path() / "sharded";
  DatasetMeta meta_;
};

INSTANTIATE_TEST_SUITE_P(OfBothWidths, ShardedDataset, ::testing::Bool());

TEST_P(ShardedDataset, TellWhatReplicatedOnesDo) {
  testing::verify(data_);
  const Dataset whole(temp_.path() / "replicated"), sharded(data_);
  EXPECT_EQ(meta_.fingerprint, whole.meta().fingerprint);
  EXPECT_EQ(meta_.version(), kShardedIdsDatasetVersion);
  for (int t = 0; t < whole.num_node_types(); ++t) {
    EXPECT_EQ(inverse_ids(sharded, t), inverse_ids(whole, t));
    for (const auto& [name, count] : whole.meta().node_types[t].splits)
      EXPECT_EQ(list(sharded.split(t, name)), list(whole.split(t, name))) << name;
  }
  for (const auto& [name, count] : whole.meta().edge_types[0].splits) {
    const LinkSplit links = sharded.edge_split(0, name), expected = whole.edge_split(0, name);
    EXPECT_EQ(list(links.pairs), list(expected.pairs)) << name;
    EXPECT_EQ(list(links.labels), list(expected.labels)) << name;
    EXPECT_EQ(list(links.times), list(expected.times)) << name;
  }
  for (const auto& [file, about] : meta_.files)
    EXPECT_TRUE(file.starts_with("part-") || file.starts_with("time_bounds/")) << file;
}

TEST_P(ShardedDataset, OnAMachineWithSomePartitionsAreThoseOfItsRangesAndSources) {
  const Dataset whole(temp_.path() / "replicated");
  for (int p = 0; p < kParts; ++p) {
    const Dataset some(data_, {.some_partitions = true, .partitions = {p}});
    const Dataset halo(temp_.path() / "replicated", {.some_partitions = true, .partitions = {p}});
    for (int t = 0; t < whole.num_node_types(); ++t) {
      const NodeTypeMeta& node = meta_.node_types[t];
      const IdRanges ranges{.count = node.count, .partitions = kParts};
      Ints all(static_cast<std::size_t>(node.count)), found(all.size());
      std::iota(all.begin(), all.end(), 0);
      some.find_dataset_ids(t, all, found);
      for (std::int64_t v = 0; v < node.count; ++v)
        EXPECT_EQ(found[v], ranges.owner(v) == p ? whole.dataset_id(t, v) : -1);
      some.find_original_ids(t, all, found.data());
      std::int64_t known = 0;
      for (std::int64_t id = 0; id < node.count; ++id) {
        known += found[id] >= 0;
        if (found[id] >= 0) {
          EXPECT_EQ(found[id], whole.original_id(t, id));
        }
        if (partition_of(node.partition_offsets, id) != p) {
          EXPECT_EQ(some.halo_id(t, id), halo.halo_id(t, id)) << "its own sources";
        }
      }
      EXPECT_EQ(known, node.partition_offsets[p + 1] - node.partition_offsets[p] + node.remote_sources[p] +
                           node.halo_sources[p]);
      EXPECT_EQ(node.halo_nodes, node.remote_sources);
    }
    expect_refused([&] { some.split(0, "train"); }, "split 'train' as one list reads all partitions",
                   ErrorCode::kUnsupported);
    expect_refused([&] { some.edge_split(0, "train"); }, "split 'train' as one list",
                   ErrorCode::kUnsupported);
  }
}

TEST_P(ShardedDataset, ThatAreNoPermutation_AreNamedWithTheirEntry) {
  const NodeTypeMeta& node = meta_.node_types[0];
  const IdRanges ranges{.count = node.count, .partitions = kParts};
  const std::int64_t first = Dataset(data_).dataset_id(0, 0), v = ranges.begin(1);
  const std::string file = new_ids_shard_path(1, node);
  found(file, 2, first, fmt::format("entry 2: nodes 0 and {} share dataset id {}", v + 2, first));
  found(file, 3, node.count, fmt::format("entry 3 is {}, out of range", node.count));
  found(file, 3, -1, "entry 3 is -1, out of range");
}

TEST_P(ShardedDataset, ListsThatAreNotWhatRowsHaveEdgesFrom_AreNamedWithTheirEntry) {
  int lists = 0;
  for (const NodeTypeMeta& node : meta_.node_types)
    for (const int part : {1, halo_of(1)}) {
      const std::string file = remote_ids_path(part, node), buckets = id_buckets_path(part, node);
      const std::int64_t count = NpyArray(data_ / file).header().shape[0];
      if (count < 3) continue;
      ++lists;
      found(file, 2, -7, "entry 1 is node -7");
      found(file, 2 * (count - 1), node.count, fmt::format("entry {} is node", count - 1));
      found(file, 3, node.count, fmt::format("entry 1 says original id {} of node", node.count));
      found(buckets, 0, 1, "entry 0 says that 1 nodes come before the bucket, and 0 do", true);
      found(buckets, num_id_buckets(count), count - 1,
            fmt::format("entry {} says that {} nodes", num_id_buckets(count), count - 1), true);
      // Two entries, each with its original id, in the other's place.
      const Restored restored(data_, file);
      testing::swap_first_two(data_, file, 2 * id_bytes());
      expect_refused([&] { testing::verify(data_); }, file + ": entry 0 is node", ErrorCode::kCorrupt);
    }
  EXPECT_GE(lists, 2);
}

TEST_P(ShardedDataset, SplitsWhoseTwoIdsDiffer_AreNamedWithTheirEntry) {
  const NodeTypeMeta& node = meta_.node_types[0];
  const EdgeTypeMeta& edge = meta_.edge_types[0];
  const std::string nodes = split_shard_path(2, node, "train"),
                    pairs = link_pairs_shard_path(1, edge, "train");
  found(nodes, 1, -1, "entry 0 says dataset id -1 of node", true);
  found(nodes, 2, node.count, fmt::format("entry 1 is {}, but there are {} nodes", node.count, node.count),
        true);
  found(pairs, 4 + 2, -1, "entry 1 says dataset id -1 of node", true);
  found(pairs, 4 + 3, -1, "entry 1 says dataset id -1 of node", true);
  found(pairs, 4 + 1, -1, "link 1 has destination node -1", true);
}

// Checksums are those of the damaged files.
TEST_P(ShardedDataset, EveryFileIsCompared) {
  int changed = 0;
  for (const auto& [file, about] : meta_.files) {
    if (!file.starts_with("part-0001/")) continue;
    if (file.find("/ids/") == std::string::npos && file.find("splits/") == std::string::npos) continue;
    if (NpyArray(data_ / file).header().count() == 0) continue;
    ++changed;
    const Restored restored(data_, file);
    change_file(data_, file, [](std::byte* first) { *first ^= std::byte{1}; });
    std::string what = "part-0001/";
    if (file.ends_with("/labels.npy") || file.ends_with("/times.npy")) what = "fingerprint";
    if (file.ends_with("/new_ids.npy")) what = "share dataset id";
    expect_refused([&] { testing::verify(data_); }, what, ErrorCode::kCorrupt);
  }
  EXPECT_GE(changed, 15);
}

TEST_P(ShardedDataset, OriginalIdOutOfRange_IsNamedByItsList) {
  const NodeTypeMeta& node = meta_.node_types[0];
  const std::string file = remote_ids_path(0, node);
  ASSERT_GT(node.remote_sources[0], 0);
  std::int64_t id = -1;
  change_file(data_, file, [&](std::byte* first) {
    id = GetParam() ? *reinterpret_cast<std::int64_t*>(first) : *reinterpret_cast<std::int32_t*>(first);
    write_id(first, 1, node.count);
  });
  const Dataset some(data_, {.some_partitions = true, .partitions = {0}});
  expect_refused([&] { some.checked_original_id(0, id); }, file + ": entry 0 has original id",
                 ErrorCode::kCorrupt);
}

TEST_P(ShardedDataset, LabelsThatOnePartitionLacks_AreMissedWhenItIsOpened) {
  const std::string file = link_labels_shard_path(1, meta_.edge_types[0], "train");
  DatasetMeta meta = meta_;
  ASSERT_EQ(meta.files.erase(file), 1U);
  testing::write_bytes(data_ / "meta.json", format_meta(meta));
  expect_refused([&] { Dataset{data_}; }, "'files' does not list " + file, ErrorCode::kCorrupt);
}

TEST_P(ShardedDataset, ManifestThatCannotBe_IsRefused) {
  const auto refused = [&](const std::function<void(DatasetMeta&)>& change, const std::string& part) {
    DatasetMeta meta = meta_;
    change(meta);
    expect_refused([&] { parse_meta(format_meta(meta), "meta.json"); }, part, ErrorCode::kCorrupt);
  };
  const std::string unfit = "'ids' that do not go with the 'remote_sources' or 'halo_sources'";
  refused([](DatasetMeta& meta) { meta.sharded_ids = false; }, unfit);
  refused([](DatasetMeta& meta) { meta.node_types[0].remote_sources.clear(); }, unfit);
  refused([](DatasetMeta& meta) { meta.node_types[0].halo_sources.clear(); }, unfit);
  refused([](DatasetMeta& meta) { ++meta.node_types[0].halo_nodes[0]; }, unfit);
  refused([](DatasetMeta& meta) { meta.node_types[0].remote_sources.pop_back(); },
          "remote_sources that do not match the number of partitions");
  std::string text = format_meta(meta_);
  text.replace(text.find("\"version\": 10"), 13, "\"version\": 9");
  expect_refused([&] { parse_meta(seal_meta(text), "meta.json"); },
                 "what its version does not know: sharded ids", ErrorCode::kCorrupt);
}

TEST_P(ShardedDataset, SizesThatAreNotThoseOfTheCut_AreFoundByVerify) {
  DatasetMeta meta = meta_;
  --meta.node_types[0].halo_sources[1];
  testing::write_bytes(data_ / "meta.json", format_meta(meta));
  expect_refused([&] { testing::verify(data_); }, "'halo_sources' of partition 1", ErrorCode::kCorrupt);
}

/// A list of ids below `limit`, as its files are: the original id is what the id lacks to the limit.
struct List {
  List(const Ints& of, std::int64_t limit) {
    for (const std::int64_t id : of) numbers.insert(numbers.end(), {id, limit - id});
    const std::int64_t count = std::ssize(of), num = num_id_buckets(count);
    const std::uint64_t scale = id_bucket_scale(limit, num);
    for (std::int64_t b = 0; b <= num; ++b)
      buckets.push_back(std::ranges::count_if(of, [&](std::int64_t id) { return id_bucket(id, scale) < b; }));
    ids = {.entries = reinterpret_cast<const std::byte*>(numbers.data()),
           .type = ElementType::kInt64,
           .count = count,
           .scale = scale,
           .buckets = buckets};
  }
  Ints numbers, buckets;
  RemoteIds ids;
};

// Even ones, those of one stretch, clusters, and ends: a look-up begins where an even list has the id.
TEST(RemoteIds, EachIdIsFound_AndNoOther) {
  constexpr std::int64_t kLimit = 5'000;
  Ints all(kLimit), stretch(900), clusters, squares, even;
  std::iota(all.begin(), all.end(), 0);
  std::iota(stretch.begin(), stretch.end(), 3'777);
  for (std::int64_t id = 0; id < kLimit; ++id) {
    if (id % 1'000 < 60) clusters.push_back(id);
    if (id % 7 == 3) even.push_back(id);
    if (id * id < kLimit) squares.push_back(id * id);
  }
  for (const Ints& of :
       {all, stretch, clusters, squares, even, Ints{0}, Ints{kLimit - 1}, Ints{0, kLimit - 1}, Ints{}}) {
    const List list(of, kLimit);
    for (std::int64_t id = 0, next = 0; id < kLimit; ++id) {
      const bool there = next < std::ssize(of) && of[static_cast<std::size_t>(next)] == id;
      ASSERT_EQ(list.ids.find(id), there ? next : -1) << id << " of " << of.size();
      if (!there) continue;
      ASSERT_EQ(list.ids.original_id(next++), kLimit - id);
    }
  }
}

}  // namespace
}  // namespace hopfeed
