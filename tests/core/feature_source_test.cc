// Sources of features that are not the mapped array: when a maker asks them, and what it makes of their rows.
#include "core/maker/feature_source.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/batch/field_names.h"
#include "core/maker/batch_maker.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Lines = std::vector<std::string>;

/// Rows of even dataset ids are held elsewhere: the block gets the others. Writes down what it is asked.
class OddRows : public FeatureSource {
 public:
  OddRows(std::unique_ptr<FeatureSource> rows, std::string name, Lines& log)
      : rows_(std::move(rows)), name_(std::move(name)), log_(log) {}
  std::size_t prepare(std::span<const std::int64_t> ids) override {
    odd_.clear();
    for (const std::int64_t id : ids)
      if (id % 2 == 1) odd_.push_back(id);
    log_.push_back("prepare " + name_);
    return rows_->prepare(odd_);
  }
  void gather(std::size_t rows, std::byte* out) override {
    log_.push_back("gather " + name_);
    rows_->gather(rows, out);
  }
  TierCounts counts() const override { return rows_->counts(); }

 private:
  const std::unique_ptr<FeatureSource> rows_;
  const std::string name_;
  std::vector<std::int64_t> odd_;
  Lines& log_;
};

TEST(FeatureSource, IsMadeForEachAttributeOfTheBatch) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(
      folder.path() / "data",
      {.nodes = {{.name = "node", .count = 4, .y = {0, 1, 0, 1}}},
       .edges = {{.sources = {0, 1, 2}, .destinations = {1, 2, 3}, .weight = {1, 2, 3}}}});
  const Dataset dataset(folder.path() / "data");
  const std::vector<std::int64_t> seeds{0, 1};
  const NodeList list(seeds, {});
  Lines made;
  const BatchMaker maker(dataset, list, {.fanouts = {2}, .edge_attrs = {"weight"}}, {},
                         [&](const Dataset& data, const FeatureName& feature) {
                           made.push_back((feature.store == Store::kNode ? "node " : "edge ") +
                                          std::to_string(feature.type) + " " + feature.name);
                           return mapped_features(data, feature);
                         });
  EXPECT_EQ(made, (Lines{"node 0 y", "edge 0 weight"}));
}

// Who takes rows from elsewhere gets a smaller block, whose size is known before anything is gathered.
TEST(FeatureSource, RowsThatItLeavesOut_AreNotInTheBlock) {
  const testing::TempFolder folder;
  testing::TinyGraph graph = testing::ring_graph(10);
  graph.x_width = 2;
  for (std::int64_t v = 0; v < 20; ++v) graph.x.push_back(static_cast<float>(v));
  testing::write_tiny_dataset(folder.path() / "data", graph);
  const Dataset dataset(folder.path() / "data");
  const std::vector<std::int64_t> seeds{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const NodeList list(seeds, {.shuffle = false});
  const BatchOptions options{.fanouts = {1}, .dataset_ids = true, .attrs = {{"x"}}};
  Lines log;
  BatchMaker maker(dataset, list, options, {}, [&](const Dataset& data, const FeatureName& feature) {
    return std::make_unique<OddRows>(mapped_features(data, feature), feature.name, log);
  });
  BatchMaker mapped(dataset, list, options);
  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = 10};
  const testing::Block whole = testing::make_block(mapped, key), block = testing::make_block(maker, key);
  EXPECT_EQ(log, (Lines{"prepare x", "gather x"}));
  EXPECT_LT(block.size(), whole.size());
  EXPECT_EQ(maker.max_block_bytes(10), mapped.max_block_bytes(10)) << "it may have all rows";
  const auto all = whole.view().get("x", Store::kNode).as<float>();
  const auto ids = whole.view().get(batch_field::kDatasetId, Store::kNode).as<std::int64_t>();
  std::vector<float> odd;
  for (std::size_t i = 0; i < 10; ++i)
    if (ids[i] % 2 == 1) odd.insert(odd.end(), {all[2 * i], all[2 * i + 1]});
  const ArrayView x = block.view().get("x", Store::kNode);
  EXPECT_EQ(testing::ints(x.shape), (std::vector<std::int64_t>{5, 2}));
  const auto rows = x.as<float>();
  EXPECT_EQ(std::vector<float>(rows.begin(), rows.end()), odd);
  EXPECT_EQ(testing::ints(block.view().n_id()), testing::ints(whole.view().n_id()));
}

// A batch that was sampled and not written leaves nothing behind.
TEST(FeatureSource, IsPreparedForEachBatchAnew) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "data", testing::labelled_ring());
  const Dataset dataset(folder.path() / "data");
  const NodeList list(dataset.split(0, "train"), {});
  BatchMaker maker(dataset, list, {.fanouts = {2}});
  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = 1};
  const std::uint64_t digest = testing::make_block(maker, key).view().digest();
  maker.sample({.seed = 1, .epoch = 1, .first = 0, .count = list.size()});
  EXPECT_EQ(testing::make_block(maker, key).view().digest(), digest);
}

}  // namespace
}  // namespace hopfeed
