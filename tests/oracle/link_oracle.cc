// See link_oracle.h.
#include "tests/oracle/link_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/dataset/alias_table.h"
#include "core/draws/negative_rule.h"
#include "tests/support/made_batch.h"

namespace hopfeed::testing {
namespace {

using Ints = std::vector<std::int64_t>;
using Whole = unsigned __int128;

class Negatives {
 public:
  Negatives(const TypedGraph& graph, const SerialLinks& links, const BatchOptions& options)
      : links_(links),
        options_(options),
        src_(end_of(graph, graph.edges[links.edge_type].src, negatives().src_weight)),
        dst_(end_of(graph, graph.edges[links.edge_type].dst, negatives().dst_weight)) {
    const TypedEdges& edges = graph.edges[links.edge_type];
    for (std::size_t i = 0; i < edges.sources.size(); ++i)
      taken_.insert({edges.sources[i], edges.destinations[i]});
    for (std::size_t i = 0; i < links.list.size(); i += 2) taken_.insert({links.list[i], links.list[i + 1]});
  }

  struct Pair {
    std::int64_t source, destination;
  };
  /// Number `k` of the link at position `at` of the batch.
  std::optional<Pair> draw(const BatchKey& key, std::size_t at, std::int64_t k, std::int64_t& retries) const {
    const auto stream = [&](LinkEnd end) {
      return negative_stream(key, links_.edge_type, end)
          .of(static_cast<std::uint64_t>(key.first) + at, static_cast<std::uint32_t>(k));
    };
    const NodeStream sources = stream(LinkEnd::kSource), destinations = stream(LinkEnd::kDestination);
    if (weight(dst_, existing(dst_, at)) == 0) return {};
    if (!triplet() && weight(src_, existing(src_, at)) == 0) return {};
    for (std::uint32_t attempt = 0; attempt <= kMaxNegativeRetries; ++attempt) {
      Pair pair{links_.sources[at], one(dst_, destinations, attempt, at)};
      if (!triplet()) pair.source = one(src_, sources, attempt, at);
      if (chance(pair) > 0) return pair;
      ++retries;
    }
    return of_all(destinations, at);
  }

 private:
  const NegativeOptions& negatives() const { return options_.link.negatives; }
  bool triplet() const { return negatives().mode == NegativeMode::kTriplet; }

  /// One end of the negatives: its nodes, whether their times count, and by weight their alias table and what
  /// it means.
  struct End {
    const TypedNodes& nodes;
    bool timed;
    std::vector<AliasEntry> table;
    std::vector<std::uint64_t> weights;
  };
  End end_of(const TypedGraph& graph, const std::string& type, const std::string& weight) const {
    const TypedNodes& nodes = graph.nodes[graph.node_type(type)];
    const auto count = static_cast<std::size_t>(nodes.count);
    End end{nodes, timed(graph, type), {}, std::vector<std::uint64_t>(count, 1)};
    if (weight.empty()) return end;
    const std::vector<double> weights(nodes.y.begin(), nodes.y.end());
    end.table.resize(weights.size());
    AliasBuilder().build(weights, end.table);
    alias_weights(end.table, end.weights.data());
    return end;
  }

  /// Whether nodes of a type have times: not where rows at it are in the order of the edges' and none in that
  /// of nodes'.
  bool timed(const TypedGraph& graph, const std::string& type) const {
    if (options_.time.empty() || graph.nodes[graph.node_type(type)].time.empty()) return false;
    int by_edges = 0, by_nodes = 0;
    for (const TypedEdges& edges : graph.edges) {
      if (!edges.in_order_of_time || (edges.src != type && edges.dst != type)) continue;
      if (!edges.time.empty())
        ++by_edges;
      else if (!graph.nodes[graph.node_type(edges.src)].time.empty())
        ++by_nodes;
    }
    return by_nodes > 0 || by_edges == 0;
  }

  /// The nodes that exist at the time of a link, as they count.
  Ints existing(const End& end, std::size_t at) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> nodes;  // time, id
    for (std::int64_t v = 0; v < end.nodes.count; ++v) {
      if (!end.timed)
        nodes.emplace_back(0, v);
      else if (end.nodes.time[v] <= links_.times[at])
        nodes.emplace_back(end.nodes.time[v], v);
    }
    std::ranges::sort(nodes);
    Ints ids;
    for (const auto& [time, id] : nodes) ids.push_back(id);
    return ids;
  }

  static std::uint64_t weight(const End& end, const Ints& nodes) {
    std::uint64_t sum = 0;
    for (const std::int64_t v : nodes) sum += end.weights[v];
    return sum;
  }

  std::int64_t one(const End& end, const NodeStream& stream, std::uint32_t attempt, std::size_t at) const {
    const Ints nodes = existing(end, at);
    if (end.table.empty())
      return nodes[draw_below(stream, attempt, stream.words(attempt / 4).word[attempt % 4],
                              static_cast<std::uint32_t>(nodes.size()))];
    if (!end.timed) {
      const AliasDraw made = alias_draw(stream, attempt, static_cast<std::uint32_t>(end.table.size()));
      return alias_position(made, end.table[made.column]);
    }
    std::uint64_t drawn = draw_below_wide(stream, attempt, weight(end, nodes));
    std::size_t i = 0;
    while (drawn >= end.weights[nodes[i]]) drawn -= end.weights[nodes[i++]];
    return nodes[i];
  }

  /// How likely a pair of nodes that exist is; above zero where the pair can be.
  Whole chance(const Pair& pair) const {
    if (negatives().strict && taken_.contains({pair.source, pair.destination})) return 0;
    const Whole destination = dst_.weights[pair.destination];
    return triplet() ? destination : destination * src_.weights[pair.source];
  }

  // One draw from all pairs there are.
  std::optional<Pair> of_all(const NodeStream& stream, std::size_t at) const {
    const Ints sources = triplet() ? Ints{links_.sources[at]} : existing(src_, at);
    std::vector<Pair> pairs;
    std::vector<Whole> chances;
    Whole total = 0;
    for (const std::int64_t v : existing(dst_, at)) {
      for (const std::int64_t u : sources) {
        pairs.push_back({u, v});
        chances.push_back(chance(pairs.back()));
        total += chances.back();
      }
    }
    if (total == 0) return {};
    Whole drawn = whole_draw(stream, total);
    std::size_t i = 0;
    while (drawn >= chances[i]) drawn -= chances[i++];
    return pairs[i];
  }

  const SerialLinks& links_;
  const BatchOptions& options_;
  const End src_, dst_;
  std::set<std::pair<std::int64_t, std::int64_t>> taken_;  // by strict negatives
};

/// The links' edges that neighbours must not come by.
AbsentEdges absent_edges(const TypedGraph& graph, const SerialLinks& links, Exclude exclude) {
  AbsentEdges absent;
  const TypedEdges& edges = graph.edges[links.edge_type];
  const std::string name = edges.src + "__" + edges.rel + "__" + edges.dst;
  std::int64_t reverse = edges.src == edges.dst ? links.edge_type : -1;
  for (std::size_t e = 0; e < graph.edges.size(); ++e) {
    const TypedEdges& other = graph.edges[e];
    if (other.rev_of == name || edges.rev_of == other.src + "__" + other.rel + "__" + other.dst)
      reverse = static_cast<std::int64_t>(e);
  }
  for (std::size_t i = 0; exclude != Exclude::kNone && i < links.sources.size(); ++i) {
    absent.insert({links.edge_type, links.sources[i], links.destinations[i]});
    if (exclude == Exclude::kReverse) absent.insert({reverse, links.destinations[i], links.sources[i]});
  }
  return absent;
}

void append(const Ints& from, Ints& to) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

std::optional<LinkBatch> serial_links(const TypedGraph& graph, const SerialLinks& links,
                                      const BatchOptions& options, const BatchKey& key) {
  LinkBatch out{.sources = links.sources,
                .destinations = links.destinations,
                .source_locals = {},
                .destination_locals = {},
                .retries = 0,
                .sample = {}};
  const std::size_t positives = links.sources.size();
  const bool binary = options.link.negatives.mode == NegativeMode::kBinary;
  const Negatives negatives(graph, links, options);
  for (std::int64_t j = 0; j < options.link.negatives.count(std::ssize(links.sources)); ++j) {
    const auto at = static_cast<std::size_t>(j) % positives;
    const auto pair = negatives.draw(key, at, j / std::ssize(links.sources), out.retries);
    if (!pair) return {};
    if (binary) out.sources.push_back(pair->source);
    out.destinations.push_back(pair->destination);
  }
  const TypedEdges& edges = graph.edges[links.edge_type];
  const int src = graph.node_type(edges.src), dst = graph.node_type(edges.dst);
  std::vector<SerialSeeds> seeds;
  Ints owners;  // of each tree
  if (options.trees()) {
    seeds.push_back({.node_type = src, .ids = {}, .times = {}});
    if (dst != src) seeds.push_back({.node_type = dst, .ids = {}, .times = {}});
    const auto add = [&](const Ints& ids, SerialSeeds& entry, Ints& locals) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        locals.push_back(std::ssize(entry.ids));
        owners.push_back(static_cast<std::int64_t>(i % positives));
        entry.ids.push_back(ids[i]);
        if (!options.time.empty()) entry.times.push_back(links.times[i % positives]);
      }
    };
    add(out.sources, seeds.front(), out.source_locals);
    add(out.destinations, seeds.back(), out.destination_locals);
  } else {
    std::map<int, std::set<std::int64_t>> ends;
    ends[src].insert(out.sources.begin(), out.sources.end());
    ends[dst].insert(out.destinations.begin(), out.destinations.end());
    const auto locals = [&](const Ints& ids, int type) {
      Ints found;
      for (const std::int64_t id : ids)
        found.push_back(std::distance(ends[type].begin(), ends[type].find(id)));
      return found;
    };
    out.source_locals = locals(out.sources, src);
    out.destination_locals = locals(out.destinations, dst);
    seeds.push_back({.node_type = src, .ids = Ints(ends[src].begin(), ends[src].end()), .times = {}});
    if (dst != src)
      seeds.push_back({.node_type = dst, .ids = Ints(ends[dst].begin(), ends[dst].end()), .times = {}});
  }
  out.sample = serial_sample(graph, seeds, options, key, absent_edges(graph, links, options.link.exclude));
  if (options.trees())
    for (Ints& trees : out.sample.batch)
      for (std::int64_t& tree : trees) tree = owners[static_cast<std::size_t>(tree)];
  return out;
}

namespace {

void expect_labels(const BatchView& batch, const LinkBatch& expected, const SerialLinks& links,
                   const BatchOptions& options) {
  const int e = links.edge_type;
  const std::size_t positives = links.sources.size(), all = expected.sources.size();
  Ints index = expected.source_locals;
  append(expected.destination_locals, index);
  const ArrayView label_index = batch.get("edge_label_index", Store::kEdge, e);
  EXPECT_EQ(ints(label_index), index);
  EXPECT_EQ(ints(label_index.shape), (Ints{2, static_cast<std::int64_t>(all)}));
  const bool binary = options.link.negatives.mode == NegativeMode::kBinary;
  ASSERT_EQ(batch.has("edge_label", Store::kEdge, e), binary || !links.labels.empty());
  if (!links.labels.empty()) {
    Ints labels = links.labels;
    for (std::int64_t& label : labels) label += binary && links.smallest_label == 0;
    labels.resize(all, 0);
    EXPECT_EQ(ints(batch.get("edge_label", Store::kEdge, e)), labels);
  } else if (binary) {
    std::vector<float> labels(positives, 1);
    labels.resize(all, 0);
    const auto found = batch.get("edge_label", Store::kEdge, e).as<float>();
    EXPECT_EQ(std::vector<float>(found.begin(), found.end()), labels);
  }
  ASSERT_EQ(batch.has("edge_label_time", Store::kEdge, e), !options.time.empty());
  if (options.time.empty()) return;
  Ints times;
  for (std::size_t l = 0; l < all; ++l) times.push_back(links.times[l % positives]);
  EXPECT_EQ(ints(batch.get("edge_label_time", Store::kEdge, e)), times);
}

void expect_triplets(const BatchView& batch, const LinkBatch& expected, const SerialLinks& links,
                     const BatchOptions& options) {
  const int e = links.edge_type;
  const auto positives = std::ssize(links.sources), each = std::ssize(expected.destinations) / positives - 1;
  const Ints& locals = expected.destination_locals;
  EXPECT_EQ(ints(batch.get("src_index", Store::kEdge, e)), expected.source_locals);
  EXPECT_EQ(ints(batch.get("dst_pos_index", Store::kEdge, e)),
            Ints(locals.begin(), locals.begin() + positives));
  const ArrayView negatives = batch.get("dst_neg_index", Store::kEdge, e);
  EXPECT_EQ(ints(negatives.shape), (each == 1 ? Ints{positives} : Ints{positives, each}));
  Ints rows;
  for (std::int64_t i = 0; i < positives; ++i)
    for (std::int64_t k = 0; k < each; ++k) rows.push_back(locals[positives + k * positives + i]);
  EXPECT_EQ(ints(negatives), rows);
  ASSERT_EQ(batch.has("seed_time", Store::kEdge, e), !options.time.empty());
  if (!options.time.empty()) {
    EXPECT_EQ(ints(batch.get("seed_time", Store::kEdge, e)), links.times);
  }
}

}  // namespace

void expect_same_links(const BatchView& batch, const LinkBatch& expected, const SerialLinks& links,
                       const TypedGraph& graph, const BatchOptions& options) {
  expect_same_sample(batch, expected.sample, graph, options);
  const int e = links.edge_type;
  const bool triplet = options.link.negatives.mode == NegativeMode::kTriplet;
  triplet ? expect_triplets(batch, expected, links, options) : expect_labels(batch, expected, links, options);
  for (const char* name : {"edge_label_index", "edge_label", "edge_label_time"}) {
    if (triplet) {
      EXPECT_FALSE(batch.has(name, Store::kEdge, e)) << name;
    }
  }
  for (const char* name : {"src_index", "dst_pos_index", "dst_neg_index", "seed_time"}) {
    if (!triplet) {
      EXPECT_FALSE(batch.has(name, Store::kEdge, e)) << name;
    }
  }
  ASSERT_EQ(batch.has("num_negative_retries", Store::kEdge, e), options.link.negatives.strict);
  if (options.link.negatives.strict) {
    EXPECT_EQ(ints(batch.get("num_negative_retries", Store::kEdge, e)), Ints{expected.retries});
  }
  for (int t = 0; t < static_cast<int>(graph.nodes.size()); ++t)
    for (const char* name : {"batch_size", "seed_index", "input_id"})
      EXPECT_FALSE(batch.has(name, Store::kNode, t)) << name;
}

}  // namespace hopfeed::testing
