// See typed_oracle.h.
#include "tests/oracle/typed_oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "core/dataset/alias_table.h"
#include "core/draws/keyed_random.h"
#include "core/draws/labor_rule.h"
#include "core/draws/weighted_rule.h"
#include "tests/oracle/walk_oracle.h"
#include "tests/support/made_batch.h"

namespace hopfeed::testing {
namespace {

using Ints = TypedBatch::Ints;

// Floyd's algorithm (or plain draws) literally; positions below `size`.
Ints draw_uniform(const NodeStream& stream, std::int64_t size, std::int64_t fanout, bool replace) {
  Ints picks;
  std::set<std::int64_t> taken;
  for (std::int64_t j = 0; j < fanout; ++j) {
    const auto bound = static_cast<std::uint32_t>(replace ? size : size - fanout + j + 1);
    std::int64_t c = draw_below(stream, static_cast<std::uint32_t>(j),
                                stream.words(static_cast<std::uint32_t>(j / 4)).word[j % 4], bound);
    if (!replace && taken.count(c)) c = size - fanout + j;
    taken.insert(c);
    picks.push_back(c);
  }
  return picks;
}

// The weights as the integers of an alias table, and draws that walk them.
Ints draw_weighted(const NodeStream& stream, const std::vector<double>& weights, std::int64_t fanout,
                   bool replace) {
  std::vector<AliasEntry> table(weights.size());
  AliasBuilder().build(weights, table);
  Ints picks;
  const auto draw = [&](std::uint32_t t) {
    const AliasDraw made = alias_draw(stream, t, static_cast<std::uint32_t>(table.size()));
    return std::int64_t{alias_position(made, table[made.column])};
  };
  if (replace) {
    for (std::int64_t t = 0; t < fanout; ++t) picks.push_back(draw(static_cast<std::uint32_t>(t)));
    return picks;
  }
  const std::uint32_t attempts = max_attempts(static_cast<std::uint32_t>(fanout));
  for (std::uint32_t t = 0; t < attempts && std::ssize(picks) < fanout; ++t) {
    const std::int64_t pick = draw(t);
    if (std::find(picks.begin(), picks.end(), pick) == picks.end()) picks.push_back(pick);
  }
  std::vector<std::uint64_t> left(table.size());
  alias_weights(table, left.data());
  for (std::int64_t pick : picks) left[pick] = 0;
  for (std::uint32_t t = attempts; std::ssize(picks) < fanout; ++t) {
    std::uint64_t total = 0;
    for (std::uint64_t weight : left) total += weight;
    if (total == 0) break;
    std::uint64_t at = draw_below_wide(stream, t, total);
    std::int64_t pick = 0;
    while (at >= left[pick]) at -= left[pick++];
    left[pick] = 0;
    picks.push_back(pick);
  }
  return picks;
}

// One sample under way.
class Sampling {
 public:
  Sampling(const TypedGraph& graph, const BatchOptions& options, const BatchKey& key,
           const AbsentEdges& absent)
      : graph_(graph), options_(options), key_(key), absent_(absent), local_(graph.nodes.size()) {
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
      const TypedEdges& edges = graph.edges[e];
      rows_.emplace_back(static_cast<std::size_t>(graph.nodes[graph.node_type(edges.dst)].count));
      for (std::size_t i = 0; i < edges.destinations.size(); ++i)
        if (!absent.contains({static_cast<std::int64_t>(e), edges.sources[i], edges.destinations[i]}))
          rows_[e][edges.destinations[i]].push_back(static_cast<std::int64_t>(i));
    }
    out_.n_id.resize(graph.nodes.size());
    out_.batch.resize(graph.nodes.size());
    out_.nodes_per_hop.resize(graph.nodes.size());
    for (auto* list : {&out_.sources, &out_.targets, &out_.e_id, &out_.edges_per_hop})
      list->resize(graph.edges.size());
  }

  TypedBatch run(const std::vector<SerialSeeds>& seeds) {
    for (const SerialSeeds& entry : seeds) {
      for (const std::int64_t seed : entry.ids)
        out_.seed_index.push_back(local_id(entry.node_type, tree_of(out_.seed_index.size()), seed));
      out_.seed_time.insert(out_.seed_time.end(), entry.times.begin(), entry.times.end());
    }
    for (std::size_t t = 0; t < graph_.nodes.size(); ++t)
      out_.nodes_per_hop[t].push_back(std::ssize(out_.n_id[t]));
    if (options_.sampler == BatchOptions::kWalkSampler)
      walk(seeds.at(0).ids);
    else if (options_.sampler == BatchOptions::kClusterSampler)
      add_clusters(seeds);
    else
      run_hops();
    if (options_.subgraph == Subgraph::kInduced) induce();
    if (options_.subgraph == Subgraph::kBidirectional) reverse_all();
    return out_;
  }

 private:
  std::int64_t tree_of(std::size_t i) const { return options_.trees() ? static_cast<std::int64_t>(i) : 0; }

  void run_hops() {
    std::vector<std::size_t> begin(graph_.nodes.size(), 0);
    for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
      std::vector<std::size_t> end;
      for (const Ints& nodes : out_.n_id) end.push_back(nodes.size());
      for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
        const int dst = graph_.node_type(graph_.edges[e].dst);
        for (std::size_t i = begin[dst]; i < end[dst]; ++i) expand(e, hop, dst, static_cast<std::int64_t>(i));
      }
      end_hop();
      begin = end;
    }
  }

  // Step by step, all walks in turn; a hop's edges by destination.
  void walk(const Ints& seeds) {
    const auto per_seed = static_cast<std::size_t>(options_.walk.per_seed), walks = seeds.size() * per_seed,
               width = static_cast<std::size_t>(options_.walk.length) + 1;
    std::vector<Ints> ways;
    out_.walks.assign(walks * width, -1);
    for (std::size_t w = 0; w < walks; ++w) {
      ways.push_back(serial_walk(graph_, {seeds[w / per_seed], static_cast<std::uint32_t>(w)}, options_.walk,
                                 key_, absent_));
      out_.walks[w * width] = out_.seed_index[w / per_seed];
    }
    const std::vector<std::size_t> types = walk_types(graph_, options_.walk);
    for (std::size_t step = 0; step < types.size(); ++step) {
      const std::size_t e = types[step];
      std::vector<std::array<std::int64_t, 3>> hop;  // target, source, edge
      for (std::size_t w = 0; w < walks; ++w) {
        const std::int64_t edge = ways[w][step];
        if (edge < 0) continue;
        const std::int64_t source =
            local_id(graph_.node_type(graph_.edges[e].src), 0, graph_.edges[e].sources[edge]);
        hop.push_back({out_.walks[w * width + step], source, edge});
        out_.walks[w * width + step + 1] = source;
      }
      std::stable_sort(hop.begin(), hop.end(), [](const auto& a, const auto& b) { return a[0] < b[0]; });
      for (const auto& [target, source, edge] : hop) {
        out_.targets[e].push_back(target);
        out_.sources[e].push_back(source);
        out_.e_id[e].push_back(edge);
      }
      end_hop();
    }
  }

  void add_clusters(const std::vector<SerialSeeds>& seeds) {
    for (const SerialSeeds& entry : seeds) {
      const Ints& cluster = graph_.nodes[entry.node_type].y;
      for (const std::int64_t seed : entry.ids)
        for (std::int64_t v = 0; v < std::ssize(cluster); ++v)
          if (cluster[v] == cluster[seed]) local_id(entry.node_type, 0, v);
    }
    end_hop();
  }

  // What came since the last call was one hop.
  void end_hop() {
    const auto tell = [](Ints& per_hop, const Ints& all) {
      per_hop.push_back(std::ssize(all) - std::accumulate(per_hop.begin(), per_hop.end(), std::int64_t{0}));
    };
    for (std::size_t t = 0; t < graph_.nodes.size(); ++t) tell(out_.nodes_per_hop[t], out_.n_id[t]);
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) tell(out_.edges_per_hop[e], out_.sources[e]);
  }

  std::int64_t local_id(int type, std::int64_t tree, std::int64_t node) {
    const auto [it, fresh] = local_[type].insert({{tree, node}, std::ssize(out_.n_id[type])});
    if (fresh) {
      out_.n_id[type].push_back(node);
      out_.batch[type].push_back(tree);
    }
    return it->second;
  }

  // All edges between the nodes, in place of those that were drawn.
  void induce() {
    for (std::size_t t = 0; t < graph_.nodes.size(); ++t) out_.nodes_per_hop[t] = {std::ssize(out_.n_id[t])};
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      const TypedEdges& edges = graph_.edges[e];
      for (Ints* list : {&out_.sources[e], &out_.targets[e], &out_.e_id[e], &out_.edges_per_hop[e]})
        list->clear();
      const Ints& targets = out_.n_id[graph_.node_type(edges.dst)];
      const Ints& sources = out_.n_id[graph_.node_type(edges.src)];
      for (std::size_t i = 0; i < targets.size(); ++i) {
        for (const std::int64_t edge : rows_[e][targets[i]]) {
          const auto source = std::find(sources.begin(), sources.end(), edges.sources[edge]);
          if (source == sources.end()) continue;
          out_.sources[e].push_back(source - sources.begin());
          out_.targets[e].push_back(static_cast<std::int64_t>(i));
          out_.e_id[e].push_back(edge);
        }
      }
    }
  }

  // The drawn edges and such reverses as are not absent by (target, source), under the id of the first that
  // was drawn so, or else against it.
  void reverse_all() {
    const auto sources = out_.drawn_sources = out_.sources, targets = out_.drawn_targets = out_.targets,
               ids = out_.e_id;
    for (std::size_t e = 0; e < graph_.edges.size(); ++e) {
      std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> all;
      for (std::size_t i = 0; i < sources[e].size(); ++i)
        all.insert({{targets[e][i], sources[e][i]}, ids[e][i]});
      const auto r = static_cast<std::size_t>(reverse_type(graph_, e));
      const Ints& from = out_.n_id[graph_.node_type(graph_.edges[e].src)];
      const Ints& to = out_.n_id[graph_.node_type(graph_.edges[e].dst)];
      for (std::size_t i = 0; i < sources[r].size(); ++i)
        if (!absent_.contains({static_cast<std::int64_t>(e), from[targets[r][i]], to[sources[r][i]]}))
          all.insert({{sources[r][i], targets[r][i]}, ids[r][i]});
      for (Ints* list : {&out_.sources[e], &out_.targets[e], &out_.e_id[e]}) list->clear();
      for (const auto& [ends, id] : all) {
        out_.targets[e].push_back(ends.first);
        out_.sources[e].push_back(ends.second);
        out_.e_id[e].push_back(id);
      }
    }
  }

  std::int64_t fanout(std::size_t e, std::size_t hop) const {
    const TypedEdges& edges = graph_.edges[e];
    for (const std::string& name : {edges.src + "__" + edges.rel + "__" + edges.dst, edges.rel})
      if (const auto it = options_.edge_fanouts.find(name); it != options_.edge_fanouts.end())
        return it->second[hop];
    return options_.fanouts[hop];
  }

  void expand(std::size_t e, std::size_t hop, int dst, std::int64_t target) {
    const TypedEdges& edges = graph_.edges[e];
    const std::int64_t node = out_.n_id[dst][target], tree = out_.batch[dst][target];
    const Ints& row = rows_[e][node];
    for (std::int64_t position : options_.labor
                                     ? draw_labor(hop, e, row, fanout(e, hop))
                                     : pick(e, row, fanout(e, hop), stream(hop, e, node, tree), tree)) {
      const std::int64_t edge = row[position];
      out_.sources[e].push_back(local_id(graph_.node_type(edges.src), tree, edges.sources[edge]));
      out_.targets[e].push_back(target);
      out_.e_id[e].push_back(edge);
    }
  }

  NodeStream stream(std::size_t hop, std::size_t e, std::int64_t node, std::int64_t tree) const {
    return node_stream({.purpose = Purpose::kNeighbors,
                        .seed = key_.seed,
                        .epoch = key_.epoch,
                        .first = key_.first,
                        .hop = static_cast<std::uint32_t>(hop),
                        .edge_type = static_cast<std::uint32_t>(e)})
        .of(static_cast<std::uint64_t>(node), static_cast<std::uint32_t>(tree));
  }

  // Each edge by the variate of its source, which all destinations of the hop share.
  Ints draw_labor(std::size_t hop, std::size_t e, const Ints& row, std::int64_t fanout) const {
    const NodeStream sources =
        node_stream({.purpose = Purpose::kLabor,
                     .seed = key_.seed,
                     .epoch = key_.epoch,
                     .first = options_.labor_seeds > 0 ? key_.first / options_.labor_seeds : key_.first,
                     .hop = static_cast<std::uint32_t>(hop / kLaborHops),
                     .edge_type = static_cast<std::uint32_t>(e)});
    Ints picks;
    for (std::int64_t i = 0; i < std::ssize(row); ++i) {
      const NodeStream stream = sources.of(static_cast<std::uint64_t>(graph_.edges[e].sources[row[i]]));
      if (fanout < 0 || std::ssize(row) <= fanout ||
          labor_variate(stream, static_cast<std::uint32_t>(hop)) < labor_threshold(fanout, row.size()))
        picks.push_back(i);
    }
    return picks;
  }

  Ints pick(std::size_t e, const Ints& row, std::int64_t fanout, const NodeStream& stream,
            std::int64_t tree) const {
    const TypedEdges& edges = graph_.edges[e];
    const std::int64_t degree = std::ssize(row);
    if (!options_.weight.empty() && !edges.weight.empty()) {
      std::vector<double> weights;
      for (std::int64_t edge : row) weights.push_back(edges.weight[edge]);
      if (std::ranges::none_of(weights, [](double weight) { return weight > 0; })) return {};
      if (fanout < 0 || (!options_.replace && degree <= fanout)) {
        Ints all;
        for (std::int64_t i = 0; i < degree; ++i)
          if (weights[i] > 0) all.push_back(i);
        return all;
      }
      return draw_weighted(stream, weights, fanout, options_.replace);
    }
    Ints candidates;  // positions, in the order that draws index
    for (std::int64_t i = 0; i < degree; ++i) candidates.push_back(i);
    const bool timed = !options_.time.empty() && edges.in_order_of_time;  // others know no time
    if (timed) candidates = of_the_past(e, row, tree);
    const std::int64_t size = std::ssize(candidates);
    if (size == 0 || fanout < 0 || (!options_.replace && size <= fanout)) return candidates;
    if (timed && options_.temporal_strategy == TemporalStrategy::kLast)
      return {candidates.end() - fanout, candidates.end()};
    Ints picks;
    for (std::int64_t i : draw_uniform(stream, size, fanout, options_.replace))
      picks.push_back(candidates[i]);
    return picks;
  }

  Ints of_the_past(std::size_t e, const Ints& row, std::int64_t tree) const {
    const TypedEdges& edges = graph_.edges[e];
    const std::int64_t now = out_.seed_time[tree];
    std::vector<std::pair<std::int64_t, std::int64_t>> valid;  // time, position
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::int64_t time = edges.time.empty()
                                    ? graph_.nodes[graph_.node_type(edges.src)].time[edges.sources[row[i]]]
                                    : edges.time[row[i]];
      if (time <= now && (options_.time_window == 0 || time > now - options_.time_window) &&
          (!options_.time_start || time >= *options_.time_start))
        valid.push_back({time, static_cast<std::int64_t>(i)});
    }
    std::sort(valid.begin(), valid.end());
    Ints positions;
    for (const auto& [time, position] : valid) positions.push_back(position);
    return positions;
  }

  const TypedGraph& graph_;
  const BatchOptions& options_;
  const BatchKey key_;
  const AbsentEdges& absent_;
  std::vector<std::vector<Ints>> rows_;  // [type][destination] its edges in imported order, but absent ones
  std::vector<std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>>
      local_;  // [type] {tree, node} -> local id
  TypedBatch out_;
};

}  // namespace

int reverse_type(const TypedGraph& graph, std::size_t e) {
  const auto reversed = [](const TypedEdges& from, const TypedEdges& to) {
    return to.rel == "rev_" + from.rel && to.src == from.dst && to.dst == from.src;
  };
  for (std::size_t r = 0; r < graph.edges.size(); ++r)
    if (reversed(graph.edges[e], graph.edges[r]) || reversed(graph.edges[r], graph.edges[e]))
      return static_cast<int>(r);
  return graph.edges[e].src == graph.edges[e].dst ? static_cast<int>(e) : -1;
}

TypedBatch serial_sample(const TypedGraph& graph, const std::vector<SerialSeeds>& seeds,
                         const BatchOptions& options, const BatchKey& key, const AbsentEdges& absent) {
  return Sampling(graph, options, key, absent).run(seeds);
}

TypedBatch serial_sample(const TypedGraph& graph, int seed_type, const Ints& seeds,
                         const BatchOptions& options, const BatchKey& key) {
  SerialSeeds entry{.node_type = seed_type, .ids = seeds, .times = {}};
  if (!options.time.empty())
    for (const std::int64_t seed : seeds) entry.times.push_back(graph.nodes[seed_type].time[seed]);
  return serial_sample(graph, {entry}, options, key);
}

}  // namespace hopfeed::testing
