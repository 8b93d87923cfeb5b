// See serial_sampler.h.
#include "bench/core/serial_sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "bench/core/serial_draws.h"
#include "core/base/error.h"
#include "core/sampler/row_reader.h"

namespace hopfeed::bench {
namespace {

using Ints = std::vector<std::int64_t>;

enum Purpose : std::uint32_t { kNeighbors = 1, kWalks = 2, kLabor = 8 };

struct SerialNodes {
  Ints ids, trees, per_hop;
  std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> local;  // {tree, dataset id}
};
struct SerialEdges {
  Ints sources, targets, edge_ids, per_hop;
};

struct SerialSample {
  std::vector<SerialNodes> nodes;  // per type
  std::vector<SerialEdges> edges;
  Ints walks;  // [walks, length + 1] local ids
};

class SerialSampler {
 public:
  SerialSampler(const Dataset& dataset, const BatchOptions& options, const SampleRequest& request)
      : dataset_(dataset),
        options_(options),
        request_(request),
        out_{.nodes = std::vector<SerialNodes>(static_cast<std::size_t>(dataset.num_node_types())),
             .edges = std::vector<SerialEdges>(static_cast<std::size_t>(dataset.num_edge_types())),
             .walks = {}} {
    for (int e = 0; e < dataset.num_edge_types(); ++e) readers_.emplace_back(dataset, e);
    std::int64_t tree = 0;
    for (const TypedSeeds& entry : request.seeds) {
      for (std::size_t i = 0; i < entry.ids.size(); ++i, ++tree) {
        starts_.push_back(local_id(entry.node_type, options.trees() ? tree : 0, entry.ids[i]));
        if (!entry.times.empty()) seed_times_.push_back(entry.times[i]);
      }
    }
    end_hop();
  }

  const SerialSample& sample() {
    const bool walking = options_.sampler == BatchOptions::kWalkSampler;
    if ((!walking && options_.sampler != BatchOptions::kNeighborSampler) || !options_.edge_fanouts.empty() ||
        options_.walk.p != 1 || options_.walk.q != 1 || (request_.excluded && !draws_uniformly()))
      throw Error(ErrorCode::kUnsupported,
                  "there is no serial sampler of these options: " + options_.to_json());
    if (walking)
      walk();
    else
      for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop) expand(hop);
    if (options_.subgraph == Subgraph::kInduced) induce();
    return out_;
  }

 private:
  bool draws_uniformly() const {
    return options_.sampler == BatchOptions::kNeighborSampler && options_.weight.empty() &&
           options_.time.empty() && !options_.labor && options_.subgraph == Subgraph::kDirectional;
  }

  std::uint32_t local_id(int type, std::int64_t tree, std::int64_t node) {
    SerialNodes& of_type = out_.nodes[static_cast<std::size_t>(type)];
    const auto [entry, is_new] =
        of_type.local.try_emplace({tree, node}, static_cast<std::uint32_t>(of_type.ids.size()));
    if (is_new) {
      of_type.ids.push_back(node);
      of_type.trees.push_back(tree);
    }
    return entry->second;
  }

  // Counts what came since the hop before.
  void end_hop() {
    const auto count = [](const Ints& items, Ints& per_hop) {
      std::int64_t before = 0;
      for (std::int64_t n : per_hop) before += n;
      per_hop.push_back(std::ssize(items) - before);
    };
    const bool seeds = out_.nodes[0].per_hop.empty();
    for (SerialNodes& type : out_.nodes) count(type.ids, type.per_hop);
    if (seeds) return;
    for (SerialEdges& type : out_.edges) count(type.sources, type.per_hop);
  }

  void add_edge(std::size_t e, std::uint32_t target, std::int64_t tree, const Row& row, std::uint64_t i) {
    SerialEdges& out = out_.edges[e];
    out.sources.push_back(local_id(readers_[e].csc().src_type, tree, readers_[e].neighbor(row, i)));
    out.targets.push_back(target);
    if (options_.edge_ids) out.edge_ids.push_back(row.edge_id(i));
  }

  void expand(std::size_t hop) {
    std::vector<std::size_t> ends;
    for (const SerialNodes& type : out_.nodes) ends.push_back(type.ids.size());
    for (std::size_t e = 0; e < out_.edges.size(); ++e) {
      const auto dst = static_cast<std::size_t>(readers_[e].csc().dst_type);
      const std::size_t end = ends[dst],
                        begin = end - static_cast<std::size_t>(out_.nodes[dst].per_hop.back());
      for (std::size_t target = begin; target < end; ++target) {
        const std::int64_t tree = out_.nodes[dst].trees[target];
        const Row row = readers_[e].row(out_.nodes[dst].ids[target]);
        for (std::uint64_t i : pick(e, hop, row, tree, out_.nodes[dst].ids[target]))
          add_edge(e, static_cast<std::uint32_t>(target), tree, row, i);
      }
    }
    end_hop();
  }

  SerialStream stream(std::uint32_t purpose, std::size_t e, std::size_t hop, std::int64_t first) const {
    return SerialStream({.purpose = purpose,
                         .hop = static_cast<std::uint32_t>(hop),
                         .edge_type = static_cast<std::uint32_t>(e),
                         .seed = request_.key.seed,
                         .epoch = request_.key.epoch,
                         .first = first});
  }

  Positions pick(std::size_t e, std::size_t hop, const Row& row, std::int64_t tree, std::int64_t node) const {
    const std::int64_t fanout = options_.fanouts[hop], first = request_.key.first;
    if (options_.labor) {
      const std::int64_t shared = options_.labor_seeds > 0 ? first / options_.labor_seeds : first;
      return draw_by_source(stream(kLabor, e, hop / 4, shared), hop, original_sources(e, row), fanout);
    }
    const SerialStream draws = stream(kNeighbors, e, hop, first).of(row.original_id, tree);
    if (!options_.weight.empty()) {
      const std::vector<AliasEntry> table = alias_table(e, row);
      return draw_by_weight(draws, table, fanout, options_.replace);
    }
    if (options_.time.empty()) {
      const Positions left = left_of(e, row, node);
      Positions picks;
      for (const std::uint64_t i : draw_uniformly(draws, left.size(), fanout, options_.replace))
        picks.push_back(left[i]);
      return picks;
    }
    const Positions past =
        of_the_past(times(e, row), seed_times_[static_cast<std::size_t>(tree)], options_.time_window);
    if (options_.temporal_strategy == TemporalStrategy::kLast)
      return takes_all(past.size(), fanout, options_.replace) ? past
                                                              : Positions(past.end() - fanout, past.end());
    Positions picks;
    for (std::uint64_t i : draw_uniformly(draws, past.size(), fanout, options_.replace))
      picks.push_back(past[i]);
    return picks;
  }

  // All of a row but what is excluded.
  Positions left_of(std::size_t e, const Row& row, std::int64_t node) const {
    Positions left;
    for (std::uint64_t i = 0; i < row.degree; ++i)
      if (!request_.excluded ||
          !request_.excluded->contains(static_cast<int>(e), readers_[e].neighbor(row, i), node))
        left.push_back(i);
    return left;
  }

  Ints original_sources(std::size_t e, const Row& row) const {
    Ints ids;
    for (std::uint64_t i = 0; i < row.degree; ++i)
      ids.push_back(dataset_.original_id(readers_[e].csc().src_type, readers_[e].neighbor(row, i)));
    return ids;
  }

  std::vector<AliasEntry> alias_table(std::size_t e, const Row& row) const {
    const CscView& csc = readers_[e].csc();
    std::size_t part = csc.parts.size() - 1;
    while (csc.parts[part].first_edge > row.position(0)) --part;
    const AliasTableView table = dataset_.weight(static_cast<int>(e), options_.weight)
                                     .table(part, row.position(0) - csc.parts[part].first_edge, row.degree);
    std::vector<AliasEntry> entries;
    for (std::size_t i = 0; i < table.count; ++i) entries.push_back(table[i]);
    return entries;
  }

  // The times of a row's edges, or of their sources where the time is not an edge's.
  Ints times(std::size_t e, const Row& row) const {
    const auto& attrs = dataset_.meta().edge_types[e].attrs;
    const bool of_edges = find_attr(attrs, options_.time) != nullptr;
    const AttrView view = of_edges ? dataset_.edge_attr(static_cast<int>(e), options_.time)
                                   : dataset_.attr(readers_[e].csc().src_type, options_.time);
    Ints times;
    for (std::uint64_t i = 0; i < row.degree; ++i) {
      const std::int64_t item = of_edges ? row.position(i) : readers_[e].neighbor(row, i);
      const auto part = static_cast<std::size_t>(partition_of(view.partition_offsets, item));
      times.push_back(*reinterpret_cast<const std::int64_t*>(
          view.parts[part] + (item - view.partition_offsets[part]) * view.stride_bytes));
    }
    return times;
  }

  // All edges between the nodes, in place of those that were drawn.
  void induce() {
    for (SerialNodes& type : out_.nodes) type.per_hop = {std::ssize(type.ids)};
    for (std::size_t e = 0; e < out_.edges.size(); ++e) {
      out_.edges[e] = {};
      const SerialNodes& sources = out_.nodes[static_cast<std::size_t>(readers_[e].csc().src_type)];
      const Ints targets = out_.nodes[static_cast<std::size_t>(readers_[e].csc().dst_type)].ids;
      for (std::size_t target = 0; target < targets.size(); ++target) {
        const Row row = readers_[e].row(targets[target]);
        for (std::uint64_t i = 0; i < row.degree; ++i)
          if (sources.local.contains({0, readers_[e].neighbor(row, i)}))
            add_edge(e, static_cast<std::uint32_t>(target), 0, row, i);
      }
    }
  }

  // Edges of the first type from `begin` on, those of one destination together.
  void group_by_target(std::size_t begin) {
    SerialEdges& type = out_.edges[0];
    std::vector<std::size_t> order(type.targets.size() - begin);
    std::iota(order.begin(), order.end(), begin);
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return type.targets[i]; });
    for (Ints* list : {&type.sources, &type.targets, &type.edge_ids}) {
      if (list->empty()) continue;  // no edge ids were asked for
      Ints grouped;
      for (std::size_t i : order) grouped.push_back((*list)[i]);
      std::ranges::copy(grouped, list->begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }

  // Uniform walks by the first edge type.
  void walk() {
    const std::size_t per_seed = static_cast<std::size_t>(options_.walk.per_seed),
                      count = starts_.size() * per_seed,
                      width = static_cast<std::size_t>(options_.walk.length) + 1;
    out_.walks.assign(count * width, -1);
    Ints at(count);
    for (std::size_t w = 0; w < count; ++w) {
      out_.walks[w * width] = starts_[w / per_seed];
      at[w] = out_.nodes[static_cast<std::size_t>(readers_[0].csc().dst_type)]
                  .ids[static_cast<std::size_t>(starts_[w / per_seed])];
    }
    for (std::size_t step = 0; step + 1 < width; ++step) {
      const SerialStream draws = stream(kWalks, 0, step, request_.key.first);
      const std::size_t begin = out_.edges[0].targets.size();
      for (std::size_t w = 0; w < count; ++w) {
        if (at[w] < 0) continue;
        const Row row = readers_[0].row(at[w]);
        at[w] = -1;
        if (row.degree == 0) continue;
        const std::uint64_t i =
            draw_uniformly(draws.of(row.original_id, static_cast<std::int64_t>(w)), row.degree, 1, true)[0];
        at[w] = readers_[0].neighbor(row, i);
        add_edge(0, static_cast<std::uint32_t>(out_.walks[w * width + step]), 0, row, i);
        out_.walks[w * width + step + 1] = local_id(readers_[0].csc().src_type, 0, at[w]);
      }
      group_by_target(begin);
      end_hop();
    }
  }

  const Dataset& dataset_;
  const BatchOptions& options_;
  const SampleRequest& request_;
  Ints starts_, seed_times_;        // of each seed: its local id, and its time where it has one
  std::vector<RowReader> readers_;  // per edge type
  SerialSample out_;
};

// The destination of each edge, which a sample has as counts or as they are.
Ints targets_of(const SampledEdges& edges) {
  Ints targets(edges.targets.begin(), edges.targets.end());
  for (std::size_t i = 0; i < edges.per_dst.size(); ++i)
    targets.insert(targets.end(), edges.per_dst[i], static_cast<std::int64_t>(i));
  return targets;
}

template <class A, class B>
void expect_same(const A& expected, const B& found, const char* what) {
  if (!std::ranges::equal(expected, found))
    throw Error(ErrorCode::kCorrupt,
                std::string("the sampler's ") + what + " differ from the serial sampler's");
}

}  // namespace

void verify_sample(const Dataset& dataset, const BatchOptions& options, const SampleRequest& request,
                   const Sample& sample) {
  SerialSampler sampler(dataset, options, request);
  const SerialSample& serial = sampler.sample();
  for (std::size_t t = 0; t < serial.nodes.size(); ++t) {
    expect_same(serial.nodes[t].ids, sample.nodes[t].dataset_ids, "nodes");
    expect_same(serial.nodes[t].per_hop, sample.nodes[t].per_hop, "nodes per hop");
    if (options.trees()) expect_same(serial.nodes[t].trees, sample.nodes[t].trees, "trees");
  }
  for (std::size_t e = 0; e < serial.edges.size(); ++e) {
    expect_same(serial.edges[e].sources, sample.edges[e].sources, "sources");
    expect_same(serial.edges[e].targets, targets_of(sample.edges[e]), "destinations");
    expect_same(serial.edges[e].edge_ids, sample.edges[e].edge_ids, "edge ids");
    expect_same(serial.edges[e].per_hop, sample.edges[e].per_hop, "edges per hop");
  }
  if (!serial.walks.empty()) expect_same(serial.walks, sample.arrays.at(0).values, "walks");
}

}  // namespace hopfeed::bench
