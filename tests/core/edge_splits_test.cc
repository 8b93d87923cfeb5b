// Version 5 of the dataset: edge types that know their reverse, and edge splits. What is new is checked at
// the door and by verify; a dataset that uses none of it, nor times, is of version 4, to the byte
// (dataset_test.cc has its golden files).
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/dataset/dataset.h"
#include "core/dataset/dataset_writer.h"
#include "tests/support/dataset_files.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int64_t>;

using testing::file_bytes;
using testing::verify;
using testing::write_bytes;

/// Users that buy items, the reverse of it, and three splits: with labels and times, with times, with
/// neither.
testing::TypedGraph shop() {
  return {.nodes = {{.name = "user", .count = 3}, {.name = "item", .count = 4}},
          .edges = {{.src = "user",
                     .rel = "buys",
                     .dst = "item",
                     .sources = {0, 1, 2, 2},
                     .destinations = {0, 1, 1, 3},
                     .time = {5, 6, 7, 8},
                     .splits = {{"train", {.pairs = {0, 0, 1, 1, 2, 1, 2, 3}, .times = {5, 6, 7, 8}}},
                                {"valid", {.pairs = {0, 3, 1, 0}, .labels = {1, 0}, .times = {9, 9}}},
                                {"test", {.pairs = {1, 3}}}}},
                    {.src = "item",
                     .rel = "rev_buys",
                     .dst = "user",
                     .sources = {0, 1, 1, 3},
                     .destinations = {0, 1, 2, 2},
                     .rev_of = "user__buys__item"}}};
}

Ints list(std::span<const std::int64_t> numbers) { return {numbers.begin(), numbers.end()}; }

class EdgeSplits : public ::testing::Test {
 protected:
  EdgeSplits() { testing::write_typed_dataset(data_, shop(), testing::random_typed_cut(shop(), 2, 3)); }
  std::string meta() const { return file_bytes(data_ / "meta.json"); }
  /// What is said of a manifest in which `from` is `to`.
  std::string complaint(const std::string& from, const std::string& to) const {
    std::string text = meta();
    if (text.find(from) == std::string::npos) return "no " + from;
    text.replace(text.find(from), from.size(), to);
    try {
      parse_meta(seal_meta(text), "meta.json");
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      return error.what();
    }
  }
  testing::TempFolder temp_;
  fs::path data_ = temp_.path() / "data";
};

TEST_F(EdgeSplits, AreReadAsTheyWereGiven) {
  verify(data_);
  const Dataset dataset(data_);
  EXPECT_EQ(dataset.meta().version(), 6) << "it has times too";
  const LinkSplit train = dataset.edge_split(0, "train"), valid = dataset.edge_split(0, "valid"),
                  test = dataset.edge_split(0, "test");
  EXPECT_EQ(list(train.pairs), (Ints{0, 0, 1, 1, 2, 1, 2, 3}));
  EXPECT_TRUE(train.labels.empty());
  EXPECT_EQ(list(train.times), (Ints{5, 6, 7, 8}));
  EXPECT_EQ(list(valid.pairs), (Ints{0, 3, 1, 0}));
  EXPECT_EQ(list(valid.labels), (Ints{1, 0}));
  EXPECT_EQ(list(valid.times), (Ints{9, 9}));
  EXPECT_EQ(list(test.pairs), (Ints{1, 3}));
  EXPECT_EQ(test.count(), 1);
  EXPECT_TRUE(test.labels.empty() && test.times.empty());
}

TEST_F(EdgeSplits, AnUnknownOneIsRefusedWithThoseThatExist) {
  const Dataset dataset(data_);
  try {
    dataset.edge_split(0, "val");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_NE(std::string(error.what()).find("no edge split 'val'; it has: test, train, valid"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(dataset.edge_split(1, "train"), Error);
}

TEST_F(EdgeSplits, ReversesAreKnownFromBothSides) {
  const DatasetMeta meta = Dataset(data_).meta();
  EXPECT_EQ(meta.reverse_edge_type(0), 1);
  EXPECT_EQ(meta.reverse_edge_type(1), 0);
  testing::TypedGraph alone = shop();
  alone.edges[1].rev_of.clear();
  testing::write_typed_dataset(data_, alone);
  EXPECT_EQ(Dataset(data_).meta().reverse_edge_type(0), -1);
}

TEST_F(EdgeSplits, WhatCannotBeAReverseIsRefused) {
  const std::string right = "\"rev_of\": \"user__buys__item\"";
  for (const char* wrong : {"user__sells__item", "item__rev_buys__user", "buys"})
    EXPECT_NE(complaint(right, std::string("\"rev_of\": \"") + wrong + "\"").find("cannot be the reverse of"),
              std::string::npos)
        << wrong;
  EXPECT_NE(complaint(right, "\"rev_of\": 3").find("rev_of"), std::string::npos);
  testing::TypedGraph twice = shop();
  twice.edges.push_back(twice.edges[1]);
  twice.edges[2].rel = "rev_too";
  EXPECT_THROW(testing::write_typed_dataset(temp_.path() / "twice", twice), Error);
}

TEST_F(EdgeSplits, AnOlderVersionKnowsNothingOfThem) {
  testing::TypedGraph timeless = shop();
  timeless.edges[0].time.clear();
  testing::write_typed_dataset(data_, timeless);
  EXPECT_NE(complaint("\"version\": 5", "\"version\": 4").find("what its version does not know"),
            std::string::npos);
}

TEST_F(EdgeSplits, WithoutThemADatasetIsOfVersion4) {
  testing::TypedGraph plain = shop();
  plain.edges[0].splits.clear();
  plain.edges[0].time.clear();
  plain.edges[1].rev_of.clear();
  testing::write_typed_dataset(data_, plain);
  EXPECT_NE(meta().find("\"version\": 4"), std::string::npos);
  EXPECT_EQ(meta().find("rev_of"), std::string::npos);
  EXPECT_EQ(meta().find("edge_splits"), std::string::npos);
}

TEST_F(EdgeSplits, BadCountsAndNamesAreRefused) {
  const std::string right = "\"train\": 4";
  EXPECT_NE(complaint(right, "\"train\": -1").find("'train' = -1"), std::string::npos);
  EXPECT_NE(complaint(right, "\"tr/in\": 4").find("no valid name"), std::string::npos);
  std::string text = meta();
  text.replace(text.find(right), right.size(), "\"train\": 5");  // well formed, but the file has four
  write_bytes(data_ / "meta.json", seal_meta(text));
  try {
    const Dataset dataset(data_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("its shape is (4,2,), meta.json asks for (5,2,)"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(EdgeSplits, OfNodesThatAreNotThereAreFoundByVerify) {
  for (const Ints& pair : {Ints{3, 0}, Ints{0, 4}, Ints{-1, 0}}) {
    testing::TypedGraph wrong = shop();
    wrong.edges[0].splits["test"].pairs = pair;
    testing::write_typed_dataset(data_, wrong);
    try {
      verify(data_);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("test/pairs.npy: link 0 has"), std::string::npos)
          << error.what();
    }
  }
}

// A mix-up that no checksum sees: the files are right, each by itself.
TEST_F(EdgeSplits, TheFingerprintTellsLinksApart) {
  const std::string fingerprint = Dataset(data_).meta().fingerprint;
  const auto other = [&](const std::function<void(testing::TypedGraph&)>& change) {
    testing::TypedGraph changed = shop();
    change(changed);
    testing::write_typed_dataset(temp_.path() / "other", changed);
    return Dataset(temp_.path() / "other").meta().fingerprint;
  };
  EXPECT_EQ(other([](auto&) {}), fingerprint) << "whatever the cut";
  EXPECT_NE(other([](auto& g) { g.edges[0].splits["test"].pairs = {1, 2}; }), fingerprint);
  EXPECT_NE(other([](auto& g) { g.edges[0].splits["valid"].labels = {0, 1}; }), fingerprint);
  EXPECT_NE(other([](auto& g) { g.edges[0].splits["train"].times[3] = 9; }), fingerprint);
  EXPECT_NE(other([](auto& g) { g.edges[1].rev_of.clear(); }), fingerprint);
}

TEST(GoldenEdgeSplits, AreReadAndWrittenByteByByte) {
  testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "shop", shop());
  testing::expect_golden(folder.path() / "shop", "shop-v6");
  EXPECT_EQ(testing::files_of(folder.path() / "shop").size(), 23U);
}

TEST(GoldenEdgeSplits, WithShardedIds_AreOfVersion10) {
  testing::TempFolder folder;
  testing::TypedGraph graph = shop();
  graph.nodes[0].splits["train"] = {2, 0};
  testing::TypedCut cut = testing::random_typed_cut(graph, 2, 3);
  cut.sharded_ids = cut.halos = true;
  testing::write_typed_dataset(folder.path() / "shop", graph, cut);
  testing::expect_golden(folder.path() / "shop", "shop-v10");
  EXPECT_EQ(Dataset(testing::golden("shop-v10")).meta().version(), kShardedIdsDatasetVersion);
}

// As version 5 was written where no row is in the order of a time.
TEST(GoldenEdgeSplits, WithoutOrdersByTime_AreOfVersion5) {
  testing::TempFolder folder;
  testing::TypedGraph timeless = shop();
  timeless.edges[0].time.clear();
  testing::write_typed_dataset(folder.path() / "shop", timeless);
  testing::expect_golden(folder.path() / "shop", "shop-v5");
  EXPECT_EQ(Dataset(testing::golden("shop-v5")).meta().version(), kLinksDatasetVersion);
}

}  // namespace
}  // namespace hopfeed
