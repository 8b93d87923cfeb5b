// See walk_oracle.h.
#include "tests/oracle/walk_oracle.h"

#include <algorithm>

#include "core/draws/keyed_random.h"
#include "core/sampler/walk_sampler.h"

namespace hopfeed::testing {
namespace {

using Ints = std::vector<std::int64_t>;

/// Edges that end at the node, in imported order.
Ints row_of(const TypedEdges& edges, std::int64_t node) {
  Ints row;
  for (std::size_t i = 0; i < edges.destinations.size(); ++i)
    if (edges.destinations[i] == node) row.push_back(static_cast<std::int64_t>(i));
  return row;
}

std::uint64_t weight(const TypedEdges& edges, const WalkOptions& walk, std::int64_t before,
                     std::int64_t node) {
  const double largest = std::max({1 / walk.p, 1.0, 1 / walk.q});
  const auto scaled = [&](double w) {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(w / largest * 4294967296.0));
  };
  if (node == before) return scaled(1 / walk.p);
  const Ints row = row_of(edges, before);
  const bool near =
      std::any_of(row.begin(), row.end(), [&](std::int64_t e) { return edges.sources[e] == node; });
  return near ? scaled(1) : scaled(1 / walk.q);
}

NodeStream stream_of(const BatchKey& key, std::uint32_t step, std::size_t edge_type, std::int64_t at,
                     std::uint32_t number) {
  return node_stream({.purpose = Purpose::kWalks,
                      .seed = key.seed,
                      .epoch = key.epoch,
                      .first = key.first,
                      .hop = step,
                      .edge_type = static_cast<std::uint32_t>(edge_type)})
      .of(static_cast<std::uint64_t>(at), number);
}

/// Proposals that are accepted by their weight, and behind so many a draw from the sums.
std::int64_t pick(const NodeStream& stream, const TypedEdges& edges, const Ints& row, const WalkOptions& walk,
                  std::int64_t before) {
  const bool biased = (walk.p != 1 || walk.q != 1) && before >= 0;
  for (std::uint32_t a = 0; a < WalkSampler::kMaxProposals; ++a) {
    const RandomWords words = stream.words(a);
    const std::int64_t edge =
        row[draw_below(stream, a, words.word[0], static_cast<std::uint32_t>(row.size()))];
    if (!biased || words.word[2] < weight(edges, walk, before, edges.sources[edge])) return edge;
  }
  std::uint64_t sum = 0;
  for (const std::int64_t edge : row) sum += weight(edges, walk, before, edges.sources[edge]);
  std::uint64_t drawn = draw_below_wide(stream, WalkSampler::kMaxProposals, sum);
  for (const std::int64_t edge : row) {
    const std::uint64_t here = weight(edges, walk, before, edges.sources[edge]);
    if (drawn < here) return edge;
    drawn -= here;
  }
  return -1;
}

/// Absent edges end nowhere.
std::vector<TypedEdges> without(std::vector<TypedEdges> types, const AbsentEdges& absent) {
  for (std::size_t e = 0; e < types.size(); ++e) {
    TypedEdges& edges = types[e];
    for (std::size_t i = 0; i < edges.destinations.size(); ++i)
      if (absent.contains({static_cast<std::int64_t>(e), edges.sources[i], edges.destinations[i]}))
        edges.destinations[i] = -1;
  }
  return types;
}

}  // namespace

std::vector<std::size_t> walk_types(const TypedGraph& graph, const WalkOptions& walk) {
  std::vector<std::size_t> types;
  for (std::int64_t s = 0; s < walk.length; ++s) {
    std::size_t type = 0;
    if (!walk.metapath.empty()) {
      const std::string& name = walk.metapath[static_cast<std::size_t>(s) % walk.metapath.size()];
      while (graph.edges[type].rel != name) ++type;
    }
    types.push_back(type);
  }
  return types;
}

std::vector<std::int64_t> serial_walk(const TypedGraph& graph, const WalkStart& start,
                                      const WalkOptions& walk, const BatchKey& key,
                                      const AbsentEdges& absent) {
  const std::vector<TypedEdges> left = without(graph.edges, absent);
  Ints way;
  std::int64_t at = start.node, before = -1;
  for (const std::size_t type : walk_types(graph, walk)) {
    const TypedEdges& edges = left[type];
    const Ints row = at < 0 ? Ints{} : row_of(edges, at);
    if (row.empty()) {
      at = -1;
      way.push_back(-1);
      continue;
    }
    const auto step = static_cast<std::uint32_t>(way.size());
    way.push_back(pick(stream_of(key, step, type, at, start.number), edges, row, walk, before));
    before = at;
    at = edges.sources[way.back()];
  }
  return way;
}

}  // namespace hopfeed::testing
