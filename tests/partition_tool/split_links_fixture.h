// Tests of split-links share this: a graph is written, cut, split and written again; pairs of edges; people
// who know each other.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partition_tool/split_links.h"
#include "tests/partition_tool/changed_dataset.h"

namespace hopfeed::testing {

using Pair = std::pair<std::int64_t, std::int64_t>;

class SplitLinks : public ::testing::Test {
 protected:
  /// Returns the dataset that a graph, cut into `partitions`, is split into.
  std::filesystem::path split(const TypedGraph& graph, const LinkSplitOptions& options, int partitions = 1) {
    const std::filesystem::path from = temp_.path() / "from" / std::to_string(number_),
                                to = temp_.path() / std::to_string(number_);
    ++number_;
    std::filesystem::create_directories(from.parent_path());
    write_typed_dataset(from, graph, partitions > 1 ? random_typed_cut(graph, partitions, 9) : TypedCut());
    const Dataset dataset(from);
    SplitGraph made = split_links(dataset, options, no_progress);
    types_ = made.types;
    write_dataset(to, made.graph);
    verify(to);
    return to;
  }
  std::string refusal(const TypedGraph& graph, const LinkSplitOptions& options) {
    return complaint_of([&] { split(graph, options); });
  }
  TempFolder temp_;
  int number_ = 0;
  std::vector<SplitType> types_;
};

inline std::multiset<Pair> pairs_of(const std::vector<Edge>& edges) {
  std::multiset<Pair> pairs;
  for (const Edge& edge : edges) pairs.emplace(edge.source, edge.destination);
  return pairs;
}

inline std::multiset<Pair> pairs_of(const TypedEdges& edges) {
  std::multiset<Pair> pairs;
  for (std::size_t e = 0; e < edges.sources.size(); ++e)
    pairs.emplace(edges.sources[e], edges.destinations[e]);
  return pairs;
}

/// Makes edges between nodes of one type, each both ways with one time; some loops.
inline TypedGraph friends(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TypedGraph graph{.nodes = {{.name = "p", .count = 25}},
                   .edges = {{.src = "p", .rel = "knows", .dst = "p"}}};
  testing::TypedEdges& edges = graph.edges[0];
  for (std::int64_t i = 0; i < 120; ++i) {
    const auto a = static_cast<std::int64_t>(random() % 25), b = static_cast<std::int64_t>(random() % 25);
    for (const auto& [from, to] : {Pair{a, b}, Pair{b, a}}) {
      edges.sources.push_back(from);
      edges.destinations.push_back(to);
      edges.time.push_back(i);
    }
  }
  return graph;
}

}  // namespace hopfeed::testing
