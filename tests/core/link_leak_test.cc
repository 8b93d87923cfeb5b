// No link of a batch is among the edges that its model sees, in no direction that was to be left out,
// whatever the kind of sampling.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/draws/excluded_edges.h"
#include "core/sampler/neighbor_sampler.h"
#include "tests/core/random_kinds.h"
#include "tests/support/made_batch.h"
#include "tests/support/tiny_dataset.h"
#include "tests/support/typed_dataset.h"

namespace hopfeed {
namespace {

using Ints = std::vector<std::int64_t>;
using PairSet = std::set<std::pair<std::int64_t, std::int64_t>>;  // source, destination; original ids

/// How many edges of the type the batch has that join a pair.
std::int64_t count_edges(const BatchView& batch, const testing::TypedGraph& graph, int edge_type,
                         const PairSet& pairs) {
  const testing::TypedEdges& edges = graph.edges[static_cast<std::size_t>(edge_type)];
  const auto src = batch.get("n_id", Store::kNode, graph.node_type(edges.src)).as<std::int64_t>(),
             dst = batch.get("n_id", Store::kNode, graph.node_type(edges.dst)).as<std::int64_t>();
  std::int64_t count = 0;
  for (const char* field : {"edge_index", "_orig_edge_index"}) {
    if (!batch.has(field, Store::kEdge, edge_type)) continue;
    const auto index = batch.get(field, Store::kEdge, edge_type).as<std::int64_t>();
    for (std::size_t i = 0; i < index.size() / 2; ++i)
      count += pairs.contains({src[index[i]], dst[index[index.size() / 2 + i]]});
  }
  return count;
}

/// A graph whose edge types name their reverses, as links want it.
testing::TypedGraph graph_of(testing::Rounds& rounds) {
  auto graph = testing::random_typed_graph({.node_types = 1 + rounds.below(3),
                                            .edge_types = 1 + rounds.below(3),
                                            .max_nodes = 3 + rounds.below(40),
                                            .seed = rounds.word(),
                                            .reverses = true});
  testing::name_reverses(graph);
  return graph;
}

/// Options of any kind whose seeds may be links of the type.
std::optional<BatchOptions> options_for(const testing::TypedGraph& graph, int edge_type,
                                        testing::Rounds& rounds) {
  const testing::TypedEdges& edges = graph.edges[static_cast<std::size_t>(edge_type)];
  BatchOptions options = rounds.options(graph, graph.node_type(edges.dst));
  if (options.sampler != BatchOptions::kNeighborSampler && edges.src != edges.dst)
    return {};  // seeds of one type
  if (options.sampler == BatchOptions::kClusterSampler && graph.node_type(edges.dst) != 0) return {};
  options.edge_attrs = {};
  options.link.edge_type = edges.src + "__" + edges.rel + "__" + edges.dst;
  if (rounds.below(2) == 0) options.link.negatives = {.mode = NegativeMode::kBinary, .amount = 1};
  return options;
}

TEST(LinkLeaks, NoLinkOfABatchIsAmongItsEdges_UnderAnyKind) {
  testing::Rounds rounds(21);
  testing::TempFolder folder;
  std::int64_t seen_with_none = 0, seen_against = 0;
  std::set<std::string> kinds;
  for (int round = 0; round < 120; ++round) {
    const testing::TypedGraph graph = graph_of(rounds);
    testing::write_typed_dataset(folder.path() / "graph", graph,
                                 testing::random_typed_cut(graph, 1 + round % 2, rounds.word()));
    const Dataset dataset(folder.path() / "graph");
    for (int batch = 0; batch < 8; ++batch) {
      const int type = static_cast<int>(rounds.below(std::ssize(graph.edges)));
      const testing::TypedEdges& edges = graph.edges[static_cast<std::size_t>(type)];
      if (edges.sources.empty()) continue;
      std::optional<BatchOptions> options = options_for(graph, type, rounds);
      if (!options) continue;
      testing::LinkOrder links;
      PairSet pairs, reversed;
      for (std::int64_t count = 1 + rounds.below(12); count > 0; --count) {
        const auto edge = static_cast<std::size_t>(rounds.below(std::ssize(edges.sources)));
        links.pairs.insert(links.pairs.end(), {edges.sources[edge], edges.destinations[edge]});
        if (!options->time.empty()) links.times.push_back(100);  // sees all edges
        pairs.insert({edges.sources[edge], edges.destinations[edge]});
        reversed.insert({edges.destinations[edge], edges.sources[edge]});
      }
      const int stored = dataset.meta().reverse_edge_type(type),
                reverse = stored < 0 && edges.src == edges.dst ? type : stored;
      for (const Exclude exclude : {Exclude::kNone, Exclude::kSelf, Exclude::kReverse}) {
        if (exclude == Exclude::kReverse && reverse < 0) continue;
        options->link.exclude = exclude;
        SCOPED_TRACE("round " + std::to_string(round) + ", options " + options->to_json());
        const testing::Block block = testing::make_link_batch(dataset, links, *options, rounds.word());
        const std::int64_t leaks = count_edges(block.view(), graph, type, pairs),
                           against = reverse < 0 ? 0 : count_edges(block.view(), graph, reverse, reversed);
        if (exclude == Exclude::kNone) {
          seen_with_none += leaks;
          seen_against += against;
        } else {
          EXPECT_EQ(leaks, 0);
        }
        if (exclude == Exclude::kReverse) {
          EXPECT_EQ(against, 0);
        }
        if (HasFailure()) return;
      }
      kinds.insert(options->sampler + to_string(options->subgraph) + (options->labor ? " labor" : "") +
                   (options->weight.empty() ? "" : " weight") + (options->time.empty() ? "" : " time") +
                   (options->disjoint ? " disjoint" : ""));
    }
  }
  EXPECT_GT(seen_with_none, 1'000) << "there was nothing to leak";
  EXPECT_GT(seen_against, 500);
  EXPECT_GE(kinds.size(), 12u);
}

TEST(StrictNegatives, AreTheSame_WhetherRowsAreSearchedOrRead) {
  // One item that most users have, so that its row is long enough to be searched.
  testing::TypedGraph graph{.nodes = {{.name = "user", .count = 900}, {.name = "item", .count = 2}},
                            .edges = {{.src = "user", .rel = "has", .dst = "item"}}};
  Ints pairs;
  for (std::int64_t user = 0; user < 900; ++user) {
    const std::int64_t item = user % 10 == 0 ? 1 : 0;
    graph.edges[0].sources.push_back(user);
    graph.edges[0].destinations.push_back(item);
    if (user < 64) pairs.insert(pairs.end(), {user, item});
  }
  const testing::TempFolder folder;
  std::set<std::uint64_t> digests;
  for (const int partitions : {1, 2}) {
    for (const bool by_id : {false, true}) {
      testing::TypedCut cut = testing::random_typed_cut(graph, partitions, 4);
      cut.by_id = by_id;
      testing::write_typed_dataset(folder.path() / "graph", graph, cut);
      const Dataset dataset(folder.path() / "graph");
      const testing::Block block = testing::make_link_batch(
          dataset, {.pairs = pairs},
          {.fanouts = {5},
           .link = {.edge_type = "has",
                    .negatives = {.mode = NegativeMode::kBinary, .amount = 4, .strict = true}}});
      EXPECT_GT(testing::ints(block.view().get("num_negative_retries", Store::kEdge, 0))[0], 50);
      digests.insert(block.view().digest());
    }
  }
  EXPECT_EQ(digests.size(), 1u);
}

TEST(LinkLeaks, ScratchOfExclusion_IsCountedWhereMemoryIsChecked) {
  const testing::TempFolder folder;
  testing::Rounds rounds(22);
  auto graph = testing::random_typed_graph({.node_types = 1, .edge_types = 1, .max_nodes = 400, .seed = 5});
  testing::TypedEdges& edges = graph.edges[0];
  edges.weight.assign(edges.sources.size(), 1.5);
  testing::write_typed_dataset(folder.path() / "graph", graph);
  const Dataset dataset(folder.path() / "graph");
  for (BatchOptions options :
       {BatchOptions{.fanouts = {5, 5}}, BatchOptions{.fanouts = {5, 5}, .weight = "weight"},
        BatchOptions{.fanouts = {5, 5}, .labor = true},
        BatchOptions{.fanouts = {5, 5}, .labor = true, .labor_seeds = 1'000},
        BatchOptions{.fanouts = {-1, -1}, .disjoint = true},
        BatchOptions{.sampler = BatchOptions::kWalkSampler, .walk = {.length = 5, .per_seed = 3}}}) {
    options.link.edge_type = "r0";
    Ints pairs;
    for (std::size_t i = 0; i < edges.sources.size(); ++i)
      pairs.insert(pairs.end(), {edges.sources[i], edges.destinations[i]});
    const LinkList list(pairs, {});
    BatchMaker maker(dataset, list, options);
    options.link.exclude = Exclude::kNone;
    const BatchMaker without(dataset, list, options);
    EXPECT_GT(maker.scratch(64).at_most, without.scratch(64).at_most);
    for (std::int64_t first = 0; first + 64 <= list.size(); first += 64)
      maker.sample({.seed = 1, .epoch = 0, .first = first, .count = 64});
    EXPECT_LE(maker.scratch_bytes(), maker.scratch(64).at_most) << options.to_json();
  }
}

}  // namespace
}  // namespace hopfeed
