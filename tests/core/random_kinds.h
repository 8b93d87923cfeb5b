// Makes what oracles are compared under, at random: options of every kind of sampling for a graph of any
// types, cuts of it, and batches.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/batch/batch_layout.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "tests/oracle/typed_oracle.h"
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

  /// Cuts a graph into one to so many partitions.
  TypedCut cut(const TypedGraph& graph, std::int64_t most_partitions) {
    TypedCut cut = random_typed_cut(graph, 1 + static_cast<int>(below(most_partitions)), word());
    cut.wide_ids = below(2) == 1;
    cut.alias_sources = below(3) > 0;
    return cut;
  }

  /// Returns the key of a stretch of a list of so many seeds or links.
  BatchKey key(std::int64_t list_size) {
    const std::int64_t first = below(list_size);
    return {.seed = word(), .epoch = below(100), .first = first, .count = 1 + below(list_size - first)};
  }

  Ints fanouts(std::int64_t hops) {
    const std::int64_t choices[] = {-1, 1, 2, 3, 5, 15, 16, 17, 33, 40};
    Ints list;
    for (; hops > 0; --hops) list.push_back(below(6) == 0 ? 0 : choices[below(10)]);
    return list;
  }

  BatchOptions options(const TypedGraph& graph, int seed_type) {
    if (graph.nodes[0].count >= 3 && below(6) == 0) return clusters();
    if (below(4) == 0) return walks(graph, seed_type);
    BatchOptions options{.fanouts = fanouts(below(4))};
    options.replace = below(2) == 1;
    options.edge_ids = below(2) == 1;
    options.disjoint = below(3) == 0;
    for (const TypedEdges& edges : graph.edges) {
      if (below(3) == 0)
        options.edge_fanouts[below(2) ? edges.rel : edges.src + "__" + edges.rel + "__" + edges.dst] =
            fanouts(std::ssize(options.fanouts));
      if (below(4) == 0 && !edges.weight.empty()) options.edge_attrs = {"weight"};
      if (below(4) == 0 && !edges.weight.empty()) options.weight = "weight";
    }
    if (options.weight.empty() && below(3) == 0) choose_time(options);
    if (!options.trees() && below(4) == 0) options.subgraph = Subgraph::kInduced;
    if (options.subgraph == Subgraph::kDirectional && below(3) == 0) choose_bidirectional(graph, options);
    if (below(4) == 0) {
      choose_labor(options);
      options.weight = options.time = {};
      options.temporal_strategy = TemporalStrategy::kUniform;
      options.time_window = 0;
      options.time_start = {};
    }
    return options;
  }

 protected:
  void choose_time(BatchOptions& options) {
    options.time = "time";
    options.temporal_strategy =
        below(3) == 0 && !options.replace ? TemporalStrategy::kLast : TemporalStrategy::kUniform;
    options.time_window = below(3) == 0 ? 1 + below(20) : 0;
    if (below(3) == 0) options.time_start = below(24) - 4;
  }

  void choose_labor(BatchOptions& options) {
    options.labor = true;
    options.labor_seeds = below(2) * (1 + below(20));
    options.replace = options.disjoint = false;
  }

 private:
  // Samples clusters, which the attribute y numbers.
  BatchOptions clusters() {
    return {.sampler = BatchOptions::kClusterSampler,
            .cluster = "y",
            .subgraph = Subgraph::kInduced,
            .edge_ids = below(2) == 1};
  }

  // Walks by a random metapath from the seeds' type; by the default where no edge ends there.
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

/// Has random reverses (RandomTypedOptions) say what they are the reverses of.
inline void name_reverses(TypedGraph& graph) {
  for (TypedEdges& edges : graph.edges)
    if (edges.rel.starts_with("rev_"))
      edges.rev_of = edges.dst + "__" + edges.rel.substr(4) + "__" + edges.src;
}

/// ManyCuts has one graph as it is, and cut at random into one, two and three partitions.
class ManyCuts {
 public:
  ManyCuts(const std::filesystem::path& folder, const TypedGraph& graph, Rounds& rounds) {
    for (const int partitions : {0, 1, 2, 3}) {
      const auto path = folder / std::to_string(partitions);
      write_typed_dataset(path, graph,
                          partitions == 0 ? TypedCut{} : random_typed_cut(graph, partitions, rounds.word()));
      cuts_.push_back(std::make_unique<Dataset>(path));
    }
  }

  /// Expects the same of each cut, and returns it.
  template <class Digest>
  std::uint64_t expect_same(const BatchOptions& options, Digest digest) const {
    const std::uint64_t uncut = digest(*cuts_[0]);
    for (std::size_t cut = 1; cut < cuts_.size(); ++cut)
      EXPECT_EQ(digest(*cuts_[cut]), uncut) << cut << " partitions, options " << options.to_json();
    return uncut;
  }

 private:
  std::vector<std::unique_ptr<Dataset>> cuts_;
};

}  // namespace hopfeed::testing
