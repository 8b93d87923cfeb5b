// Makes links as seeds at random: typed graphs for them, lists, options with negatives of every kind.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/core/random_kinds.h"
#include "tests/oracle/link_oracle.h"

namespace hopfeed::testing {

/// Returns the links as a list has them: source, destination, source, ...
inline std::vector<std::int64_t> pairs_of(const SerialLinks& links) {
  std::vector<std::int64_t> pairs;
  for (std::size_t i = 0; i < links.sources.size(); ++i) {
    pairs.push_back(links.sources[i]);
    pairs.push_back(links.destinations[i]);
  }
  return pairs;
}

class LinkRounds : public Rounds {
 public:
  using Rounds::Rounds;

  /// Makes a typed graph with labels that can be weights: not all of a type are zero.
  TypedGraph graph() {
    const std::int64_t node_types = 1 + below(3);
    TypedGraph graph = random_typed_graph({.node_types = node_types,
                                           .edge_types = 1 + below(4),
                                           .max_nodes = 1 + below(40),
                                           .seed = word(),
                                           .reverses = below(2) == 1});
    for (TypedNodes& nodes : graph.nodes) nodes.y[0] = 1;
    name_reverses(graph);
    return graph;
  }

  /// Makes links of edges of the type and pairs that are none.
  SerialLinks links(const TypedGraph& graph) {
    SerialLinks links;
    links.edge_type = static_cast<int>(below(std::ssize(graph.edges)));
    const TypedEdges& edges = graph.edges[links.edge_type];
    const std::int64_t count = 1 + below(20), sources = graph.nodes[graph.node_type(edges.src)].count,
                       destinations = graph.nodes[graph.node_type(edges.dst)].count;
    for (std::int64_t i = 0; i < count; ++i) {
      if (!edges.sources.empty() && below(3) > 0) {
        const auto edge = static_cast<std::size_t>(below(std::ssize(edges.sources)));
        links.sources.push_back(edges.sources[edge]);
        links.destinations.push_back(edges.destinations[edge]);
      } else {
        links.sources.push_back(below(sources));
        links.destinations.push_back(below(destinations));
      }
    }
    links.list = pairs_of(links);
    return links;
  }

  BatchOptions options(const TypedGraph& graph, SerialLinks& links) {
    const TypedEdges& edges = graph.edges[links.edge_type];
    BatchOptions options = Rounds::options(graph, graph.node_type(edges.dst));
    options.link.edge_type = edges.src + "__" + edges.rel + "__" + edges.dst;
    options.link.exclude = exclude(graph, links);
    choose_negatives(options.link.negatives);
    if (!options.time.empty())
      for (std::size_t i = 0; i < links.sources.size(); ++i) links.times.push_back(below(44) - 10);
    if (options.link.negatives.mode != NegativeMode::kTriplet && below(2) == 1) {
      const std::int64_t smallest = below(2);
      for (std::size_t i = 0; i < links.sources.size(); ++i) links.labels.push_back(smallest + below(4));
      links.smallest_label = std::ranges::min(links.labels);
    }
    return options;
  }

 private:
  Exclude exclude(const TypedGraph& graph, const SerialLinks& links) {
    const Exclude all[] = {Exclude::kNone, Exclude::kSelf, Exclude::kReverse};
    const bool has_reverse = reverse_type(graph, static_cast<std::size_t>(links.edge_type)) >= 0;
    return all[below(has_reverse ? 3 : 2)];
  }

  void choose_negatives(NegativeOptions& negatives) {
    const double amounts[] = {0.3, 0.5, 1, 1, 1.5, 2, 3.25};
    switch (below(3)) {
      case 0:
        return;
      case 1:
        negatives.mode = NegativeMode::kBinary;
        negatives.amount = amounts[below(7)];
        break;
      default:
        negatives.mode = NegativeMode::kTriplet;
        negatives.amount = static_cast<double>(1 + below(3));
    }
    negatives.strict = below(2) == 1;
    if (below(3) == 0) negatives.dst_weight = "y";
    if (below(3) == 0 && negatives.mode == NegativeMode::kBinary) negatives.src_weight = "y";
  }
};

/// Tells whether options make sense: walks begin at nodes of one type, and clusters need numbers that some
/// could have.
inline bool makes_sense(const TypedGraph& graph, const SerialLinks& links, const BatchOptions& options) {
  const TypedEdges& edges = graph.edges[links.edge_type];
  if (options.sampler == BatchOptions::kWalkSampler) return edges.src == edges.dst;
  if (options.sampler != BatchOptions::kClusterSampler) return true;
  for (const std::string& type : {edges.src, edges.dst}) {
    const TypedNodes& nodes = graph.nodes[graph.node_type(type)];
    if (std::ranges::max(nodes.y) >= nodes.count) return false;
  }
  return true;
}

inline SerialLinks part_of(const SerialLinks& links, std::int64_t first, std::int64_t count) {
  SerialLinks part = links;
  for (std::vector<std::int64_t>* list : {&part.sources, &part.destinations, &part.labels, &part.times})
    if (!list->empty())
      *list = std::vector<std::int64_t>(list->begin() + first, list->begin() + first + count);
  return part;
}

}  // namespace hopfeed::testing
