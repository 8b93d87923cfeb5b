// Has one case of every kind of sampling and the graphs that all of them run on, of one node type and of two:
// for what has to hold for each kind.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/sampler/row_by_row_sampler.h"
#include "core/sampler/sampler_registry.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed::testing {

struct Kind {
  const char* name;
  BatchOptions options;
};

/// EveryOther is a sampler of a user's own, "own": it takes every other neighbour.
class EveryOther : public RowByRowSampler {
 public:
  EveryOther(const Dataset& dataset, const BatchOptions& /*options*/) : RowByRowSampler(dataset, {5, 5}) {}
  void pick(const HopRow& row, std::vector<std::uint64_t>& picks) override {
    for (std::uint64_t i = 0; i < row.degree && picks.size() < row.most; i += 2) picks.push_back(i);
  }
};

inline void register_own_sampler() { register_sampler("own", make_custom_sampler<EveryOther>); }

inline std::vector<Kind> all_kinds() {
  return {
      Kind{"Plain", {.fanouts = {15, 10, 5}}},
      Kind{"EdgeIds", {.fanouts = {5, 5}, .edge_ids = true}},
      Kind{"Replacement", {.fanouts = {5, 5}, .replace = true}},
      Kind{"AllNeighbors", {.fanouts = {-1, -1}}},
      Kind{"LargeFanout", {.fanouts = {40, 40}}},
      Kind{"Weighted", {.fanouts = {5, 5}, .weight = "weight"}},
      Kind{"WeightedReplacement", {.fanouts = {5, 5}, .replace = true, .weight = "weight"}},
      Kind{"EdgeAttributes", {.fanouts = {5, 5}, .edge_attrs = {"weight"}}},
      Kind{"Induced", {.fanouts = {5, 5}, .subgraph = Subgraph::kInduced, .edge_ids = true}},
      Kind{"Bidirectional",
           {.fanouts = {5, 5},
            .subgraph = Subgraph::kBidirectional,
            .keep_orig_edges = true,
            .edge_ids = true,
            .edge_attrs = {"weight"}}},
      Kind{"Labor", {.fanouts = {5, 5}, .labor = true}},
      Kind{"LaborOfManyBatches", {.fanouts = {5, 5}, .labor = true, .labor_seeds = 500}},
      Kind{"Disjoint", {.fanouts = {5, 5}, .disjoint = true, .edge_ids = true}},
      Kind{"Walks",
           {.sampler = BatchOptions::kWalkSampler, .walk = {.length = 9, .per_seed = 5, .p = 0.5, .q = 2}}},
      Kind{"Clusters",
           {.sampler = BatchOptions::kClusterSampler, .cluster = "time", .subgraph = Subgraph::kInduced}},
      Kind{"OnesOwn", {.sampler = "own"}},
      Kind{"TemporalLast", {.fanouts = {5, 5}, .time = "time", .temporal_strategy = TemporalStrategy::kLast}},
      Kind{"Temporal", {.fanouts = {5, 5}, .time = "time", .time_window = 20}}};
}

/// Writes a random graph whose edges have weights and whose nodes have times.
inline void write_all_kinds_graph(const std::filesystem::path& folder, std::uint64_t seed) {
  const TinyGraph plain = random_graph({.num_nodes = 500, .num_edges = 5'000, .seed = seed});
  TypedGraph graph{.nodes = {{.count = 500, .x = plain.x, .x_width = plain.x_width, .y = plain.y}},
                   .edges = {{.sources = plain.src, .destinations = plain.dst}}};
  for (std::int64_t v = 0; v < 500; ++v) graph.nodes[0].time.push_back(v * 7 % 50);
  for (std::size_t e = 0; e < plain.src.size(); ++e) graph.edges[0].weight.push_back(e % 9 == 0 ? 1e6 : 1.0);
  write_typed_dataset(folder, graph);
}

/// Writes a dataset for all kinds with two node types and all four directions between them.
inline void write_all_kinds_types(const std::filesystem::path& folder, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  TypedGraph graph{.nodes = {{.name = "a", .count = 500}, {.name = "b", .count = 300}}};
  for (TypedNodes& nodes : graph.nodes)
    for (std::int64_t v = 0; v < nodes.count; ++v) nodes.time.push_back(v * 7 % 50);
  graph.edges = {{.src = "a", .rel = "r0", .dst = "a"},
                 {.src = "b", .rel = "r1", .dst = "a"},
                 {.src = "a", .rel = "r2", .dst = "b"},
                 {.src = "b", .rel = "r3", .dst = "b"}};
  for (TypedEdges& edges : graph.edges) {
    for (int e = 0; e < 3'000; ++e) {
      edges.sources.push_back(below(graph.nodes[graph.node_type(edges.src)].count));
      edges.destinations.push_back(below(graph.nodes[graph.node_type(edges.dst)].count));
      edges.weight.push_back(e % 9 == 0 ? 1e6 : 1.0);
    }
  }
  write_typed_dataset(folder, graph);
}

/// Returns `options` for the graph of two types: walks go along edge types there.
inline BatchOptions of_types(BatchOptions options) {
  if (options.sampler == BatchOptions::kWalkSampler) {
    options.walk.metapath = {"r1", "r2"};
    options.walk.p = options.walk.q = 1;
  }
  return options;
}

}  // namespace hopfeed::testing
