// Excluded edges under every kind of sampling, on random typed graphs: what is sampled is what the serial
// oracle samples from the graph without them, array by array.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/batch/field_names.h"
#include "core/draws/excluded_edges.h"
#include "core/sampler/sampler_registry.h"
#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/oracle/typed_oracle.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using Pairs =
    std::vector<std::set<std::pair<std::int64_t, std::int64_t>>>;  // [edge type] {source, destination}

/// The graph without all edges that join a pair, and which number each of the others had.
struct Rest {
  testing::TypedGraph graph;
  std::vector<Ints> number;  // [edge type][edge]
};

Rest without(const testing::TypedGraph& graph, const Pairs& pairs) {
  Rest rest{.graph = graph, .number = std::vector<Ints>(graph.edges.size())};
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const testing::TypedEdges& all = graph.edges[e];
    testing::TypedEdges& left = rest.graph.edges[e];
    left.sources.clear(), left.destinations.clear(), left.weight.clear(), left.time.clear();
    for (std::size_t i = 0; i < all.sources.size(); ++i) {
      if (pairs[e].contains({all.sources[i], all.destinations[i]})) continue;
      left.sources.push_back(all.sources[i]);
      left.destinations.push_back(all.destinations[i]);
      if (!all.weight.empty()) left.weight.push_back(all.weight[i]);
      if (!all.time.empty()) left.time.push_back(all.time[i]);
      rest.number[e].push_back(static_cast<std::int64_t>(i));
    }
  }
  return rest;
}

/// What a link batch excludes and more: some edges, whole rows, pairs that no edge joins.
Pairs random_pairs(const testing::TypedGraph& graph, const Ints& seeds, int seed_type,
                   testing::Rounds& rounds) {
  Pairs pairs(graph.edges.size());
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const testing::TypedEdges& edges = graph.edges[e];
    const auto count = std::ssize(edges.sources);
    const std::int64_t how = rounds.below(6);
    if (how == 0) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool at_seed =
          graph.node_type(edges.dst) == seed_type && std::ranges::count(seeds, edges.destinations[i]) > 0;
      const bool taken = how == 1   ? rounds.below(20) == 0
                         : how == 2 ? at_seed && rounds.below(3) == 0
                         : how == 3 ? at_seed
                         : how == 4 ? true
                                    : edges.destinations[i] < 2 && rounds.below(2) == 0;  // hubs
      if (taken) pairs[e].insert({edges.sources[i], edges.destinations[i]});
    }
    for (std::int64_t i = rounds.below(5); i > 0; --i)
      pairs[e].insert({rounds.below(graph.nodes[graph.node_type(edges.src)].count),
                       rounds.below(graph.nodes[graph.node_type(edges.dst)].count)});
  }
  return pairs;
}

ExcludedEdges excluded_of(const Dataset& dataset, const Pairs& pairs, testing::Rounds& rounds) {
  ExcludedEdges excluded;
  excluded.begin(dataset.num_edge_types());
  for (int e = 0; e < dataset.num_edge_types(); ++e) {
    const CscView csc = dataset.csc(e);
    for (const auto& [src, dst] : pairs[static_cast<std::size_t>(e)])
      for (std::int64_t times = 1 + rounds.below(2); times > 0; --times)
        excluded.add(e, dataset.dataset_id(csc.src_type, src), dataset.dataset_id(csc.dst_type, dst));
  }
  excluded.finish();
  return excluded;
}

Ints targets_of(const SampledEdges& edges) {
  Ints targets(edges.targets.begin(), edges.targets.end());
  for (std::size_t dst = 0; dst < edges.per_dst.size(); ++dst)
    targets.insert(targets.end(), edges.per_dst[dst], static_cast<std::int64_t>(dst));
  return targets;
}

template <class T>
Ints as_ints(std::span<const T> values) {
  return {values.begin(), values.end()};
}

/// The reverses of drawn edges that are excluded themselves are in no batch.
void drop_reverses(const testing::TypedGraph& graph, const Pairs& pairs, testing::TypedBatch& batch) {
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const Ints &src = batch.n_id[graph.node_type(graph.edges[e].src)],
               &dst = batch.n_id[graph.node_type(graph.edges[e].dst)];
    Ints sources, targets, ids;
    for (std::size_t i = 0; i < batch.sources[e].size(); ++i) {
      if (pairs[e].contains({src[batch.sources[e][i]], dst[batch.targets[e][i]]})) continue;
      sources.push_back(batch.sources[e][i]);
      targets.push_back(batch.targets[e][i]);
      ids.push_back(batch.e_id[e][i]);
    }
    batch.sources[e] = sources, batch.targets[e] = targets, batch.e_id[e] = ids;
  }
}

void expect_same(const Dataset& dataset, const Sample& sample, const testing::TypedBatch& expected,
                 const Rest& rest, const BatchOptions& options) {
  for (std::size_t t = 0; t < expected.n_id.size(); ++t) {
    SCOPED_TRACE("node type " + rest.graph.nodes[t].name);
    Ints original;
    for (const std::int64_t id : sample.nodes[t].dataset_ids)
      original.push_back(dataset.original_id(static_cast<int>(t), id));
    EXPECT_EQ(original, expected.n_id[t]);
    if (options.hops_told()) {
      EXPECT_EQ(as_ints(sample.nodes[t].per_hop), expected.nodes_per_hop[t]);
    }
    if (options.trees()) {
      EXPECT_EQ(as_ints(sample.nodes[t].trees), expected.batch[t]);
    }
  }
  for (std::size_t e = 0; e < expected.sources.size(); ++e) {
    SCOPED_TRACE("edge type " + rest.graph.edges[e].rel);
    EXPECT_EQ(as_ints(sample.edges[e].sources), expected.sources[e]);
    EXPECT_EQ(targets_of(sample.edges[e]), expected.targets[e]);
    if (options.hops_told()) {
      EXPECT_EQ(as_ints(sample.edges[e].per_hop), expected.edges_per_hop[e]);
    }
    if (!options.edge_ids) continue;
    Ints ids;
    for (const std::int64_t id : expected.e_id[e]) ids.push_back(rest.number[e][id]);
    EXPECT_EQ(as_ints(sample.edges[e].edge_ids), ids);
  }
  for (const SampledArray& array : sample.arrays) {
    if (array.spec.name == batch_field::kWalks) {
      EXPECT_EQ(as_ints(array.values), expected.walks);
    }
    if (array.spec.name != batch_field::kOrigEdgeIndex) continue;
    const auto e = static_cast<std::size_t>(array.spec.type);
    Ints drawn = expected.drawn_sources[e];
    drawn.insert(drawn.end(), expected.drawn_targets[e].begin(), expected.drawn_targets[e].end());
    EXPECT_EQ(as_ints(array.values), drawn);
  }
}

TEST(ExcludedOracle, RandomGraphs_AreSampledAsIfTheyHadNotTheEdges) {
  testing::Rounds rounds(11);
  testing::TempFolder folder;
  std::int64_t left_out = 0;
  for (int round = 0; round < testing::num_random_graphs(); ++round) {
    const bool typed = round % 4 == 0;  // more files, of which writing takes longer than all else
    const auto graph = testing::random_typed_graph({.node_types = 1 + (typed ? rounds.below(3) : 0),
                                                    .edge_types = 1 + (typed ? rounds.below(4) : 0),
                                                    .max_nodes = 1 + rounds.below(60),
                                                    .seed = rounds.word(),
                                                    .reverses = rounds.below(2) == 1});
    testing::write_typed_dataset(folder.path() / "graph", graph, rounds.cut(graph, 3));
    const Dataset dataset(folder.path() / "graph");
    for (int batch = 0; batch < 4; ++batch) {
      int type = static_cast<int>(rounds.below(std::ssize(graph.nodes)));
      const BatchOptions options = rounds.options(graph, type);
      if (options.sampler == BatchOptions::kClusterSampler) type = 0;  // whose clusters they are
      const std::unique_ptr<Sampler> sampler = make_sampler(dataset, options);
      for (int sample = 0; sample < 2; ++sample) {  // the second with what the first has left behind
        Ints seeds, ids, times;
        for (std::int64_t count = 1 + rounds.below(20); count > 0; --count) {
          seeds.push_back(rounds.below(graph.nodes[type].count));
          ids.push_back(dataset.dataset_id(type, seeds.back()));
          if (!options.time.empty()) times.push_back(graph.nodes[type].time[seeds.back()]);
        }
        const Pairs pairs = random_pairs(graph, seeds, type, rounds);
        const ExcludedEdges excluded = excluded_of(dataset, pairs, rounds);
        const BatchKey key{.seed = rounds.word(),
                           .epoch = rounds.below(100),
                           .first = rounds.below(1'000),
                           .count = std::ssize(seeds)};
        SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", sample " +
                     std::to_string(sample) + ", options " + options.to_json());
        const Rest rest = without(graph, pairs);
        testing::TypedBatch expected = testing::serial_sample(rest.graph, type, seeds, options, key);
        if (options.subgraph == Subgraph::kBidirectional) drop_reverses(graph, pairs, expected);
        const TypedSeeds entry{.node_type = type, .ids = ids, .times = times};
        expect_same(dataset, sampler->sample({.key = key, .seeds = {&entry, 1}, .excluded = &excluded}),
                    expected, rest, options);
        for (std::size_t e = 0; e < graph.edges.size(); ++e)
          left_out += std::ssize(graph.edges[e].sources) - std::ssize(rest.number[e]);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(left_out, 100 * testing::num_random_graphs()) << "they were not about excluded edges";
}

TEST(ExcludedOracle, WithoutPairs_SamplesAreWhatTheyAreWithoutExclusion) {
  testing::Rounds rounds(12);
  testing::TempFolder folder;
  for (int round = 0; round < 20; ++round) {
    const auto graph = testing::random_typed_graph({.seed = rounds.word(), .reverses = round % 2 == 0});
    testing::write_typed_dataset(folder.path() / "graph", graph);
    const Dataset dataset(folder.path() / "graph");
    const BatchOptions options = rounds.options(graph, 0);
    const std::unique_ptr<Sampler> sampler = make_sampler(dataset, options);
    const Ints& ids = graph.nodes[0].splits.at("train");
    const Ints times = options.time.empty() ? Ints{} : graph.nodes[0].time;
    const TypedSeeds entry{.node_type = 0, .ids = ids, .times = times};
    ExcludedEdges none;
    none.begin(dataset.num_edge_types());
    none.finish();
    std::vector<Ints> sources[2];
    for (const ExcludedEdges* excluded :
         {static_cast<const ExcludedEdges*>(nullptr), static_cast<const ExcludedEdges*>(&none)})
      for (const SampledEdges& edges :
           sampler
               ->sample({.key = {.seed = 5, .epoch = 1, .first = 0, .count = std::ssize(ids)},
        .seeds = {&entry, 1},
        .excluded = excluded})
               .edges)
        sources[excluded ? 1 : 0].push_back(as_ints(edges.sources));
    EXPECT_EQ(sources[0], sources[1]) << options.to_json();
  }
}

}  // namespace
}  // namespace hopfeed
