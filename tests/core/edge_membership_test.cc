// Rows in the order of source ids: whether an edge joins two nodes, against the edge lists; the files at the
// door, under verify, and damaged in ways that must not become an address.
#include "core/dataset/row_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/base/error.h"
#include "core/seeds/edge_membership.h"
#include "tests/support/dataset_files.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

namespace fs = std::filesystem;

using testing::file_bytes;
using testing::verify;
using testing::write_bytes;

/// Users at two items, one of which has a row that is searched: 700 of 900 users, some of them several times.
testing::TypedGraph crowd() {
  testing::TypedGraph graph{.nodes = {{.name = "user", .count = 900}, {.name = "item", .count = 3}},
                            .edges = {{.src = "user", .rel = "buys", .dst = "item"}}};
  std::mt19937_64 random(3);
  for (int i = 0; i < 1'500; ++i) {
    graph.edges[0].sources.push_back(static_cast<std::int64_t>(random() % 700) * 9 / 7);
    graph.edges[0].destinations.push_back(i % 20 == 0 ? 2 : 0);
  }
  return graph;
}

class ByIdOrder : public ::testing::Test {
 protected:
  ByIdOrder() { write(1, true); }
  void write(int partitions, bool by_id) {
    testing::TypedCut cut = testing::random_typed_cut(graph_, partitions, 5);
    cut.by_id = by_id;
    testing::write_typed_dataset(data_, graph_, cut);
  }
  fs::path file() const { return data_ / by_id_path(0, Dataset(data_).meta().edge_types[0]); }
  static bool joined(const Dataset& dataset, std::int64_t user, std::int64_t item) {
    return EdgeMembership(dataset, 0).contains(dataset.dataset_id(0, user), dataset.dataset_id(1, item));
  }
  /// The file's entries, changed.
  void damage(const std::function<void(std::span<std::uint32_t>)>& change) const {
    std::string bytes = file_bytes(file());
    const std::size_t count = graph_.edges[0].sources.size();
    change({reinterpret_cast<std::uint32_t*>(bytes.data() + bytes.size()) - count, count});
    write_bytes(file(), bytes);
  }

  testing::TempFolder temp_;
  const fs::path data_ = temp_.path() / "data";
  const testing::TypedGraph graph_ = crowd();
};

TEST_F(ByIdOrder, FindsTheEdgesThatThereAre_WhateverTheCut) {
  std::set<std::pair<std::int64_t, std::int64_t>> edges;
  for (std::size_t i = 0; i < graph_.edges[0].sources.size(); ++i)
    edges.insert({graph_.edges[0].sources[i], graph_.edges[0].destinations[i]});
  ASSERT_GT(edges.size(), 600u);
  for (const int partitions : {1, 2, 3}) {
    for (const bool by_id : {true, false}) {
      write(partitions, by_id);
      verify(data_);
      const Dataset dataset(data_);
      EXPECT_EQ(dataset.by_id(0).order.size(), by_id ? static_cast<std::size_t>(partitions) : 0);
      for (std::int64_t user = 0; user < 900; ++user)
        for (std::int64_t item = 0; item < 3; ++item)
          EXPECT_EQ(joined(dataset, user, item), edges.contains({user, item})) << user << ", " << item;
    }
  }
}

TEST_F(ByIdOrder, OfRandomGraphs_AnswersAsTheEdgeListsDo) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 30; ++round) {
    const auto graph = testing::random_typed_graph({.seed = random()});
    auto cut = testing::random_typed_cut(graph, 1 + round % 3, random());
    cut.by_id = true;
    cut.wide_ids = round % 2 == 1;
    testing::write_typed_dataset(data_, graph, cut);
    verify(data_);
    const Dataset dataset(data_);
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const testing::TypedEdges& edges = graph.edges[e];
      const EdgeMembership membership(dataset, static_cast<int>(e));
      std::set<std::pair<std::int64_t, std::int64_t>> pairs;
      for (std::size_t i = 0; i < edges.sources.size(); ++i)
        pairs.insert({edges.sources[i], edges.destinations[i]});
      const int src = graph.node_type(edges.src), dst = graph.node_type(edges.dst);
      for (int i = 0; i < 200; ++i) {
        const auto u = static_cast<std::int64_t>(random() %
                                                 static_cast<std::uint64_t>(graph.nodes[src].count)),
                   v = static_cast<std::int64_t>(random() %
                                                 static_cast<std::uint64_t>(graph.nodes[dst].count));
        EXPECT_EQ(membership.contains(dataset.dataset_id(src, u), dataset.dataset_id(dst, v)),
                  pairs.contains({u, v}));
      }
    }
  }
}

TEST_F(ByIdOrder, IsOfVersion5_AndLeavesTheFingerprintAsItIs) {
  const DatasetMeta with = Dataset(data_).meta();
  EXPECT_EQ(with.version(), 5);
  EXPECT_TRUE(with.edge_types[0].has_by_id);
  write(2, false);
  const DatasetMeta without = Dataset(data_).meta();
  EXPECT_EQ(without.version(), 4);
  EXPECT_EQ(with.fingerprint, without.fingerprint);
  EXPECT_EQ(file_bytes(data_ / "meta.json").find("by_id"), std::string::npos);
}

TEST_F(ByIdOrder, AnOlderVersionKnowsNothingOfIt) {
  std::string text = file_bytes(data_ / "meta.json");
  text.replace(text.find("\"version\": 5"), 12, "\"version\": 4");
  try {
    parse_meta(seal_meta(text), "meta.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("what its version does not know"), std::string::npos);
  }
}

TEST_F(ByIdOrder, PositionsBehindTheRow_AreAnErrorAndNoAddress) {
  for (const std::uint32_t wrong : {1'425u, 1'500u, 0x7FFF'FFFFu, ~0u}) {
    damage([&](std::span<std::uint32_t> order) { std::ranges::fill(order, wrong); });
    const Dataset dataset(data_);
    try {
      joined(dataset, 1, 0);
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("the row of node 0"), std::string::npos) << error.what();
    }
    EXPECT_THROW(verify(data_), Error);
  }
}

TEST_F(ByIdOrder, AnyNumbers_GiveAnAnswerOrAnError) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 50; ++round) {
    damage([&](std::span<std::uint32_t> order) {
      for (std::uint32_t& entry : order)
        entry = static_cast<std::uint32_t>(random() % 100 == 0 ? random() : random() % 1'425);
    });
    const Dataset dataset(data_);
    for (std::int64_t user = 0; user < 900; user += 7) {
      try {
        joined(dataset, user, 0);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      }
    }
  }
}

TEST_F(ByIdOrder, AnotherOrder_IsFoundByVerify) {
  damage([](std::span<std::uint32_t> order) { std::swap(order[3], order[4]); });
  std::string meta = file_bytes(data_ / "meta.json"), bytes = file_bytes(file());
  try {
    verify(data_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_NE(std::string(error.what()).find("by_id.npy"), std::string::npos) << error.what();
  }
}

TEST_F(ByIdOrder, AFileThatIsCutShortOrGone_IsRefusedAtTheDoor) {
  const fs::path path = file();
  const std::string bytes = file_bytes(path);
  write_bytes(path, bytes.substr(0, bytes.size() - 4));
  EXPECT_THROW(Dataset{data_}, Error);
  fs::remove(path);
  EXPECT_THROW(Dataset{data_}, Error);
}

// Seven nodes in a ring, each with both neighbours twice: parallel edges keep the imported order.
TEST(GoldenByIdOrder, IsReadAndWrittenByteByByte) {
  testing::TypedGraph ring{.nodes = {{.count = 7}}, .edges = {{}}};
  for (std::int64_t v = 0; v < 7; ++v) {
    for (const std::int64_t source : {(v + 1) % 7, (v + 6) % 7, (v + 1) % 7, (v + 6) % 7}) {
      ring.edges[0].sources.push_back(source);
      ring.edges[0].destinations.push_back(v);
    }
  }
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "ring", ring, {.by_id = true});
  testing::expect_golden(folder.path() / "ring", "ring-v5");
  const Dataset dataset(testing::golden("ring-v5"));
  const std::uint32_t* order = dataset.by_id(0).order[0];
  EXPECT_EQ(std::vector<std::uint32_t>(order, order + 8),
            (std::vector<std::uint32_t>{0, 2, 1, 3, 1, 3, 0, 2}))
      << "node 0 has 1, 6, 1, 6, node 1 has 2, 0, 2, 0";
}

}  // namespace
}  // namespace hopfeed
