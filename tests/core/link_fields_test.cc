// What a batch of links carries: cases with answers that are known from PyG and cuGraph (docs/batch.md),
// written out.
#include "core/seeds/link_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/sampler/sampler_registry.h"
#include "tests/core/sampled_graphs.h"
#include "tests/support/expect_refused.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using testing::cycle_of_six;
using testing::ints;
using Ints = std::vector<std::int64_t>;

Ints counted(std::int64_t begin, std::int64_t count) {
  Ints list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), begin);
  return list;
}

// cuGraph's: papers cite papers, and authors write them.
testing::TypedGraph papers() {
  return {.nodes = {{.name = "author", .count = 4}, {.name = "paper", .count = 6}},
          .edges = {{.src = "paper",
                     .rel = "cites",
                     .dst = "paper",
                     .sources = {0, 1, 2, 4, 3, 4, 5, 5},
                     .destinations = {4, 5, 4, 3, 2, 1, 0, 1}},
                    {.src = "author",
                     .rel = "writes",
                     .dst = "paper",
                     .sources = {0, 1, 2, 3, 3, 0},
                     .destinations = {0, 1, 2, 3, 4, 5}}}};
}
constexpr int kAuthor = 0, kPaper = 1, kCites = 0, kWrites = 1;

class LinkBatches : public testing::SampledGraphs {
 protected:
  BatchView make(const testing::TypedGraph& graph, const testing::LinkOrder& links, BatchOptions options) {
    if (!options.link.on()) options.link.edge_type = "to";
    return keep(testing::make_link_batch(open(graph), links, options));
  }
  static Ints of_edges(const BatchView& batch, const char* name, int type = 0) {
    return ints(batch.get(name, Store::kEdge, type));
  }
  static std::vector<float> floats(const BatchView& batch, const char* name) {
    const auto values = batch.get(name, Store::kEdge).as<float>();
    return {values.begin(), values.end()};
  }
  static BatchOptions negatives(NegativeMode mode, double amount = 1) {
    BatchOptions options{.fanouts = {}};
    options.link = {
        .edge_type = "to", .negatives = {.mode = mode, .amount = amount}, .exclude = Exclude::kNone};
    return options;
  }
  static BatchOptions plain(std::vector<std::int64_t> fanouts = {}) {
    BatchOptions options = negatives(NegativeMode::kNone);
    options.fanouts = std::move(fanouts);
    return options;
  }
};

// ---- which seeds, in what order

TEST_F(LinkBatches, SeedsAreTheEndsSortedEachOnce) {
  const BatchView batch = make(cycle_of_six(), {.pairs = {5, 0, 0, 1}}, plain({1}));
  EXPECT_EQ(Ints(batch.n_id().begin(), batch.n_id().begin() + 3), (Ints{0, 1, 5}));
  EXPECT_EQ(of_edges(batch, "edge_label_index"), (Ints{2, 0, 0, 1}));
  EXPECT_EQ(batch.num_sampled_nodes()[0], 3);
  EXPECT_EQ(of_edges(batch, "input_id"), (Ints{0, 1}));
  for (const char* name : {"batch_size", "seed_index", "input_id"})
    EXPECT_FALSE(batch.has(name, Store::kNode)) << name;
}

TEST_F(LinkBatches, OfOneType_RoundTrip) {
  const testing::TypedGraph star{.nodes = {{.count = 5}},
                                 .edges = {{.sources = {4, 4, 4, 4}, .destinations = {0, 1, 2, 3}}}};
  BatchOptions options = plain({1});
  options.edge_ids = true;
  for (const bool disjoint : {false, true}) {
    options.disjoint = disjoint;
    const BatchView batch = make(star, {.pairs = {0, 1, 2, 3}}, options);
    EXPECT_EQ(of_edges(batch, "e_id").size(), 4U);
    EXPECT_EQ(batch.num_nodes(), disjoint ? 8 : 5);
    Ints input;
    for (const std::int64_t local : of_edges(batch, "edge_label_index")) input.push_back(batch.n_id()[local]);
    EXPECT_EQ(input, (Ints{0, 2, 1, 3}));
  }
}

TEST_F(LinkBatches, BetweenTwoTypes_SeedBoth) {
  BatchOptions options = plain({2, 2});
  options.link.edge_type = "writes";
  const BatchView batch = make(papers(), {.pairs = {0, 0, 1, 1, 2, 2, 3, 3, 3, 4}}, options);
  const auto nodes = [&](const char* name, int type) { return ints(batch.get(name, Store::kNode, type)); };
  EXPECT_EQ(nodes("n_id", kPaper), (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(nodes("num_sampled_nodes", kPaper), (Ints{5, 1, 0}));
  EXPECT_EQ(nodes("num_sampled_nodes", kAuthor), (Ints{4, 0, 0}));
  EXPECT_EQ(of_edges(batch, "num_sampled_edges", kCites), (Ints{7, 1}));
  EXPECT_EQ(of_edges(batch, "num_sampled_edges", kWrites), (Ints{5, 1}));
  EXPECT_EQ(of_edges(batch, "edge_label_index", kWrites), (Ints{0, 1, 2, 3, 3, 0, 1, 2, 3, 4}));
  EXPECT_EQ(of_edges(batch, "input_id", kWrites), counted(0, 5));
  EXPECT_FALSE(batch.has("edge_label_index", Store::kEdge, kCites));
}

TEST_F(LinkBatches, Disjoint_EachEndIsATreeOfItsOwn) {
  BatchOptions options = negatives(NegativeMode::kBinary, 1.5);
  options.disjoint = true;
  const BatchView batch = make(cycle_of_six(), {.pairs = {5, 0, 0, 1, 5, 0}}, options);
  EXPECT_EQ(of_edges(batch, "edge_label_index"), counted(0, 16));  // 3 links and 5 negatives
  EXPECT_EQ(batch.num_nodes(), 16);
  const Ints owners{0, 1, 2, 0, 1, 2, 0, 1};
  Ints twice = owners;
  twice.insert(twice.end(), owners.begin(), owners.end());
  EXPECT_EQ(ints(batch.get("batch", Store::kNode)), twice) << "which link a node belongs to";
  const Ints n_id = ints(batch.n_id());
  EXPECT_EQ(Ints(n_id.begin(), n_id.begin() + 3), (Ints{5, 0, 5}));
  EXPECT_EQ(Ints(n_id.begin() + 8, n_id.begin() + 11), (Ints{0, 1, 0}));
}

TEST_F(LinkBatches, DisjointBetweenTwoTypes_CountEachTypeFromZero) {
  BatchOptions options = negatives(NegativeMode::kBinary);
  options.link.edge_type = "writes";
  options.disjoint = true;
  const BatchView batch = make(papers(), {.pairs = {0, 0, 3, 4}}, options);
  EXPECT_EQ(of_edges(batch, "edge_label_index", kWrites), (Ints{0, 1, 2, 3, 0, 1, 2, 3}));
  for (const int type : {kAuthor, kPaper})
    EXPECT_EQ(ints(batch.get("batch", Store::kNode, type)), (Ints{0, 1, 0, 1}));
}

// ---- labels

TEST_F(LinkBatches, WithoutLabelsAndNegatives_HaveNoLabel) {
  const BatchView batch = make(cycle_of_six(), {.pairs = {0, 1}}, plain());
  for (const char* name : {"edge_label", "edge_label_time", "src_index", "num_negative_retries"})
    EXPECT_FALSE(batch.has(name, Store::kEdge)) << name;
}

TEST_F(LinkBatches, OfBinaryNegatives_AreOnesAndZeros) {
  const BatchView batch =
      make(cycle_of_six(), {.pairs = {0, 1, 1, 2, 3, 4}}, negatives(NegativeMode::kBinary, 0.5));
  EXPECT_EQ(floats(batch, "edge_label"), (std::vector<float>{1, 1, 1, 0, 0})) << "two negatives of 1.5";
  EXPECT_EQ(of_edges(batch, "edge_label_index").size(), 10U);
}

TEST_F(LinkBatches, LabelsFromZero_MoveUpByOneBesideNegatives) {
  const auto labelled = [&](const Ints& labels, NegativeMode mode) {
    const Ints pairs{0, 1, 1, 2, 2, 3, 3, 4};
    return of_edges(make(cycle_of_six(), {.pairs = pairs, .labels = labels}, negatives(mode)), "edge_label");
  };
  EXPECT_EQ(labelled({1, 0, 1, 2}, NegativeMode::kBinary), (Ints{2, 1, 2, 3, 0, 0, 0, 0}));
  EXPECT_EQ(labelled({1, 3, 1, 2}, NegativeMode::kBinary), (Ints{1, 3, 1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(labelled({1, 0, 1, 2}, NegativeMode::kNone), (Ints{1, 0, 1, 2}));
}

// It is the list's smallest label that counts, not the batch's: a label means the same in all batches.
TEST_F(LinkBatches, LabelsMoveAlikeInAllBatches) {
  const testing::TempFolder folder;
  testing::write_typed_dataset(folder.path() / "graph", cycle_of_six());
  const Dataset dataset(folder.path() / "graph");
  const Ints pairs{0, 1, 1, 2}, labels{0, 3};
  const LinkList list(pairs, {.shuffle = false, .labels = labels});
  BatchMaker maker(dataset, list, negatives(NegativeMode::kBinary));
  const testing::Block second = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 1, .count = 1});
  EXPECT_EQ(of_edges(second.view(), "edge_label"), (Ints{4, 0}));
}

// Memory is checked for all that a maker holds, not for its sampler's part alone.
TEST_F(LinkBatches, ScratchOfLinks_IsCounted) {
  constexpr std::int64_t kLinks = 500;
  const testing::TinyGraph ring = testing::ring_graph(1'000);
  const Dataset& dataset =
      open({.nodes = {{.count = 1'000}}, .edges = {{.sources = ring.src, .destinations = ring.dst}}});
  Ints pairs;
  for (std::int64_t i = 0; i < kLinks; ++i) pairs.insert(pairs.end(), {i, i + 2});
  const LinkList list(pairs, {});
  BatchOptions options{.fanouts = {}};
  options.link = {.edge_type = "to", .negatives = {.mode = NegativeMode::kBinary, .strict = true}};
  BatchMaker maker(dataset, list, options);
  const std::unique_ptr<Sampler> sampler = make_sampler(dataset, options);
  const std::size_t tables = maker.scratch(kLinks).tables - sampler->scratch_bytes();
  EXPECT_GE(tables, 16U * kLinks) << "the links, which strict negatives must not be";
  EXPECT_EQ(maker.scratch_bytes(), tables + sampler->scratch_bytes());

  const BatchKey key{.seed = 1, .epoch = 0, .first = 0, .count = kLinks};
  const Ints nodes = ints(testing::make_block(maker, key).view().n_id());
  const TypedSeeds seeds{.node_type = 0, .ids = nodes, .times = {}};
  sampler->sample({.key = key, .seeds = {&seeds, 1}});
  // Positions and ends of the links, also by dataset id; negatives; all ends and their locals; pairs that are
  // excluded.
  const std::size_t numbers = (3 + 2 + 2 + 4 + 4 + 3) * kLinks;
  EXPECT_GE(maker.scratch_bytes(), sampler->scratch_bytes() + tables + numbers * sizeof(std::int64_t));
  EXPECT_LE(maker.scratch_bytes(), maker.scratch(kLinks).at_most);
}

// ---- triplets

// 0 is joined to 1 and 5; that it is to be linked to 2, 3 and 4 no graph says where these links were held out
// of it.
TEST_F(LinkBatches, StrictNegatives_AreNoLinksOfOtherBatchesEither) {
  const Dataset& dataset = open(cycle_of_six());
  const Ints pairs{0, 2, 0, 3, 0, 4};
  const LinkList list(pairs, {.shuffle = false});
  BatchOptions options = negatives(NegativeMode::kTriplet, 3);
  options.link.negatives.strict = true;
  BatchMaker maker(dataset, list, options);
  const testing::Block block = testing::make_block(maker, {.seed = 1, .epoch = 0, .first = 1, .count = 1});
  for (const std::int64_t local : of_edges(block.view(), "dst_neg_index"))
    EXPECT_EQ(block.view().n_id()[local], 0);
}

TEST_F(LinkBatches, Triplets_NameTheirEnds) {
  const BatchView batch =
      make(cycle_of_six(), {.pairs = {5, 0, 0, 1, 3, 3}}, negatives(NegativeMode::kTriplet));
  const Ints n_id = ints(batch.n_id()), src = of_edges(batch, "src_index"),
             dst = of_edges(batch, "dst_pos_index");
  ASSERT_EQ(src.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(n_id[src[i]], (Ints{5, 0, 3})[i]);
    EXPECT_EQ(n_id[dst[i]], (Ints{0, 1, 3})[i]);
  }
  const ArrayView negative = batch.get("dst_neg_index", Store::kEdge);
  EXPECT_EQ(ints(negative.shape), Ints{3});
  for (const std::int64_t local : ints(negative)) EXPECT_LT(local, batch.num_sampled_nodes()[0]);
  for (const char* name : {"edge_label_index", "edge_label", "edge_label_time"})
    EXPECT_FALSE(batch.has(name, Store::kEdge)) << name;
}

TEST_F(LinkBatches, DisjointTriplets_AreBlocks) {
  BatchOptions options = negatives(NegativeMode::kTriplet, 2);
  options.disjoint = true;
  const BatchView batch = make(cycle_of_six(), {.pairs = {5, 0, 0, 1, 3, 3}}, options);
  EXPECT_EQ(of_edges(batch, "src_index"), counted(0, 3));
  EXPECT_EQ(of_edges(batch, "dst_pos_index"), counted(3, 3));
  const ArrayView negative = batch.get("dst_neg_index", Store::kEdge);
  EXPECT_EQ(ints(negative.shape), (Ints{3, 2}));
  EXPECT_EQ(ints(negative), (Ints{6, 9, 7, 10, 8, 11}));
  EXPECT_EQ(ints(batch.get("batch", Store::kNode)), (Ints{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
}

TEST_F(LinkBatches, DisjointTripletsBetweenTwoTypes_AreBlocksOfEach) {
  BatchOptions options = negatives(NegativeMode::kTriplet);
  options.link.edge_type = "writes";
  options.disjoint = true;
  const BatchView batch = make(papers(), {.pairs = {0, 0, 3, 4}}, options);
  EXPECT_EQ(of_edges(batch, "src_index", kWrites), counted(0, 2));
  EXPECT_EQ(of_edges(batch, "dst_pos_index", kWrites), counted(0, 2));
  EXPECT_EQ(of_edges(batch, "dst_neg_index", kWrites), counted(2, 2));
}

// ---- times

TEST_F(LinkBatches, OfTheirTime_SeeWhatWasBefore) {
  testing::TypedGraph graph = cycle_of_six();
  for (std::int64_t e = 0; e < 12; ++e) graph.edges[0].time.push_back(e);
  BatchOptions options = plain({-1});
  options.time = "time";
  options.edge_ids = true;
  const BatchView batch = make(graph, {.pairs = {2, 3, 2, 3}, .times = {4, 7}}, options);
  EXPECT_EQ(ints(batch.n_id()), (Ints{2, 2, 3, 3, 1, 1, 3, 2, 4}));
  EXPECT_EQ(of_edges(batch, "e_id"), (Ints{4, 4, 5, 6, 7})) << "link 1 sees edges up to 7, link 0 up to 4";
  EXPECT_EQ(ints(batch.get("batch", Store::kNode)), (Ints{0, 1, 0, 1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(of_edges(batch, "edge_label_time"), (Ints{4, 7}));
  EXPECT_FALSE(batch.has("seed_time", Store::kEdge));
}

TEST_F(LinkBatches, TimesOfNegatives_AreThoseOfTheirLinks) {
  testing::TypedGraph graph = cycle_of_six();
  for (std::int64_t e = 0; e < 12; ++e) graph.edges[0].time.push_back(e);
  BatchOptions options = negatives(NegativeMode::kBinary, 1.5);
  options.time = "time";
  const testing::LinkOrder links{.pairs = {2, 3, 0, 1}, .times = {4, 7}};
  EXPECT_EQ(of_edges(make(graph, links, options), "edge_label_time"), (Ints{4, 7, 4, 7, 4}));
  options.link.negatives = {.mode = NegativeMode::kTriplet, .amount = 2};
  const BatchView batch = make(graph, links, options);
  EXPECT_EQ(of_edges(batch, "seed_time"), (Ints{4, 7}));
  EXPECT_FALSE(batch.has("edge_label_time", Store::kEdge));
}

// ---- edges that neighbours do not come by

TEST_F(LinkBatches, DoNotSeeTheirOwnEdges) {
  const auto edges = [&](Exclude exclude) {
    testing::TypedGraph graph = cycle_of_six();
    graph.edges[0].sources.push_back(1);  // edge 12: 1 -> 2 once more
    graph.edges[0].destinations.push_back(2);
    BatchOptions options = plain({-1, -1});
    options.edge_ids = true;
    options.link.exclude = exclude;
    Ints ids = of_edges(make(graph, {.pairs = {1, 2}}, options), "e_id");
    std::ranges::sort(ids);
    return ids;
  };
  // The edges into nodes 1 and 2, then into 0 and 3.
  EXPECT_EQ(edges(Exclude::kNone), (Ints{0, 1, 2, 3, 4, 5, 6, 7, 12}));
  EXPECT_EQ(edges(Exclude::kSelf), (Ints{0, 1, 2, 3, 5, 6, 7})) << "both edges from 1 to 2";
  EXPECT_EQ(edges(Exclude::kReverse), (Ints{0, 1, 2, 5, 6, 7})) << "and the one from 2 to 1";
  EXPECT_EQ(LinkOptions{}.exclude, Exclude::kSelf) << "what is not asked for";
}

TEST_F(LinkBatches, DoNotSeeTheReversesOfTheirEdges) {
  testing::TypedGraph graph = papers();
  graph.edges.push_back({.src = "paper",
                         .rel = "rev_writes",
                         .dst = "author",
                         .sources = graph.edges[kWrites].destinations,
                         .destinations = graph.edges[kWrites].sources,
                         .rev_of = "author__writes__paper"});
  BatchOptions options = plain({-1});
  options.edge_ids = true;
  for (const Exclude exclude : {Exclude::kNone, Exclude::kSelf, Exclude::kReverse}) {
    options.link = {.edge_type = "writes", .exclude = exclude};
    const BatchView batch =
        make(graph, {.pairs = {3, 3, 0, 0}}, options);  // edges 3 and 0; 4 and 5 are others
    EXPECT_EQ(of_edges(batch, "e_id", kWrites), (exclude == Exclude::kNone ? Ints{0, 3} : Ints{}));
    EXPECT_EQ(of_edges(batch, "e_id", 2), (exclude == Exclude::kReverse ? Ints{5, 4} : Ints{0, 5, 3, 4}));
  }
}

TEST_F(LinkBatches, WithoutAReverseToExclude_AreRefused) {
  BatchOptions options = plain({-1});
  options.link = {.edge_type = "writes", .exclude = Exclude::kReverse};
  expect_refused(
      [&] {
        make(papers(), {.pairs = {3, 3}}, options);
      },
      "edge type 'author__writes__paper' has no reverse");
}

}  // namespace
}  // namespace hopfeed
