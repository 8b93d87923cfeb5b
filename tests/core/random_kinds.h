// Options of every kind of sampling, at random, for a graph of any types: what oracles are compared under.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/batch_options.h"
#include "tests/core/typed_oracle.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

class Rounds {
  using Ints = std::vector<std::int64_t>;

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

  BatchOptions options(const TypedGraph& graph, int seed_type) {
    if (graph.nodes[0].count >= 3 && below(6) == 0) return clusters();
    if (below(4) == 0) return walks(graph, seed_type);
    BatchOptions options{.fanouts = fanouts(below(4), 1)};
    options.replace = below(2) == 1;
    options.edge_ids = below(2) == 1;
    options.disjoint = below(3) == 0;
    for (const TypedEdges& edges : graph.edges) {
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
  BatchOptions walks(const TypedGraph& graph, int seed_type) {
    BatchOptions options{.sampler = BatchOptions::kWalkSampler};
    options.walk = {.length = 1 + below(6), .per_seed = 1 + below(3)};
    for (std::string at = graph.nodes[seed_type].name;
         std::ssize(options.walk.metapath) < options.walk.length;) {
      std::vector<const TypedEdges*> ways;
      for (const TypedEdges& edges : graph.edges)
        if (edges.dst == at) ways.push_back(&edges);
      if (ways.empty()) break;
      const TypedEdges& way = *ways[below(std::ssize(ways))];
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

  void choose_bidirectional(const TypedGraph& graph, BatchOptions& options) {
    bool pairs = false;
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const int reverse = reverse_type(graph, e);
      if (reverse < 0) return;
      pairs |= reverse != static_cast<int>(e);
    }
    options.subgraph = Subgraph::kBidirectional;
    options.keep_orig_edges = below(2) == 1;
    if (pairs) options.edge_ids = false, options.edge_attrs = {};
  }

  std::mt19937_64 random_;
};

}  // namespace hopfeed::testing
