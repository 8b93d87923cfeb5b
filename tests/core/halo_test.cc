// Halos: what a machine with one draws and reads itself, that their copies are checked to the last byte, and
// what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "core/dataset/halo_files.h"
#include "tests/support/dataset_files.h"
#include "tests/support/expect_refused.h"
#include "tests/support/machines.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

class Halo : public ::testing::Test {
 protected:
  Halo() : graph_(testing::random_typed_graph({.node_types = 1, .edge_types = 1, .seed = 4})) {
    for (const bool halos : {false, true}) {
      testing::TypedCut cut = testing::random_typed_cut(graph_, 3, 8);
      cut.halos = halos;
      cut.by_id = true;
      testing::write_typed_dataset(path(halos), graph_, cut);
    }
  }
  fs::path path(bool halos) const { return temp_.path() / (halos ? "with" : "without"); }
  /// Seeds of partition 0, which machine 0 has.
  Ints own_seeds() const {
    const Dataset dataset(path(true));
    Ints seeds;
    for (std::int64_t id = 0; id < dataset.meta().node_types[0].partition_offsets[1]; ++id)
      seeds.push_back(dataset.original_id(0, id));
    return seeds;
  }
  /// How often machine 0 asked others for one batch of its own seeds.
  std::int64_t questions(bool halos, const BatchOptions& options) const {
    const testing::Machines machines(path(halos), 3);
    const auto block = testing::make_batch(machines.dataset(0), {own_seeds()}, options);
    const auto whole = testing::make_batch(Dataset(path(false)), {own_seeds()}, options);
    EXPECT_TRUE(std::ranges::equal(block.memory.bytes(), whole.memory.bytes()));
    return machines.peers(0).questions();
  }
  const testing::TempFolder temp_;
  const testing::TypedGraph graph_;
};

TEST_F(Halo, TwoHopsFromOwnSeedsAreDrawnHere) {
  BatchOptions options;
  options.fanouts = {4, 4};
  EXPECT_EQ(questions(true, options), 0);
  EXPECT_GT(questions(false, options), 0);
  options.fanouts = {4, 4, 4};
  EXPECT_EQ(questions(true, options), 2) << "one for each other partition, of the third hop";
}

TEST_F(Halo, AttributesOfTheFirstHopAreReadHere) {
  BatchOptions options;
  options.fanouts = {4};
  options.attrs = {"time"};
  EXPECT_EQ(questions(true, options), 0);
  EXPECT_GT(questions(false, options), 0);
}

TEST_F(Halo, IsWhatOwnRowsHaveEdgesFrom) {
  const DatasetMeta meta = Dataset(path(true)).meta();
  EXPECT_TRUE(meta.has_halos());
  EXPECT_FALSE(Dataset(path(false)).meta().has_halos());
  EXPECT_EQ(meta.fingerprint, Dataset(path(false)).meta().fingerprint);
  const testing::Machines machines(path(true), 3);
  for (int p = 0; p < 3; ++p) {
    const Dataset& dataset = machines.dataset(static_cast<std::size_t>(p));
    std::set<std::int64_t> sources;
    for (std::size_t e = 0; e < graph_.edges[0].sources.size(); ++e) {
      const std::int64_t from = dataset.dataset_id(0, graph_.edges[0].sources[e]),
                         to = dataset.dataset_id(0, graph_.edges[0].destinations[e]);
      const auto& offsets = meta.node_types[0].partition_offsets;
      if (partition_of(offsets, to) == p && partition_of(offsets, from) != p) sources.insert(from);
    }
    EXPECT_EQ(meta.node_types[0].halo_nodes[static_cast<std::size_t>(p)], std::ssize(sources));
    for (std::int64_t id = 0; id < dataset.num_nodes(0); ++id)
      EXPECT_EQ(dataset.halo_id(0, id) >= dataset.num_nodes(0), sources.contains(id)) << id;
  }
}

// What no checksum sees: files that are each whole, and are no copies.
TEST_F(Halo, ThatIsNoCopyIsFoundByVerify) {
  testing::verify(path(true));
  int changed = 0;
  const DatasetMeta sound = Dataset(path(true)).meta();
  for (const auto& [file, meta] : sound.files) {
    if (file.find("/halo/") == std::string::npos) continue;
    if (NpyArray(path(true) / file).header().count() == 0) continue;
    ++changed;
    const auto flip = [](std::byte* first) { *first ^= std::byte{1}; };
    testing::change_file(path(true), file, flip);
    expect_refused([&] { testing::verify(path(true)); }, file, ErrorCode::kCorrupt);
    testing::change_file(path(true), file, flip);
  }
  EXPECT_GE(changed, 3 * 6);
}

TEST_F(Halo, DamagedRow_IsNamedWhereItIsDrawn) {
  const std::string file = rows_path(halo_of(0), Dataset(path(true)).meta().edge_types[0]);
  testing::change_file(path(true), file, [](std::byte* first) {
    for (int row = 1; row < 4; ++row) reinterpret_cast<RowRecord*>(first)[row].offset = -5;
  });
  BatchOptions options;
  options.fanouts = {-1, -1};
  expect_refused([&] { questions(true, options); }, file, ErrorCode::kCorrupt);
}

TEST_F(Halo, PlacesThatLeadAnywhere_AreNamed) {
  const std::string file = halo_places_path(0, Dataset(path(true)).meta().node_types[0]);
  for (const std::int64_t before : {std::int64_t{-1}, std::int64_t{1'000}, INT64_MAX, INT64_MIN}) {
    testing::change_file(path(true), file, [&](std::byte* first) {
      for (std::int64_t i = 0; i < halo_places_shape(graph_.nodes[0].count)[0]; ++i)
        reinterpret_cast<HaloPlace*>(first)[i].before = before;
    });
    BatchOptions options;
    options.fanouts = {4, 4};
    expect_refused([&] { questions(true, options); }, file, ErrorCode::kCorrupt);
  }
}

// Bytes of any kind, which sanitizers watch: an error or other batches, and nothing read outside of a file.
TEST_F(Halo, DamagedAnywhere_IsAnErrorOrOtherBatches) {
  std::vector<std::string> files;
  for (const DatasetMeta meta = Dataset(path(true)).meta(); const auto& [file, about] : meta.files)
    if (file.starts_with("part-0000/") && is_halo_path(file) &&
        NpyArray(path(true) / file).header().count() > 0)
      files.push_back(file);
  std::mt19937_64 random(3);
  int errors = 0;
  for (int round = 0; round < 150; ++round) {
    const std::string& file = files[random() % files.size()];
    const std::string sound = testing::file_bytes(path(true) / file),
                      meta = testing::file_bytes(path(true) / "meta.json");
    const std::size_t bytes = NpyArray(path(true) / file).bytes().size();
    testing::change_file(path(true), file, [&](std::byte* first) {
      for (std::size_t changes = 1 + random() % 8; changes > 0; --changes)
        first[random() % bytes] ^= static_cast<std::byte>(1 + random() % 255);
    });
    BatchOptions options;
    options.fanouts = {-1, 4};
    options.edge_ids = round % 2 == 0;
    if (round % 3 == 1) options.weight = "weight";
    if (round % 3 == 2) options.time = "time";
    try {
      const testing::Machines machines(path(true), 3);
      testing::make_batch(machines.dataset(0), {own_seeds()}, options);
    } catch (const Error& error) {
      errors += error.code() == ErrorCode::kCorrupt;
    }
    testing::write_bytes(path(true) / file, sound);
    testing::write_bytes(path(true) / "meta.json", meta);
  }
  EXPECT_GT(errors, 20);
}

TEST_F(Halo, SizesThatAreNotThoseOfTheCut_AreFoundByVerify) {
  DatasetMeta meta = Dataset(path(true)).meta();
  --meta.node_types[0].halo_nodes[1];
  testing::write_bytes(path(true) / "meta.json", format_meta(meta));
  expect_refused([&] { testing::verify(path(true)); }, "'halo_nodes' or 'halo_edges' of partition 1",
                 ErrorCode::kCorrupt);
}

TEST_F(Halo, WithoutItsFolderIsNotUsed) {
  fs::remove_all(path(true) / "part-0000/halo");
  BatchOptions options;
  options.fanouts = {4, 4};
  EXPECT_EQ(questions(true, options), questions(false, options));
}

TEST_F(Halo, FileThatIsNotThere_IsNamed) {
  fs::remove_all(path(true) / "part-0001/halo/places");
  expect_refused([&] { Dataset(path(true), {.some_partitions = true, .partitions = {1}}); },
                 "part-0001/halo/places/", ErrorCode::kNotFound);
  const Dataset other(path(true), {.some_partitions = true, .partitions = {0, 2}});
  EXPECT_EQ(other.num_parts(), 5) << "two halos behind three partitions";
}

TEST_F(Halo, ManifestThatCannotBe_IsRefused) {
  const auto refused = [&](const std::function<void(DatasetMeta&)>& change, const std::string& part) {
    DatasetMeta meta = Dataset(path(true)).meta();
    change(meta);
    expect_refused([&] { parse_meta(format_meta(meta), "meta.json"); }, part, ErrorCode::kCorrupt);
  };
  refused([](DatasetMeta& meta) { meta.node_types[0].halo_nodes[0] = meta.node_types[0].count; },
          "more halo_nodes of partition 0 than");
  refused([](DatasetMeta& meta) { meta.node_types[0].halo_nodes.pop_back(); },
          "halo_nodes that do not match");
  refused([](DatasetMeta& meta) { meta.edge_types[0].halo_edges.pop_back(); },
          "halo_edges that do not match");
  refused([](DatasetMeta& meta) { meta.edge_types[0].halo_edges[0] = meta.edge_types[0].count + 1; },
          "halo_edges");
  refused([](DatasetMeta& meta) { meta.edge_types[0].halo_edges.clear(); }, "halos of some types");
}

}  // namespace
}  // namespace hopfeed
