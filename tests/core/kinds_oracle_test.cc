// Every kind of sampling on random typed graphs, cut and ordered at random, against the serial oracle: each field of each batch.
#include <gtest/gtest.h>

#include <random>

#include "tests/core/made_batch.h"
#include "tests/core/typed_oracle.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

class Rounds {
 public:
  explicit Rounds(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  std::uint64_t word() { return random_(); }

  Ints fanouts(std::int64_t hops, std::int64_t smallest) {
    const std::int64_t choices[] = {-1, 1, 2, 3, 5, 15, 16, 17, 33, 40};
    Ints list;
    for (; hops > 0; --hops) list.push_back(smallest == 0 && below(6) == 0 ? 0 : choices[below(10)]);
    return list;
  }

  BatchOptions options(const testing::TypedGraph& graph, int seed_type) {
    if (graph.nodes[0].count >= 3 && below(6) == 0) return clusters();
    if (below(4) == 0) return walks(graph, seed_type);
    BatchOptions options{.fanouts = fanouts(below(4), 1)};
    options.replace = below(2) == 1;
    options.edge_ids = below(2) == 1;
    options.disjoint = below(3) == 0;
    for (const testing::TypedEdges& edges : graph.edges) {
      if (below(3) == 0)
        options.edge_fanouts[below(2) ? edges.rel : edges.src + "__" + edges.rel + "__" + edges.dst] =
            fanouts(std::ssize(options.fanouts), 0);
      if (below(4) == 0 && !edges.weight.empty()) options.edge_attrs = {"weight"};
      if (below(4) == 0 && !edges.weight.empty()) options.weight = "weight";
    }
    if (options.weight.empty() && below(3) == 0) {
      options.time = "time";
      options.temporal_strategy =
          below(3) == 0 && !options.replace ? TemporalStrategy::kLast : TemporalStrategy::kUniform;
      options.time_window = below(3) == 0 ? 1 + below(20) : 0;
    }
    if (!options.trees() && below(4) == 0) options.subgraph = Subgraph::kInduced;
    if (options.subgraph == Subgraph::kDirectional && below(3) == 0) choose_bidirectional(graph, options);
    if (below(4) == 0) {
      options.labor = true;
      options.labor_seeds = below(2) * (1 + below(20));
      options.replace = options.disjoint = false;
      options.weight = options.time = {};
      options.temporal_strategy = TemporalStrategy::kUniform;
      options.time_window = 0;
    }
    return options;
  }

 private:
  // The attribute y numbers them.
  BatchOptions clusters() {
    return {.sampler = BatchOptions::kClusterSampler,
            .cluster = "y",
            .subgraph = Subgraph::kInduced,
            .edge_ids = below(2) == 1};
  }

  // By a random metapath from the seeds' type; the default where no edge ends there.
  BatchOptions walks(const testing::TypedGraph& graph, int seed_type) {
    BatchOptions options{.sampler = BatchOptions::kWalkSampler};
    options.walk = {.length = 1 + below(6), .per_seed = 1 + below(3)};
    for (std::string at = graph.nodes[seed_type].name;
         std::ssize(options.walk.metapath) < options.walk.length;) {
      std::vector<const testing::TypedEdges*> ways;
      for (const testing::TypedEdges& edges : graph.edges)
        if (edges.dst == at) ways.push_back(&edges);
      if (ways.empty()) break;
      const testing::TypedEdges& way = *ways[below(std::ssize(ways))];
      options.walk.metapath.push_back(way.rel);
      at = way.src;
    }
    options.walk.length = std::ssize(options.walk.metapath);
    if (options.walk.length == 0) return {};
    if (graph.edges.size() == 1 && graph.nodes.size() == 1 && below(3) > 0) {
      const double parameters[] = {1e-12, 0.25, 1, 4, 1e9};
      options.walk.p = parameters[below(5)];
      options.walk.q = parameters[below(5)];
    }
    options.edge_ids = below(2) == 1;
    if (below(4) == 0) options.subgraph = Subgraph::kInduced;
    if (options.subgraph == Subgraph::kDirectional && below(3) == 0) choose_bidirectional(graph, options);
    return options;
  }

  void choose_bidirectional(const testing::TypedGraph& graph, BatchOptions& options) {
    bool pairs = false;
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const int reverse = testing::reverse_type(graph, e);
      if (reverse < 0) return;
      pairs |= reverse != static_cast<int>(e);
    }
    options.subgraph = Subgraph::kBidirectional;
    options.keep_orig_edges = below(2) == 1;
    if (pairs) options.edge_ids = false, options.edge_attrs = {};
  }

  std::mt19937_64 random_;
};

TEST(KindsOracle, RandomTypedGraphsGiveTheSameBatchFieldByField) {
  Rounds rounds(6);
  testing::TempFolder folder;
  for (int round = 0; round < 60; ++round) {
    const auto graph = testing::random_typed_graph({.node_types = 1 + rounds.below(4),
                                                    .edge_types = 1 + rounds.below(6),
                                                    .max_nodes = 1 + rounds.below(150),
                                                    .seed = rounds.word(),
                                                    .reverses = rounds.below(2) == 1});
    auto cut = testing::random_typed_cut(graph, 1 + static_cast<int>(rounds.below(4)), rounds.word());
    cut.wide_ids = rounds.below(2) == 1;
    testing::write_typed_dataset(folder.path() / "graph", graph, cut);
    const Dataset dataset(folder.path() / "graph");
    dataset.verify([](std::uint64_t, std::uint64_t) {});
    for (int batch = 0; batch < 25; ++batch) {
      int type = static_cast<int>(rounds.below(std::ssize(graph.nodes)));
      const BatchOptions options = rounds.options(graph, type);
      if (options.sampler == BatchOptions::kClusterSampler) type = 0;  // whose clusters they are
      Ints seeds;
      for (std::int64_t count = 1 + rounds.below(30); count > 0; --count)
        seeds.push_back(rounds.below(graph.nodes[type].count));
      const SeedList list(seeds, {.node_type = type, .shuffle = false});
      const std::int64_t first = rounds.below(list.size());
      const BatchKey key{.seed = rounds.word(),
                         .epoch = rounds.below(100),
                         .first = first,
                         .count = 1 + rounds.below(list.size() - first)};
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", options " +
                   options.to_json());
      BatchMaker maker(dataset, list, options);
      const auto block = testing::make_block(maker, key);
      const Ints part(seeds.begin() + first, seeds.begin() + first + key.count);
      testing::expect_same(block.view(), testing::serial_sample(graph, type, part, options, key), graph, type,
                           options);
      EXPECT_LE(block.size, maker.max_block_bytes(key.count));
      if (HasFailure()) return;
    }
  }
}

// A cut is written once and sampled in many ways.
TEST(KindsOracle, TheCutIsInvisible) {
  Rounds rounds(7);
  testing::TempFolder folder;
  for (int round = 0; round < 8; ++round) {
    const auto graph = testing::random_typed_graph({.seed = rounds.word(), .reverses = round % 2 == 1});
    std::vector<std::unique_ptr<Dataset>> cuts;
    for (int partitions : {0, 1, 2, 3}) {
      const auto path = folder.path() / std::to_string(partitions);
      testing::write_typed_dataset(path, graph,
                                   partitions == 0
                                       ? testing::TypedCut{}
                                       : testing::random_typed_cut(graph, partitions, rounds.word()));
      cuts.push_back(std::make_unique<Dataset>(path));
    }
    for (int batch = 0; batch < 12; ++batch) {
      const BatchOptions options = rounds.options(graph, 0);
      const auto digest = [&](const Dataset& dataset) {
        const SeedList list(dataset.split(0, "train"), {.node_type = 0, .shuffle = true});
        BatchMaker maker(dataset, list, options);
        return testing::make_block(maker, {.seed = 3, .epoch = 1, .first = 0, .count = list.size()})
            .view()
            .digest();
      };
      const std::uint64_t uncut = digest(*cuts[0]);
      for (std::size_t cut = 1; cut < cuts.size(); ++cut)
        EXPECT_EQ(digest(*cuts[cut]), uncut) << cut << " partitions, options " << options.to_json();
    }
  }
}

}  // namespace
}  // namespace hopfeed
