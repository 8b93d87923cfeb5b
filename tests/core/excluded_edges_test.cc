// Excluded edges: the sets themselves, stars with one, many and all edges excluded, chances of what is left,
// parallel edges, samplers of one's own, and damaged weights.
#include "core/draws/excluded_edges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/draws/excluded_rows.h"
#include "core/sampler/custom_sampler.h"
#include "core/sampler/row_by_row_sampler.h"
#include "core/sampler/sampler_registry.h"
#include "tests/core/chi_square.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using Pair = std::pair<std::int64_t, std::int64_t>;  // source, destination

Ints ints(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

TEST(ExcludedEdges, KnowThePairsThatWereAdded_EachOnce) {
  std::mt19937_64 random(3);
  ExcludedEdges excluded;
  for (int round = 0; round < 50; ++round) {
    const std::int64_t nodes = 1 + static_cast<std::int64_t>(random() % 300);
    std::map<std::int64_t, std::set<std::int64_t>> sources[2];
    excluded.begin(3);
    for (std::uint64_t i = random() % 500; i > 0; --i) {
      const auto src = static_cast<std::int64_t>(random()) % nodes,
                 dst = static_cast<std::int64_t>(random()) % nodes;
      excluded.add(static_cast<int>(i % 2), src, dst);
      sources[i % 2][dst].insert(src);
    }
    excluded.finish();
    EXPECT_FALSE(excluded.any(2));
    for (int e = 0; e < 2; ++e) {
      EXPECT_EQ(excluded.any(e), !sources[e].empty());
      std::set<std::size_t> numbers;
      for (std::int64_t dst = -nodes; dst < nodes; ++dst) {
        const auto found = excluded.sources_of(e, dst);
        EXPECT_EQ(ints(found), Ints(sources[e][dst].begin(), sources[e][dst].end()));
        EXPECT_FALSE(excluded.contains(e, nodes, dst));
        if (found.empty()) continue;
        EXPECT_TRUE(excluded.contains(e, found.back(), dst));
        EXPECT_LT(excluded.number_of(e, found), excluded.num_pairs(e));
        EXPECT_TRUE(numbers.insert(excluded.number_of(e, found)).second);
      }
    }
  }
}

TEST(LeftOut, NumbersWhatIsLeft_InTheRowAndInEachStretch) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::uint64_t degree = 1 + random() % 40, one_in = 1 + random() % 5;
    ScratchArray<std::uint64_t> lists;
    lists.reserve(degree + 3);
    std::vector<bool> out(degree);
    std::uint64_t count = 0;
    for (std::uint64_t i = 0; i < degree; ++i) {
      out[i] = random() % one_in == 0;
      if (out[i]) lists[3 + count] = i - count, ++count;
    }
    const LeftOut whole(lists, 3, count);
    for (std::uint64_t begin = 0; begin <= degree; ++begin) {
      const std::uint64_t size = random() % (degree - begin + 1);
      const LeftOut part = begin == 0 ? whole : whole.within(begin, size);
      std::vector<std::uint64_t> left, absent;
      for (std::uint64_t i = begin; i < (begin == 0 ? degree : begin + size); ++i)
        (out[i] ? absent : left).push_back(i - begin);
      ASSERT_EQ(part.count(), absent.size());
      for (std::uint64_t i = 0; i < left.size(); ++i) EXPECT_EQ(part.place(i), left[i]);
      for (std::uint64_t i = 0; i < absent.size(); ++i) EXPECT_EQ(part.absent(i), absent[i]);
    }
  }
}

/// A hub, node 0, with an edge from each other node, and weights where they are given.
class Stars : public ::testing::Test {
 protected:
  void write(std::int64_t degree, const std::vector<double>& weights = {}) {
    testing::TypedGraph graph{.nodes = {{.count = degree + 1}}, .edges = {{}}};
    for (std::int64_t i = 1; i <= degree; ++i) {
      graph.edges[0].sources.push_back(i);
      graph.edges[0].destinations.push_back(0);
    }
    graph.edges[0].weight = weights;
    testing::write_typed_dataset(folder_.path() / "star", graph);
    dataset_.emplace(folder_.path() / "star");
  }
  void exclude(const std::vector<Pair>& pairs) {
    excluded_.begin(1);
    for (const auto& [src, dst] : pairs) excluded_.add(0, src, dst);
    excluded_.finish();
  }
  /// How often each node is drawn by `trees` seeds, all of them the hub.
  Ints drawn(const BatchOptions& options, std::int64_t trees = 1) {
    const std::unique_ptr<Sampler> sampler = make_sampler(*dataset_, options);
    const Ints seeds(static_cast<std::size_t>(trees), 0);
    const TypedSeeds entry{.node_type = 0, .ids = seeds, .times = {}};
    const Sample& sample = sampler->sample({.key = {.seed = 3, .epoch = 0, .first = 0, .count = trees},
                                            .seeds = {&entry, 1},
                                            .excluded = &excluded_});
    Ints counts(static_cast<std::size_t>(dataset_->num_nodes(0)));
    for (const std::uint32_t source : sample.edges[0].sources) ++counts[sample.nodes[0].dataset_ids[source]];
    return counts;
  }

  testing::TempFolder folder_;
  std::optional<Dataset> dataset_;
  ExcludedEdges excluded_;
};

TEST_F(Stars, OneManyAndAllExcluded) {
  for (const std::int64_t degree : {1, 5, 64, 65, 1'000, 5'000}) {
    write(degree);
    for (const std::int64_t left : {degree, degree - 1, degree / 2, std::int64_t{1}, std::int64_t{0}}) {
      std::vector<Pair> pairs;
      for (std::int64_t i = 1; i <= degree - left; ++i) pairs.push_back({i * 7'919 % degree + 1, 0});
      exclude(pairs);
      std::set<Pair> distinct(pairs.begin(), pairs.end());
      const std::int64_t rest = degree - std::ssize(distinct);
      for (const std::int64_t fanout :
           {std::int64_t{-1}, std::int64_t{1}, std::int64_t{15}, std::int64_t{40}}) {
        for (const BatchOptions& options :
             {BatchOptions{.fanouts = {fanout}}, BatchOptions{.fanouts = {fanout}, .replace = true},
              BatchOptions{.fanouts = {fanout}, .labor = true}}) {
          const Ints counts = drawn(options);
          for (const auto& [src, dst] : distinct) EXPECT_EQ(counts[src], 0);
          const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
          if (options.labor && fanout > 0 && rest > fanout) continue;  // about as many
          EXPECT_EQ(sum, fanout < 0 || (rest < fanout && !options.replace) || rest == 0 ? rest : fanout)
              << degree << ", " << rest << ", " << options.to_json();
        }
      }
    }
  }
}

TEST_F(Stars, WhatIsLeft_IsDrawnUniformly) {
  constexpr std::int64_t kTrees = 60'000;
  write(40);
  exclude({{1, 0}, {13, 0}, {14, 0}, {40, 0}, {25, 0}, {25, 3}});
  for (const bool replace : {false, true}) {
    for (const std::int64_t fanout : {1, 7}) {
      Ints counts = drawn({.fanouts = {fanout}, .replace = replace, .disjoint = true}, kTrees);
      for (const std::int64_t node : {1, 13, 14, 40, 25, 0}) EXPECT_EQ(counts[node], 0);
      std::erase(counts, 0);
      ASSERT_EQ(counts.size(), 35u);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), kTrees * fanout);
      if (!replace &&
          fanout >
              1) {  // draws of a tree are no independent ones: less spread, by the share that is not taken
        double statistic = 0;
        const double mean = static_cast<double>(kTrees * fanout) / 35,
                     share = static_cast<double>(fanout) / 35;
        for (const std::int64_t count : counts)
          statistic += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean) /
                       (mean * (1 - share));
        EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic * 34 / 35, 34))) << statistic;
      } else {
        EXPECT_TRUE(testing::plausible(testing::uniform_p_value(counts)));
      }
    }
  }
}

TEST_F(Stars, WhatIsLeft_IsDrawnInProportionToItsWeights) {
  constexpr std::int64_t kTrees = 60'000;
  std::vector<double> weights;
  double sum = 0;
  std::vector<Pair> pairs;
  for (std::int64_t i = 0; i < 50; ++i) {
    weights.push_back(i == 7 ? 1e6 : i % 10 == 0 ? 0 : 0.5 + static_cast<double>(i * 37 % 50));
    if (i % 7 == 0) pairs.push_back({i + 1, 0});  // the heaviest too
    if (i % 7 != 0) sum += weights.back();
  }
  write(50, weights);
  exclude(pairs);
  const Ints counts = drawn({.fanouts = {1}, .weight = "weight", .disjoint = true}, kTrees);
  double statistic = 0, freedom = -1;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = i % 7 == 0 ? 0 : weights[i] / sum * kTrees;
    if (expected == 0) {
      EXPECT_EQ(counts[i + 1], 0) << i;
      continue;
    }
    statistic += (static_cast<double>(counts[i + 1]) - expected) *
                 (static_cast<double>(counts[i + 1]) - expected) / expected;
    ++freedom;
  }
  EXPECT_TRUE(testing::plausible(testing::chi_square_tail(statistic, freedom)))
      << statistic << ", " << freedom;
}

TEST_F(Stars, OfWhichNothingIsLeftThatWeighsAnything_GiveNothing) {
  write(4, {0, 3, 0, 5});
  exclude({{2, 0}, {4, 0}});
  for (const std::int64_t fanout : {-1, 1, 3})
    for (const bool replace : {false, true})
      EXPECT_EQ(drawn({.fanouts = {fanout}, .replace = replace, .weight = "weight"}), Ints(5, 0));
}

TEST_F(Stars, WhoseWeightsAreDamaged_AreCorrupt) {
  write(4, {1, 3, 2, 5});
  exclude({{2, 0}});
  const std::filesystem::path file =
      folder_.path() / "star" / edge_attr_path(0, dataset_->meta().edge_types[0], "weight");
  for (const double damage : {-1.0, std::nan(""), HUGE_VAL}) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(-static_cast<std::streamoff>(sizeof(double)), std::ios::end);
    stream.write(reinterpret_cast<const char*>(&damage), sizeof(damage));
    stream.close();
    dataset_.emplace(folder_.path() / "star");
    try {
      drawn({.fanouts = {2}, .weight = "weight"});
      FAIL() << damage;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_NE(std::string(error.what()).find("the row of node 0 has a weight"), std::string::npos)
          << error.what();
    }
  }
}

TEST(ExcludedPairs, TakeAllParallelEdges_AtEveryHopAndInEveryTree) {
  // 0 <- 1 three times, 0 <- 2; 1 <- 0, 1 <- 2: node 0 is reached again at the second hop.
  const testing::TempFolder folder;
  testing::TypedGraph graph{.nodes = {{.count = 3}}, .edges = {{}}};
  graph.edges[0].sources = {1, 2, 1, 1, 0, 2};
  graph.edges[0].destinations = {0, 0, 0, 0, 1, 1};
  testing::write_typed_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  ExcludedEdges excluded;
  excluded.begin(1);
  excluded.add(0, 1, 0);
  excluded.finish();
  const Ints seeds{0, 1};
  const TypedSeeds entry{.node_type = 0, .ids = seeds, .times = {}};
  for (const BatchOptions& options :
       {BatchOptions{.fanouts = {-1, -1, -1}, .edge_ids = true},
        BatchOptions{.fanouts = {-1, -1, -1}, .disjoint = true, .edge_ids = true},
        BatchOptions{
            .sampler = BatchOptions::kWalkSampler, .walk = {.length = 6, .per_seed = 50}, .edge_ids = true},
        BatchOptions{.fanouts = {-1}, .subgraph = Subgraph::kInduced, .edge_ids = true}}) {
    const std::unique_ptr<Sampler> sampler = make_sampler(dataset, options);
    const Sample& sample = sampler->sample({.key = {.seed = 1, .epoch = 0, .first = 0, .count = 2},
                                            .seeds = {&entry, 1},
                                            .excluded = &excluded});
    const std::set<std::int64_t> ids(sample.edges[0].edge_ids.begin(), sample.edges[0].edge_ids.end());
    EXPECT_EQ(ids, (std::set<std::int64_t>{1, 4, 5})) << options.to_json();
  }
}

/// Takes all neighbours, as a sampler does that a user has made; `heeds` says whether it reads rows with what
/// is excluded.
class OnesOwn : public CustomSampler {
 public:
  OnesOwn(const Dataset& dataset, bool heeds) : reader_(dataset, 0), heeds_(heeds) {}
  void sample(const SampleRequest& request, SampleBuilder& out) override {
    rows_.begin(request.excluded);
    for (const std::uint32_t target : ints_of(out.seed_locals())) {
      const std::int64_t node = out.nodes(0)[target];
      const Row row = heeds_ ? reader_.row(node, rows_) : reader_.row(node);
      for (std::uint64_t i = 0; i < row.degree; ++i)
        out.add_edge(0, out.add_node(0, reader_.neighbor(row, i)), target, row, i);
    }
    out.end_hop();
  }
  std::size_t num_hops() const override { return 1; }
  SampleBounds bounds(SeedCounts) const override {
    return {.nodes = {100}, .edges = {100}, .seeds = 1, .arrays = {}};
  }

 private:
  static std::vector<std::uint32_t> ints_of(std::span<const std::uint32_t> locals) {
    return {locals.begin(), locals.end()};
  }
  RowReader reader_;
  ExcludedRows rows_;
  const bool heeds_;
};

TEST_F(Stars, SamplersOfOnesOwn_HeedWhatIsExcluded_OrAreRefused) {
  register_sampler("heeds",
                   [](const Dataset& dataset, const BatchOptions&) -> std::unique_ptr<CustomSampler> {
                     return std::make_unique<OnesOwn>(dataset, true);
                   });
  register_sampler("heeds not",
                   [](const Dataset& dataset, const BatchOptions&) -> std::unique_ptr<CustomSampler> {
                     return std::make_unique<OnesOwn>(dataset, false);
                   });
  write(5);
  exclude({{2, 0}, {4, 0}});
  EXPECT_EQ(drawn({.sampler = "heeds"}), (Ints{0, 1, 0, 1, 0, 1}));
  try {
    drawn({.sampler = "heeds not"});
    FAIL() << "it took an excluded edge";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("that the batch excludes"), std::string::npos) << error.what();
  }
  exclude({});
  EXPECT_EQ(drawn({.sampler = "heeds not"}), (Ints{0, 1, 1, 1, 1, 1}));
}

/// Takes the first neighbours of each row.
class First : public RowByRowSampler {
 public:
  explicit First(const Dataset& dataset) : RowByRowSampler(dataset, {3}) {}
  void pick(const HopRow& row, std::vector<std::uint64_t>& picks) override {
    for (std::uint64_t i = 0; i < std::min(row.degree, row.most); ++i) picks.push_back(i);
  }
};

TEST_F(Stars, RowByRowSamplers_SeeRowsWithoutWhatIsExcluded) {
  register_sampler("first",
                   [](const Dataset& dataset, const BatchOptions&) -> std::unique_ptr<CustomSampler> {
                     return std::make_unique<First>(dataset);
                   });
  write(7);
  exclude({{1, 0}, {2, 0}, {4, 0}});
  EXPECT_EQ(drawn({.sampler = "first"}), (Ints{0, 0, 0, 1, 0, 1, 1, 0}));
}

}  // namespace
}  // namespace hopfeed
