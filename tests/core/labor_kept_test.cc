// What rows have taken under variates that batches share: kept as it was taken, found until the variates
// change, and given in place of the row.
#include <gtest/gtest.h>

#include <new>
#include <numeric>
#include <random>

#include "core/draws/labor_kept.h"
#include "core/draws/labor_memory.h"
#include "core/draws/labor_picker.h"
#include "tests/core/address_limit.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

template <class Index>
struct List {
  std::vector<Index> sources;
  std::vector<std::uint32_t> positions;
  LaborKept::Taken taken() const {
    return {.count = sources.size(),
            .sources_at = reinterpret_cast<std::uint64_t>(sources.data()),
            .positions_at = reinterpret_cast<std::uint64_t>(positions.data())};
  }
};

template <class Index>
void expect_list(const LaborKept& kept, std::int64_t node, const List<Index>& list) {
  const std::uint64_t found = kept.find(node);
  ASSERT_NE(found, 0u) << "node " << node;
  const LaborKept::Taken taken = kept.read(found);
  ASSERT_EQ(taken.count, list.sources.size()) << "node " << node;
  ASSERT_EQ(taken.sources_at % alignof(Index), 0u);
  const auto* sources = reinterpret_cast<const Index*>(taken.sources_at);
  const auto* positions = reinterpret_cast<const std::uint32_t*>(taken.positions_at);
  EXPECT_TRUE(std::equal(list.sources.begin(), list.sources.end(), sources)) << "node " << node;
  EXPECT_TRUE(std::equal(list.positions.begin(), list.positions.end(), positions)) << "node " << node;
}

template <class Index>
class LaborLists : public ::testing::Test {
 protected:
  static constexpr std::int64_t kNodes = 40;
  CscView csc_{.num_dst_nodes = kNodes,
               .num_edges = 400,
               .index_type = sizeof(Index) == 4 ? ElementType::kInt32 : ElementType::kInt64};
  std::mt19937_64 random_{1};
  LaborKept kept_;

  List<Index> random_list(std::size_t count) {
    List<Index> list;
    for (; count > 0; --count) {
      list.sources.push_back(static_cast<Index>(random_() >> 1));
      list.positions.push_back(static_cast<std::uint32_t>(random_()));
    }
    return list;
  }
};
using IndexTypes = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(LaborLists, IndexTypes);

TYPED_TEST(LaborLists, OfAnyLength_AreFoundAsTheyWereKept) {
  this->kept_.begin(this->csc_, 0);
  std::vector<List<TypeParam>> lists;
  for (std::int64_t node = 0; node < this->kNodes; node += 2) {  // 0, 1, 2 ... 19 edges
    lists.push_back(this->random_list(static_cast<std::size_t>(node / 2)));
    this->kept_.keep(node, lists.back().taken());
  }
  for (std::int64_t node = 0; node < this->kNodes; node += 2) {
    expect_list(this->kept_, node, lists[static_cast<std::size_t>(node / 2)]);
    EXPECT_EQ(this->kept_.find(node + 1), 0u) << "node " << node + 1;
  }
}

TYPED_TEST(LaborLists, UnderOtherVariates_AreNotFound) {
  const auto first = this->random_list(5), second = this->random_list(7);
  this->kept_.begin(this->csc_, 0);
  this->kept_.keep(3, first.taken());
  this->kept_.begin(this->csc_, 0);
  expect_list(this->kept_, 3, first);
  this->kept_.begin(this->csc_, 9);
  EXPECT_EQ(this->kept_.find(3), 0u);
  this->kept_.keep(4, second.taken());
  this->kept_.begin(this->csc_, 0);
  EXPECT_EQ(this->kept_.find(3), 0u) << "the lists of the first time are gone";
  EXPECT_EQ(this->kept_.find(4), 0u);
}

TYPED_TEST(LaborLists, ForWhichThereIsNoRoom_AreLeftOutAndTheOthersStay) {
  this->csc_.num_edges = 0;
  this->kept_.begin(this->csc_, 5);
  const auto list = this->random_list(9), empty = this->random_list(0);
  std::int64_t kept = 0;
  for (std::int64_t node = 0; node < this->kNodes; ++node) {
    this->kept_.keep(node, list.taken());
    kept += this->kept_.find(node) != 0;
  }
  ASSERT_GT(kept, 2);
  ASSERT_LT(kept, this->kNodes - 1) << "two words a node cannot hold nine edges each";
  for (std::int64_t node = 0; node < kept; ++node) expect_list(this->kept_, node, list);
  EXPECT_LE(this->kept_.scratch_bytes(), LaborKept::max_scratch_bytes(this->csc_));
}

// A worker tells its trainer of it and goes on, with the same lists.
TEST(LaborListsWithoutMemory, BeginAgainWhereThereIsSomeAgain) {
  if (!testing::kLimitsAddresses) GTEST_SKIP() << "a limit of addresses is none under a sanitizer";
  const CscView csc{.num_dst_nodes = 40, .num_edges = 1 << 23, .index_type = ElementType::kInt32};
  LaborKept kept;
  {
    const testing::AddressLimit tight(std::size_t{16} << 20);
    EXPECT_THROW(kept.begin(csc, 7), std::bad_alloc);
  }
  kept.begin(csc, 7);
  const List<std::int32_t> list{.sources = {3, 4}, .positions = {0, 1}};
  kept.keep(5, list.taken());
  expect_list(kept, 5, list);
}

// Its neighbours lie nowhere: whoever reads them ends here.
TEST(LaborPickerWithLists, RowThatHasOne_GivesItUnread) {
  const testing::TempFolder folder;
  testing::write_tiny_dataset(folder.path() / "d", testing::ring_graph(6));
  const Dataset dataset(folder.path() / "d");
  const CscView csc{.num_src_nodes = 6, .num_dst_nodes = 6, .num_edges = 6};
  LaborKept kept;
  kept.begin(csc, 1);
  const List<std::int32_t> list{.sources = {4, 2}, .positions = {77, 3}};
  kept.keep(5, list.taken());
  PickScratch scratch;
  LaborPicker picker({.fanout = 1, .stream = {}}, 1, dataset, csc, {.variates = {}, .kept = &kept}, scratch);
  DrawnGroup group{};
  DrawnRow& row = group.rows[0];
  row.index_at = 0;
  row.degree = 1'000;
  row.node = 5;
  group.count = 1;
  picker.look(row, 0, 0);
  group.most = row.most;
  picker.draw(group);
  EXPECT_EQ(group.most, 2u);
  picker.pick(group, row, [&](std::uint64_t count, auto place, auto /*position*/) {
    ASSERT_EQ(count, 2u);
    for (std::uint64_t j = 0; j < count; ++j) {
      EXPECT_EQ(reinterpret_cast<const std::int32_t*>(row.index_at)[place(j)], list.sources[j]);
      EXPECT_EQ(row.position_of(place(j)), list.positions[j]);
    }
  });
}

testing::TypedGraph two_types(std::mt19937_64& random) {
  testing::TypedGraph graph{.nodes = {{.name = "a", .count = 300}, {.name = "b", .count = 120}}};
  for (auto& type : graph.nodes) type.y = Ints(static_cast<std::size_t>(type.count), 1);
  const auto add = [&](const char* src, const char* rel, const char* dst, std::int64_t most) {
    testing::TypedEdges edges{.src = src, .rel = rel, .dst = dst};
    const std::int64_t sources = src[0] == 'a' ? 300 : 120, destinations = dst[0] == 'a' ? 300 : 120;
    for (std::int64_t node = 0; node < destinations; ++node) {
      for (std::uint64_t degree = random() % static_cast<std::uint64_t>(most); degree > 0; --degree) {
        edges.sources.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(sources)));
        edges.destinations.push_back(node);
      }
    }
    graph.edges.push_back(edges);
  };
  add("a", "r", "a", 60);
  add("b", "s", "a", 20);
  add("a", "t", "b", 90);
  return graph;
}

// Batches of two windows in any order, made by one sampler: all are what a serial sampler that keeps nothing
// gives.
TEST(LaborShared, BatchesOfAWindowInAnyOrder_AreTheSameFieldByField) {
  std::mt19937_64 random(5);
  testing::TempFolder folder;
  for (int round = 0; round < 8; ++round) {
    const testing::TypedGraph graph = two_types(random);
    auto cut = testing::random_typed_cut(graph, 1 + round % 3, random());
    cut.wide_ids = round % 2 == 1;
    testing::write_typed_dataset(folder.path() / "graph", graph, cut);
    const Dataset dataset(folder.path() / "graph");
    Ints seeds(300);
    std::iota(seeds.begin(), seeds.end(), 0);
    std::ranges::shuffle(seeds, random);
    const NodeList list(seeds, {.node_type = 0, .shuffle = false});
    BatchOptions options{.fanouts = {3, 4, 2}, .labor = true, .labor_seeds = 150};
    if (round % 2 == 0) options.edge_fanouts["s"] = {2, -1, 5};
    options.edge_ids = round % 4 < 2;
    BatchMaker maker(dataset, list, options);
    for (int batch = 0; batch < 30; ++batch) {
      const std::int64_t window = batch / 10 % 2 * 150;  // and back to the first
      const BatchKey key{
          .seed = 3, .epoch = 0, .first = window + static_cast<std::int64_t>(random() % 120), .count = 30};
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch));
      const auto block = testing::make_block(maker, key);
      const auto expected = testing::serial_sample(
          graph, 0, Ints(seeds.begin() + key.first, seeds.begin() + key.first + key.count), options, key);
      testing::expect_same(block.view(), expected, graph, 0, options);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_LE(maker.scratch_bytes(), maker.scratch(30).at_most);
  }
}

// What a loader asks memory for before the first batch: a subgraph of the drawn nodes or edges takes nothing
// of it away.
TEST(LaborShared, TablesToComeCountForEverySubgraph) {
  std::mt19937_64 random(6);
  testing::TempFolder folder;
  testing::TypedGraph graph = two_types(random);
  std::erase_if(graph.edges, [](const auto& edges) { return edges.src != edges.dst; });
  testing::write_typed_dataset(folder.path() / "graph", graph, testing::random_typed_cut(graph, 1, random()));
  const Dataset dataset(folder.path() / "graph");
  const Ints seeds{0, 1, 2};
  const NodeList list(seeds, {.node_type = 0, .shuffle = false});
  for (const Subgraph subgraph : {Subgraph::kDirectional, Subgraph::kBidirectional, Subgraph::kInduced}) {
    SCOPED_TRACE(to_string(subgraph));
    const auto tables = [&](bool labor, std::int64_t labor_seeds) {
      return BatchMaker(dataset, list,
                        {.fanouts = {3, 4}, .labor = labor, .labor_seeds = labor_seeds, .subgraph = subgraph})
          .scratch(1)
          .tables;
    };
    const std::size_t none = tables(false, 0), variates = tables(true, 0), lists = tables(true, 150);
    EXPECT_EQ(variates - none, LaborMemory::max_scratch_bytes(dataset, 2, false));
    EXPECT_EQ(lists - none, LaborMemory::max_scratch_bytes(dataset, 2, true));
    EXPECT_GT(lists, variates);
    EXPECT_GT(variates, none);
  }
}

}  // namespace
}  // namespace hopfeed
