// Rows of one partition from memory, those of the others from elsewhere: the bytes of a plain array for every
// cut, every partition and any way to gather them.
#include "cache/partition_features.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cache/file_features.h"
#include "core/base/error.h"
#include "core/maker/batch_maker.h"
#include "core/maker/mapped_features.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ids = std::vector<std::int64_t>;

const FeatureName kNodeRows{.store = Store::kNode, .type = 0, .name = "x"};

void write_cut_rows(const std::filesystem::path& folder, std::int64_t width, int partitions) {
  const testing::TinyGraph graph =
      testing::random_graph({.num_nodes = 300, .num_edges = 1'200, .x_width = width, .num_train = 100});
  testing::write_tiny_dataset(folder, graph, testing::random_cut(graph, partitions, 3));
}

/// Ids with repeats, in any order.
Ids any_ids(std::int64_t nodes, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Ids ids(count);
  for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(nodes));
  return ids;
}

/// Gathered in calls of `at_a_time` rows.
std::vector<std::byte> gathered(FeatureSource& source, const Ids& ids, std::size_t row_bytes,
                                std::size_t at_a_time) {
  std::vector<std::byte> out(ids.size() * row_bytes, std::byte{0xee});
  EXPECT_EQ(source.prepare(ids), ids.size());
  for (std::size_t done = 0; done < ids.size(); done += at_a_time)
    source.gather(std::min(at_a_time, ids.size() - done), out.data() + done * row_bytes);
  return out;
}

/// Mapped rows of other partitions; writes down which ids it is asked for.
class OtherRows final : public FeatureSource {
 public:
  OtherRows(std::unique_ptr<FeatureSource> rows, Ids& asked, int& dropped)
      : rows_(std::move(rows)), asked_(asked), dropped_(dropped) {}
  std::size_t prepare(std::span<const std::int64_t> ids) override {
    asked_.assign(ids.begin(), ids.end());
    return rows_->prepare(ids);
  }
  void gather(std::size_t rows, std::byte* out) override { rows_->gather(rows, out); }
  void drop() override { ++dropped_; }
  TierCounts counts() const override {
    return {.file_rows = rows_->counts().memory_rows, .file_bytes = rows_->counts().memory_bytes};
  }

 private:
  const std::unique_ptr<FeatureSource> rows_;
  Ids& asked_;
  int& dropped_;
};

TEST(PartitionFeatures, GivesTheRowsOfThePlainArray_ForEveryCutAndPartition) {
  for (const int partitions : {1, 2, 3, 7}) {
    for (const std::int64_t width : {1, 17, 400}) {
      const testing::TempFolder folder;
      write_cut_rows(folder.path() / "d", width, partitions);
      const Dataset dataset(folder.path() / "d");
      const auto row_bytes = static_cast<std::size_t>(width) * sizeof(float);
      const auto plain = mapped_features(dataset, kNodeRows);
      for (int own = 0; own < partitions; ++own) {
        const auto mapped = partition_features(own, mapped_features)(dataset, kNodeRows);
        const auto files = partition_features(own, feature_sources(FeaturesFrom::kFile))(dataset, kNodeRows);
        for (const std::size_t count : {0, 1, 2, 100, 257}) {
          const Ids ids = any_ids(300, count, count);
          const std::vector<std::byte> expected = gathered(*plain, ids, row_bytes, 1'000);
          for (const std::size_t at_a_time : {1, 50, 1'000}) {
            EXPECT_EQ(gathered(*mapped, ids, row_bytes, at_a_time), expected) << own << " " << at_a_time;
            EXPECT_EQ(gathered(*files, ids, row_bytes, at_a_time), expected) << own << " " << at_a_time;
          }
        }
      }
    }
  }
}

TEST(PartitionFeatures, AsksOthersForTheirRowsAlone_AndCountsItsOwn) {
  const testing::TempFolder folder;
  write_cut_rows(folder.path() / "d", 20, 3);
  const Dataset dataset(folder.path() / "d");
  const std::vector<std::int64_t>& offsets = dataset.meta().node_types[0].partition_offsets;
  Ids asked;
  int dropped = 0;
  const auto source = partition_features(1, [&](const Dataset& data, const FeatureName& what) {
    return std::make_unique<OtherRows>(mapped_features(data, what), asked, dropped);
  })(dataset, kNodeRows);
  const Ids ids{offsets[1], 0, offsets[2] - 1, offsets[2], offsets[1], 299};
  gathered(*source, ids, 80, 4);
  EXPECT_EQ(asked, (Ids{0, offsets[2], 299}));
  EXPECT_EQ(source->counts(),
            (TierCounts{.memory_rows = 3, .memory_bytes = 240, .file_rows = 3, .file_bytes = 240}));
  source->prepare(ids);
  source->drop();
  EXPECT_EQ(dropped, 1);
  gathered(*source, Ids{offsets[1]}, 80, 1);
  EXPECT_EQ(asked, Ids{}) << "a batch of own rows";
}

TEST(PartitionFeatures, ABatchIsTheSameBytesWhicheverPartitionIsAtHand) {
  const testing::TempFolder folder;
  testing::TypedGraph graph{
      .nodes = {{.name = "node", .count = 60, .x_width = 24, .splits = {{"train", {}}}}},
      .edges = {{.sources = {}, .destinations = {}, .weight = {}}}};
  for (std::int64_t v = 0; v < 60; ++v) {
    for (int i = 0; i < 24; ++i) graph.nodes[0].x.push_back(static_cast<float>(24 * v + i));
    graph.nodes[0].splits["train"].push_back(v);
    for (const std::int64_t hop : {1, 7, 30}) {
      graph.edges[0].sources.push_back((v + hop) % 60);
      graph.edges[0].destinations.push_back(v);
      graph.edges[0].weight.push_back(static_cast<double>(v * 100 + hop));
    }
  }
  testing::TypedCut cut{.partitions = 3, .partition_of = {std::vector<int>(60)}};
  for (int v = 0; v < 60; ++v) cut.partition_of[0][static_cast<std::size_t>(v)] = v % 7 % 3;
  testing::write_typed_dataset(folder.path() / "d", graph, cut);
  const Dataset dataset(folder.path() / "d");
  const NodeList list(dataset.split(0, "train"), {});
  const BatchOptions options{.fanouts = {2, 2}, .edge_attrs = {"weight"}};
  BatchMaker plain(dataset, list, options);
  for (int own = 0; own < 3; ++own) {
    BatchMaker maker(dataset, list, options, {},
                     partition_features(own, feature_sources(FeaturesFrom::kFile)));
    for (std::int64_t first = 0; first < 60; first += 20) {
      const BatchKey key{.seed = 5, .epoch = 1, .first = first, .count = 20};
      EXPECT_EQ(testing::make_block(maker, key).view().digest(),
                testing::make_block(plain, key).view().digest())
          << own;
    }
    EXPECT_GT(maker.tier_counts().memory_rows, 0);
    EXPECT_GT(maker.tier_counts().file_rows, 0);
  }
}

TEST(PartitionFeatures, APartitionThatIsNotThereIsRefusedByName) {
  const testing::TempFolder folder;
  write_cut_rows(folder.path() / "d", 20, 3);
  const Dataset dataset(folder.path() / "d");
  for (const std::int64_t own : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 40}) {
    try {
      partition_features(own, mapped_features)(dataset, kNodeRows);
      FAIL() << own;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_NE(std::string(error.what()).find("local_partition"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace hopfeed
