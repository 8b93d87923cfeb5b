// What a consumer holds and a packed batch leaves out, put together, is the whole batch to the last byte:
// for every kind of sampling, any share, any cut; and a packed block that is none is refused.
#include "cache/held_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/batch/nonfinite.h"
#include "core/batch/packed_block.h"
#include "tests/core/all_kinds.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using testing::TempFolder;

constexpr auto kPacked = BatchView::Form::kPacked;

struct Made {
  AlignedBlock memory;
  bool packed() const { return is_packed(memory.bytes()); }
  BatchView view() const { return BatchView(memory.bytes(), kPacked); }
};

Made make(BatchMaker& maker, const BatchKey& key, HeldShare share) {
  Made made{.memory = AlignedBlock(maker.sample(key, share))};
  std::ranges::fill(made.memory.bytes(), std::byte{0xA5});
  maker.write(made.memory.bytes());
  return made;
}

AlignedBlock completed(const HeldRows& rows, const BatchView& packed) {
  rows.check(packed);
  AlignedBlock whole(rows.completed_bytes(packed));
  std::ranges::fill(whole.bytes(), std::byte{0x5A});
  rows.complete(packed, whole.bytes());
  return whole;
}

void expect_whole_for_every_share(const Dataset& dataset, const BatchOptions& options) {
  std::vector<std::int64_t> seeds(300);
  std::iota(seeds.begin(), seeds.end(), 0);
  const NodeList list(seeds, {.node_type = 0, .shuffle = true});
  BatchMaker maker(dataset, list, options);
  for (const std::uint32_t millionths : {0U, 1U, 50'000U, 333'333U, 1'000'000U}) {
    HeldRows rows(dataset.meta(), options, {.millionths = millionths});
    rows.load(dataset);
    for (const BatchKey& key : {BatchKey{.seed = 1, .epoch = 0, .first = 0, .count = 64},
                                BatchKey{.seed = 1, .epoch = 3, .first = 100, .count = 1},
                                BatchKey{.seed = 1, .epoch = 3, .first = 0, .count = 300}}) {
      const testing::Block whole = testing::make_block(maker, key);
      const Made made = make(maker, key, rows.share());
      ASSERT_LE(made.memory.bytes().size(), whole.size());
      if (!made.packed()) {
        EXPECT_EQ(BatchView(made.memory.bytes()).digest(), whole.view().digest());
        continue;
      }
      EXPECT_LT(made.memory.bytes().size(), whole.size());
      const AlignedBlock again = completed(rows, made.view());
      ASSERT_EQ(again.bytes().size(), whole.size());
      EXPECT_EQ(std::memcmp(again.bytes().data(), whole.memory.bytes().data(), whole.size()), 0)
          << millionths;
    }
  }
}

class HeldRowsOfKind : public ::testing::TestWithParam<testing::Kind> {
 protected:
  static void SetUpTestSuite() { testing::register_own_sampler(); }
  const TempFolder folder_;
};

TEST_P(HeldRowsOfKind, WithWhatIsHeldAPackedBatchIsTheWholeOne) {
  testing::write_all_kinds_graph(folder_.path() / "data", 5);
  expect_whole_for_every_share(Dataset(folder_.path() / "data"), GetParam().options);
}

TEST_P(HeldRowsOfKind, OfTwoNodeTypesToo) {
  testing::write_all_kinds_types(folder_.path() / "data", 5);
  BatchOptions options = testing::of_types(GetParam().options);
  if (options.subgraph == Subgraph::kBidirectional) {  // the graph has no reverse types
    options.subgraph = Subgraph::kInduced;
    options.keep_orig_edges = false;
  }
  expect_whole_for_every_share(Dataset(folder_.path() / "data"), options);
}

INSTANTIATE_TEST_SUITE_P(Kinds, HeldRowsOfKind, ::testing::ValuesIn(testing::all_kinds()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HeldRowsWithAScale, AreTheWholeBatchToo) {
  const TempFolder folder;
  for (const ElementType type : {ElementType::kInt8Scaled, ElementType::kInt4Scaled}) {
    testing::TinyGraph graph = testing::random_graph({.num_nodes = 500, .num_edges = 5'000, .x_width = 75});
    graph.x_type = type;
    testing::write_tiny_dataset(folder.path() / "data", graph, testing::random_cut(graph, 3, 2));
    expect_whole_for_every_share(Dataset(folder.path() / "data"), {.fanouts = {5, 5}});
  }
}

bool finite(HeldRows& rows) {
  return std::ranges::all_of(rows.runs(), [](const HeldRows::Run& run) { return run.finite(run.rows); });
}

class HeldRowsTest : public ::testing::Test {
 protected:
  /// 400 nodes with 40 features each, so that leaving a row out pays, in `partitions` parts.
  Dataset dataset(int partitions, std::uint64_t seed = 1) {
    const testing::TinyGraph graph = testing::random_graph(
        {.num_nodes = 400, .num_edges = 4'000, .x_width = 40, .num_train = 300, .seed = 7});
    const std::filesystem::path path =
        folder_.path() / (std::to_string(partitions) + "-" + std::to_string(seed));
    testing::write_tiny_dataset(path, graph, testing::random_cut(graph, partitions, seed));
    return Dataset(path);
  }
  const TempFolder folder_;
  const BatchOptions options_{.fanouts = {5, 5}};
  const BatchKey key_{.seed = 1, .epoch = 0, .first = 0, .count = 50};
};

TEST_F(HeldRowsTest, OfEachPartitionAPrefixIsHeld) {
  const Dataset data = dataset(3);
  HeldRows rows(data.meta(), options_, {.millionths = 250'000});
  const std::vector<std::int64_t>& offsets = data.meta().node_types[0].partition_offsets;
  std::size_t p = 0;
  for (const HeldRows::Run& run : rows.runs()) {
    if (run.attr != "x") continue;
    EXPECT_EQ(run.first, offsets[p]);
    EXPECT_EQ(run.count, (offsets[p + 1] - offsets[p]) / 4);
    ++p;
  }
  EXPECT_EQ(p, 3U);
  expect_whole_for_every_share(data, options_);
}

TEST_F(HeldRowsTest, AllHeld_NoRowTravels) {
  const Dataset data = dataset(2);
  std::vector<std::int64_t> seeds(300);
  std::iota(seeds.begin(), seeds.end(), 0);
  const NodeList list(seeds, {});
  BatchMaker maker(data, list, options_);
  const Made made = make(maker, key_, {.millionths = HeldShare::kAll});
  ASSERT_TRUE(made.packed());
  EXPECT_EQ(made.view().get("x", Store::kNode).shape[0], 0);
  const HeldRows rows(data.meta(), options_, {.millionths = HeldShare::kAll});
  const HeldRows::Counts counts = rows.count(made.view());
  EXPECT_EQ(counts.rows, made.view().num_nodes());
  EXPECT_EQ(counts.held, counts.rows);
  EXPECT_THROW(BatchView(made.memory.bytes()), Error);  // nobody takes it for the batch
}

TEST_F(HeldRowsTest, RowsTooSmallToPay_TravelAsTheyDid) {
  testing::write_tiny_dataset(folder_.path() / "small",
                              testing::random_graph({.num_nodes = 400, .x_width = 0, .num_train = 300}));
  const Dataset data(folder_.path() / "small");
  std::vector<std::int64_t> seeds{1, 2, 3};
  const NodeList list(seeds, {});
  BatchMaker maker(data, list, {.fanouts = {1}});
  const Made made = make(maker, {.seed = 1, .epoch = 0, .first = 0, .count = 3}, {.millionths = 500'000});
  EXPECT_FALSE(made.packed());
}

// A server gives up makers by what they hold, and splitting takes as much as sampling does.
TEST_F(HeldRowsTest, TellingHeldRowsFromOthers_CountsAsScratch) {
  const Dataset data = dataset(3);
  const NodeList list(data.split(0, "train"), {});
  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = 64};
  for (const HeldShare share : {HeldShare{.millionths = 1}, HeldShare{.millionths = 500'000},
                                HeldShare{.millionths = HeldShare::kAll}}) {
    BatchMaker whole(data, list, options_), maker(data, list, options_);
    whole.sample(key);
    EXPECT_LE(whole.scratch_bytes(), whole.scratch(64).at_most);
    maker.sample(key, share);
    const auto nodes = static_cast<std::size_t>(testing::make_block(whole, key).view().num_nodes());
    EXPECT_GE(maker.scratch_bytes(), whole.scratch_bytes() + nodes * 12)
        << "an id and a number for each node";
    EXPECT_LE(maker.scratch_bytes(), maker.scratch(64, share).at_most);
    const std::size_t bytes = maker.scratch_bytes();
    maker.sample(key, share);
    EXPECT_EQ(maker.scratch_bytes(), bytes);
  }
}

TEST_F(HeldRowsTest, OrderTellsCutsApart) {
  constexpr HeldShare share{.millionths = 300'000};
  const DatasetMeta meta = dataset(2, 1).meta();
  EXPECT_EQ(held_order(meta, share), held_order(dataset(2, 1).meta(), share));
  EXPECT_NE(held_order(meta, share), held_order(dataset(2, 2).meta(), share));
  EXPECT_NE(held_order(meta, share), held_order(dataset(3, 1).meta(), share));
  EXPECT_NE(held_order(meta, share), held_order(meta, {.millionths = 310'000}));
}

// Every client that opens a job asks for it: reading the ids of a billion nodes would hold up the server.
TEST_F(HeldRowsTest, OrderIsToldByTheManifestWithoutTheFiles) {
  constexpr HeldShare share{.millionths = 300'000};
  const DatasetMeta meta = dataset(2, 1).meta();
  const DatasetMeta read = parse_meta(format_meta(meta), "meta.json");
  EXPECT_EQ(held_order(read, share), held_order(meta, share));
  DatasetMeta other = read;
  ++other.files.at(new_ids_path(other.node_types[0])).xxh3;
  EXPECT_NE(held_order(other, share), held_order(meta, share));
  other.files.clear();
  EXPECT_THROW(held_order(other, share), Error);
}

TEST_F(HeldRowsTest, OrderOfShardedIdsIsThatOfAllShards) {
  constexpr HeldShare share{.millionths = 300'000};
  DatasetMeta meta = dataset(2, 1).meta();
  meta.sharded_ids = true;
  FileMeta &first = meta.files[new_ids_shard_path(0, meta.node_types[0])],
           &second = meta.files[new_ids_shard_path(1, meta.node_types[0])];
  first.xxh3 = 1, second.xxh3 = 2;
  const std::uint64_t order = held_order(meta, share);
  std::swap(first.xxh3, second.xxh3);
  EXPECT_NE(held_order(meta, share), order);
  meta.files.erase(new_ids_shard_path(1, meta.node_types[0]));
  EXPECT_THROW(held_order(meta, share), Error);
}

TEST_F(HeldRowsTest, FitIsTheLargestShareWithinTheBytes) {
  const DatasetMeta meta = dataset(2).meta();
  const std::size_t all = HeldRows::bytes_of(meta, options_, {.millionths = HeldShare::kAll});
  EXPECT_EQ(all, 400U * (40 * 4 + 8));  // x and y
  EXPECT_EQ(HeldRows::fit(meta, options_, {.millionths = HeldShare::kAll}, all).millionths, HeldShare::kAll);
  EXPECT_EQ(HeldRows::fit(meta, options_, {.millionths = 200'000}, all).millionths, 200'000U);
  const HeldShare half = HeldRows::fit(meta, options_, {.millionths = HeldShare::kAll}, all / 2);
  EXPECT_LE(HeldRows::bytes_of(meta, options_, half), all / 2);
  EXPECT_GT(HeldRows::bytes_of(meta, options_, {.millionths = half.millionths + 1}), all / 2);
  EXPECT_EQ(HeldRows::bytes_of(meta, options_, HeldRows::fit(meta, options_, {.millionths = 900'000}, 0)),
            0U);
}

TEST_F(HeldRowsTest, NaNAmongTheRowsThatCame_IsToldWithItsNode) {
  testing::TinyGraph graph = testing::random_graph(
      {.num_nodes = 400, .num_edges = 4'000, .x_width = 40, .num_train = 300, .seed = 7});
  graph.x[390 * 40 + 3] = std::numeric_limits<float>::quiet_NaN();
  testing::write_tiny_dataset(folder_.path() / "nan", graph);
  const Dataset data(folder_.path() / "nan");
  std::vector<std::int64_t> seeds{5, 390, 7, 1};
  const NodeList list(seeds, {});
  BatchMaker maker(data, list, options_);
  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = 4};
  const testing::Block whole = testing::make_block(maker, key);
  const Made made = make(maker, key, {.millionths = 500'000});
  ASSERT_TRUE(made.packed());
  const auto said = [](const BatchView& view) -> std::string {
    try {
      require_finite(view);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(said(whole.view()).find("node 390"), std::string::npos) << said(whole.view());
  EXPECT_EQ(said(made.view()), said(whole.view()));
  HeldRows rows(data.meta(), options_, {.millionths = 500'000});
  rows.load(data);
  EXPECT_TRUE(finite(rows));
  HeldRows all(data.meta(), options_, {.millionths = HeldShare::kAll});
  all.load(data);
  EXPECT_FALSE(finite(all));
}

TEST_F(HeldRowsTest, DamagedPackedBlocks_AreRefusedByWhatIsWrong) {
  const Dataset data = dataset(2);
  std::vector<std::int64_t> seeds(300);
  std::iota(seeds.begin(), seeds.end(), 0);
  const NodeList list(seeds, {});
  BatchMaker maker(data, list, options_);
  const HeldShare share{.millionths = 400'000};
  HeldRows rows(data.meta(), options_, share);
  rows.load(data);
  const auto refusal = [&](const std::function<void(const BatchView&)>& damage) -> std::string {
    const Made made = make(maker, key_, share);
    EXPECT_TRUE(made.packed());
    damage(made.view());
    try {
      rows.check(made.view());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      return error.what();
    }
    return "";
  };
  const auto bytes_of = [](const BatchView& view, std::string_view name) {
    return const_cast<std::byte*>(view.get(name, Store::kNode).bytes.data());
  };
  EXPECT_EQ(refusal([](const BatchView&) {}), "");
  EXPECT_NE(refusal([&](const BatchView& view) {
              bytes_of(view, kHeldBits)[0] ^= std::byte{1};
            }).find("rows are told"),
            std::string::npos);
  EXPECT_NE(
      refusal([&](const BatchView& view) { bytes_of(view, kHeldRows)[3] = std::byte{0xFF}; }).find("beyond"),
      std::string::npos);
  // A bit of a held node moved to one that is not: as many as before, and nothing that check() could see
  // differs but the rows; the bits of no node do.
  EXPECT_NE(refusal([&](const BatchView& view) {
              const ArrayView bits = view.get(kHeldBits, Store::kNode);
              if (view.num_nodes() % 8 != 0)
                bytes_of(view, kHeldBits)[bits.bytes.size() - 1] |= std::byte{0x80};
              else
                bytes_of(view, kHeldBits)[0] ^= std::byte{1};
            }),
            "");
}

BlockEntry& entry_of(const BatchView& view, std::string_view name) {
  auto* const entries =
      const_cast<BlockEntry*>(reinterpret_cast<const BlockEntry*>(view.bytes().data() + sizeof(BlockHeader)));
  for (int i = 0; i < view.num_arrays(); ++i)
    if (view.array(i).name == name && view.array(i).store == Store::kNode) return entries[i];
  throw Error(ErrorCode::kNotFound, fmt::format("no array '{}'", name));
}

class HostileBlock : public HeldRowsTest {
 protected:
  HostileBlock() {
    std::iota(seeds_.begin(), seeds_.end(), 0);
    const NodeList list(seeds_, {});
    BatchMaker maker(data_, list, options_);
    made_ = make(maker, key_, share_);
  }
  std::string refusal(const BatchOptions& options) {
    try {
      HeldRows(data_.meta(), options, share_).check(made_.view());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const Dataset data_ = dataset(2);
  const HeldShare share_{.millionths = 400'000};
  std::vector<std::int64_t> seeds_ = std::vector<std::int64_t>(300);
  Made made_;
};

TEST_F(HostileBlock, NodesOfAShapeWithoutBytes_AreRefused) {
  ASSERT_TRUE(made_.packed());
  const BatchView view = made_.view();  // before it is half damaged
  for (const std::string_view name : {std::string_view("x"), std::string_view("y"), kHeldBits, kHeldRows}) {
    entry_of(view, name).bytes = 0;
    entry_of(view, name).shape[0] = 0;
  }
  BlockEntry& n_id = entry_of(view, "n_id");
  n_id.num_dims = 2;
  n_id.shape[0] = 1'000'000;
  n_id.shape[1] = 0;
  n_id.bytes = 0;
  EXPECT_NE(refusal(options_).find("no list"), std::string::npos) << refusal(options_);
  EXPECT_EQ(HeldRows(data_.meta(), options_, share_).count(made_.view()).rows, 0);
}

TEST_F(HostileBlock, AnAttributeTwice_IsRefused) {
  BatchOptions x_alone = options_;
  x_alone.attrs = {"x"};
  EXPECT_EQ(refusal(x_alone), "");
  entry_of(made_.view(), "y").name[0] = 'x';  // with rows that are shorter than those of x
  EXPECT_NE(refusal(x_alone).find("twice"), std::string::npos) << refusal(x_alone);
}

TEST_F(HostileBlock, OfMoreNodeTypesThanTheDataset_IsCountedWithoutThem) {
  const_cast<BlockHeader&>(made_.view().header()).num_node_types = 60'000;
  EXPECT_EQ(HeldRows(data_.meta(), options_, share_).count(made_.view()).rows, made_.view().num_nodes());
}

TEST_F(HeldRowsTest, NoMoreRowsAreHeldThanHaveNumbers) {
  DatasetMeta meta = dataset(1).meta();
  meta.node_types[0].partition_offsets = {0, std::int64_t{1} << 40};
  const HeldShare share = HeldRows::fit(meta, options_, {.millionths = HeldShare::kAll}, SIZE_MAX);
  EXPECT_LE(share.rows(std::int64_t{1} << 40), kMaxHeldRows);
  EXPECT_GT(HeldShare{.millionths = share.millionths + 1}.rows(std::int64_t{1} << 40), kMaxHeldRows);
  EXPECT_EQ(HeldRows::fit(meta, options_, {.millionths = HeldShare::kAll}, 1).millionths, 0U);
}

}  // namespace
}  // namespace hopfeed
