// Links as seeds on random typed graphs, cut and ordered at random, under every kind of sampling, with every
// kind of negatives, against the serial oracle: each field of each batch. Kinds that make no sense with the
// links are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "tests/core/random_graphs.h"
#include "tests/core/random_kinds.h"
#include "tests/oracle/link_oracle.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;

/// The links as a list has them: source, destination, source, ...
Ints pairs_of(const testing::SerialLinks& links) {
  Ints pairs;
  for (std::size_t i = 0; i < links.sources.size(); ++i) {
    pairs.push_back(links.sources[i]);
    pairs.push_back(links.destinations[i]);
  }
  return pairs;
}

class Rounds : public testing::Rounds {
 public:
  using testing::Rounds::Rounds;

  /// Typed, with labels that can be weights: not all of a type are zero.
  testing::TypedGraph graph() {
    const std::int64_t node_types = 1 + below(3);
    testing::TypedGraph graph = testing::random_typed_graph({.node_types = node_types,
                                                             .edge_types = 1 + below(4),
                                                             .max_nodes = 1 + below(40),
                                                             .seed = word(),
                                                             .reverses = below(2) == 1});
    for (testing::TypedNodes& nodes : graph.nodes) nodes.y[0] = 1;
    testing::name_reverses(graph);
    return graph;
  }

  /// Edges of the type and pairs that are none.
  testing::SerialLinks links(const testing::TypedGraph& graph) {
    testing::SerialLinks links;
    links.edge_type = static_cast<int>(below(std::ssize(graph.edges)));
    const testing::TypedEdges& edges = graph.edges[links.edge_type];
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

  BatchOptions options(const testing::TypedGraph& graph, testing::SerialLinks& links) {
    const testing::TypedEdges& edges = graph.edges[links.edge_type];
    BatchOptions options = testing::Rounds::options(graph, graph.node_type(edges.dst));
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
  Exclude exclude(const testing::TypedGraph& graph, const testing::SerialLinks& links) {
    const Exclude all[] = {Exclude::kNone, Exclude::kSelf, Exclude::kReverse};
    const bool has_reverse = testing::reverse_type(graph, static_cast<std::size_t>(links.edge_type)) >= 0;
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

/// Walks begin at nodes of one type, and clusters need numbers that some could have.
bool makes_sense(const testing::TypedGraph& graph, const testing::SerialLinks& links,
                 const BatchOptions& options) {
  const testing::TypedEdges& edges = graph.edges[links.edge_type];
  if (options.sampler == BatchOptions::kWalkSampler) return edges.src == edges.dst;
  if (options.sampler != BatchOptions::kClusterSampler) return true;
  for (const std::string& type : {edges.src, edges.dst}) {
    const testing::TypedNodes& nodes = graph.nodes[graph.node_type(type)];
    if (std::ranges::max(nodes.y) >= nodes.count) return false;
  }
  return true;
}

std::string refusal(const Dataset& dataset, const LinkList& list, const BatchOptions& options) {
  try {
    const BatchMaker maker(dataset, list, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

testing::SerialLinks part_of(const testing::SerialLinks& links, std::int64_t first, std::int64_t count) {
  testing::SerialLinks part = links;
  for (Ints* list : {&part.sources, &part.destinations, &part.labels, &part.times})
    if (!list->empty()) *list = Ints(list->begin() + first, list->begin() + first + count);
  return part;
}

TEST(LinkOracle, RandomGraphsGiveTheSameBatchFieldByField) {
  Rounds rounds(20'261'122);
  testing::TempFolder folder;
  int made = 0, refused = 0, senseless = 0;
  std::map<std::string, int> kinds;
  for (int round = 0; round < testing::num_random_graphs(); ++round) {
    const testing::TypedGraph graph = rounds.graph();
    testing::TypedCut cut = rounds.cut(graph, 3);
    cut.by_id = rounds.below(2) == 1;
    // Each in a folder of its own: where files have just been deleted, the file system is slow to make new
    // ones.
    const auto path = folder.path() / std::to_string(round);
    testing::write_typed_dataset(path, graph, cut);
    const Dataset dataset(path);
    for (int batch = 0; batch < 3; ++batch) {
      testing::SerialLinks links = rounds.links(graph);
      const BatchOptions options = rounds.options(graph, links);
      const Ints pairs = pairs_of(links);
      const LinkList list(
          pairs,
          {.edge_type = links.edge_type, .shuffle = false, .labels = links.labels, .times = links.times});
      const BatchKey key = rounds.key(list.size());
      SCOPED_TRACE("round " + std::to_string(round) + ", batch " + std::to_string(batch) + ", options " +
                   options.to_json());
      const testing::SerialLinks part = part_of(links, key.first, key.count);
      if (!makes_sense(graph, links, options)) {
        const std::string said = refusal(dataset, list, options);
        EXPECT_TRUE(said.starts_with("walks by this metapath begin at node type '") ||
                    said.find("is not between 0 and") != std::string::npos)
            << said;
        ++senseless;
        continue;
      }
      const auto expected = testing::serial_links(graph, part, options, key);
      BatchMaker maker(dataset, list, options);
      if (!expected) {
        EXPECT_THROW(maker.sample(key), Error);
        ++refused;
        continue;
      }
      const auto block = testing::make_block(maker, key);
      testing::expect_same_links(block.view(), *expected, part, graph, options);
      const Ints input = testing::ints(block.view().get("input_id", Store::kEdge, links.edge_type));
      for (std::int64_t i = 0; i < key.count; ++i)
        EXPECT_EQ(input[static_cast<std::size_t>(i)], key.first + i);
      EXPECT_LE(block.size(), maker.max_block_bytes(key.count));
      EXPECT_LE(maker.scratch_bytes(), maker.scratch(key.count).at_most) << "what memory is checked for";
      ++made;
      ++kinds[options.sampler];
      kinds["induced"] += options.subgraph == Subgraph::kInduced;
      kinds["bidirectional"] += options.subgraph == Subgraph::kBidirectional;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(made, 2 * testing::num_random_graphs());
  EXPECT_GT(refused, 0) << "links without a negative that could be";
  EXPECT_GT(senseless, testing::num_random_graphs() / 20);
  for (const char* kind : {"walk", "cluster", "induced", "bidirectional"})
    EXPECT_GT(kinds[kind], testing::num_random_graphs() / 20) << kind;
}

TEST(LinkOracle, TheCutIsInvisible) {
  Rounds rounds(7);
  testing::TempFolder folder;
  int compared = 0;
  for (int round = 0; round < 20; ++round) {
    const testing::TypedGraph graph = rounds.graph();
    const testing::ManyCuts cuts(folder.path(), graph, rounds);
    for (int batch = 0; batch < 6; ++batch) {
      testing::SerialLinks links = rounds.links(graph);
      const BatchOptions options = rounds.options(graph, links);
      const Ints pairs = pairs_of(links);
      const std::uint64_t digest = cuts.expect_same(options, [&](const Dataset& dataset) -> std::uint64_t {
        const LinkList list(pairs,
                            {.edge_type = links.edge_type, .labels = links.labels, .times = links.times});
        try {
          BatchMaker maker(dataset, list, options);
          return testing::make_block(maker, {.seed = 3, .epoch = 1, .first = 0, .count = list.size()})
              .view()
              .digest();
        } catch (const Error&) {
          return 0;  // no negative, or a kind that makes no sense with the links
        }
      });
      compared += digest != 0;
    }
  }
  EXPECT_GT(compared, 80);
}

}  // namespace
}  // namespace hopfeed
