// See neighbor_sampler.h.
#include "core/sampler/neighbor_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <optional>
#include <variant>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/draws/keyed_random.h"
#include "core/pickers/excluded_rows.h"
#include "core/pickers/labor_memory.h"
#include "core/pickers/seed_places.h"
#include "core/relabel/any_relabel.h"
#include "core/sampler/edge_type_plan.h"
#include "core/sampler/expand_hop.h"
#include "core/sampler/row_reader.h"

namespace hopfeed {
namespace {

struct NodeScratch {
  explicit NodeScratch(SamplerRelabel table) : relabel(std::move(table)) {}
  SamplerRelabel relabel;
  LocalNodes local;
  ScratchArray<std::int64_t> original_ids;  // of the expanded nodes
  std::uint32_t expanded = 0;               // their number: nodes that were in a frontier
  std::vector<std::int64_t> per_hop;
  ScratchArray<std::int64_t> nodes, trees;  // what local.ids means in a disjoint batch

  std::size_t bytes() const {
    return local.ids.bytes() + original_ids.bytes() + nodes.bytes() + trees.bytes() +
           std::visit([](const auto& table) { return table.bytes(); }, relabel);
  }
  /// With so many nodes in a batch, and room for `more` that may be new; in trees or not.
  std::size_t max_bytes(std::size_t count, std::size_t more, bool in_trees) const {
    const std::size_t apart = in_trees ? count : 0;
    return LocalNodes::max_bytes(count + more) + decltype(original_ids)::max_bytes(count) +
           decltype(nodes)::max_bytes(apart) + decltype(trees)::max_bytes(apart) +
           std::visit([&](const auto& table) { return table.max_bytes(count + more); }, relabel);
  }
};

}  // namespace

struct NeighborSampler::Impl {
  const Dataset& dataset;
  const BatchOptions options;
  const bool trees;
  int node_bits = 0;  // of an id in a disjoint batch: tree << node_bits | node
  std::vector<EdgeTypePlan> types;
  std::vector<NodeScratch> nodes;
  std::vector<EdgeScratch> edges;
  std::vector<std::vector<std::int64_t>> edges_per_hop;
  ExpandScratch expand_scratch;
  ScratchArray<std::uint32_t> seed_index;
  ScratchArray<std::int64_t> seed_times;  // of each tree
  std::size_t num_seeds = 0;
  std::vector<SeedPlaces> time_places;  // by edge type
  std::optional<LaborMemory> labor;
  ExcludedRows excluded;
  std::vector<std::uint32_t> frontier_end;
  Sample result;

  Impl(const Dataset& data, const BatchOptions& opts) : dataset(data), options(opts), trees(opts.trees()) {
    options.validate();
    for (int t = 0; t < data.num_node_types(); ++t)
      node_bits = std::max(node_bits,
                           static_cast<int>(std::bit_width(static_cast<std::uint64_t>(data.num_nodes(t)))));
    for (int t = 0; t < data.num_node_types(); ++t) nodes.emplace_back(relabel_for(data.num_nodes(t)));
    types = plan_edge_types(data, options);
    if (options.labor) labor.emplace(types.size(), options.fanouts.size());
    edges.resize(types.size());
    time_places.resize(types.size());
    edges_per_hop.resize(types.size());
    result.nodes.resize(nodes.size());
    result.edges.resize(types.size());
  }

  SamplerRelabel relabel_for(std::int64_t num_nodes) const {
    if (!trees)
      return std::visit([]<class Table>(Table&& table) { return SamplerRelabel(std::forward<Table>(table)); },
                        make_relabel(num_nodes));
    // Where two edge types end at a node type, the trees of a frontier come as often as there were ways to
    // it.
    if (dataset.num_edge_types() > 1) return TreeRelabel(num_nodes);
    return OneTreeRelabel(node_bits);
  }

  void begin(const SampleRequest& request) {
    num_seeds = request.num_seeds();
    if (trees && std::bit_width(num_seeds) + node_bits > 63) {
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("a disjoint batch of {} seeds is too large for a graph of this size; lower batch_size",
                      num_seeds));
    }
    for (NodeScratch& type : nodes) {
      type.expanded = 0;
      type.per_hop.clear();
      std::visit([&](auto& relabel) { relabel.begin_batch(type.local); }, type.relabel);
    }
    excluded.begin(request.excluded);
    for (EdgeScratch& type : edges) type.num_edges = 0;
    for (auto& list : edges_per_hop) list.clear();
    seed_index.reserve(num_seeds);
    std::size_t before = 0;
    for (const TypedSeeds& entry : request.seeds) {
      insert_seeds(entry, before);
      before += entry.ids.size();
    }
    for (NodeScratch& t : nodes) t.per_hop.push_back(t.local.count);
    if (options.time.empty()) return;
    seed_times.reserve(num_seeds);
    std::int64_t* times = seed_times.data();
    for (const TypedSeeds& entry : request.seeds) times = std::ranges::copy(entry.times, times).out;
    for (std::size_t t = 0; t < types.size(); ++t)
      if (types[t].time)
        time_places[t].find(types[t].time->bounds, {seed_times.data(), num_seeds}, options.time_window);
  }

  // The first of them is seed `number` of the batch, whose trees count so.
  void insert_seeds(const TypedSeeds& seeds, std::size_t number) {
    NodeScratch& type = nodes[seeds.node_type];
    std::visit(
        [&](auto& relabel) {
          // A few at a time: where each is a tree, each clears a table that has room for all that may still
          // come.
          for (std::size_t begin = 0; begin < seeds.ids.size(); begin += DrawnGroup::kRows) {
            const auto some =
                seeds.ids.subspan(begin, std::min<std::size_t>(DrawnGroup::kRows, seeds.ids.size() - begin));
            relabel.make_room(type.local, some.size());
            typename std::decay_t<decltype(relabel)>::Inserter inserter(relabel, type.local,
                                                                        seed_index.data());
            std::uint64_t at = number + begin;
            for (const std::int64_t seed : some) {
              inserter.insert((trees ? at << node_bits : 0) | static_cast<std::uint64_t>(seed), at);
              ++at;
            }
            inserter.close();
          }
        },
        type.relabel);
  }

  void run_hop(const SampleRequest& request, std::size_t hop) {
    // Frontiers are fixed before any edge type adds to them.
    frontier_end.clear();
    for (const NodeScratch& type : nodes) frontier_end.push_back(type.local.count);
    for (std::size_t e = 0; e < types.size(); ++e) {
      const std::size_t before = edges[e].num_edges;
      expand(request, hop, e);
      edges_per_hop[e].push_back(static_cast<std::int64_t>(edges[e].num_edges - before));
    }
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      nodes[t].expanded = frontier_end[t];
      nodes[t].per_hop.push_back(nodes[t].local.count - frontier_end[t]);
    }
  }

  NodeStream stream_of(const SampleRequest& request, std::size_t hop, std::size_t edge_type) const {
    const std::int64_t first = request.key.first;
    return node_stream({.purpose = options.labor ? Purpose::kLabor : Purpose::kNeighbors,
                        .seed = request.key.seed,
                        .epoch = request.key.epoch,
                        .first = options.labor_seeds > 0 ? first / options.labor_seeds : first,
                        .hop = static_cast<std::uint32_t>(options.labor ? hop / kLaborHops : hop),
                        .edge_type = static_cast<std::uint32_t>(edge_type)});
  }

  void expand(const SampleRequest& request, std::size_t hop, std::size_t edge_type) {
    const EdgeTypePlan& type = types[edge_type];
    const PickOptions pick{.fanout = type.fanouts[hop],
                           .replace = options.replace,
                           .stream = stream_of(request, hop, edge_type)};
    PickScratch& scratch = expand_scratch.picks;
    try {
      if (options.labor) {
        expand_with(edge_type, LaborPicker(pick, static_cast<std::uint32_t>(hop), dataset, type.csc,
                                           labor_tables(request, hop, edge_type, pick), scratch));
      } else if (type.weight) {
        expand_with(edge_type,
                    WeightedPicker(pick, *type.weight, element_bytes(type.csc.index_type), scratch));
      } else if (type.time) {
        const SeedPlaces& places = time_places[edge_type];
        expand_with(edge_type, TemporalPicker(pick,
                                              {.time = *type.time,
                                               .ends = places.ends(),
                                               .begins = places.begins(),
                                               .strategy = options.temporal_strategy,
                                               .index_bytes = element_bytes(type.csc.index_type),
                                               .positions = options.edge_ids || type.positions},
                                              scratch));
      } else {
        expand_with(edge_type, UniformPicker(pick, scratch));
      }
    } catch (const DamagedRow& damage) {
      throw damage_error(dataset, static_cast<int>(edge_type), damage);
    }
  }

  LaborTables labor_tables(const SampleRequest& request, std::size_t hop, std::size_t edge_type,
                           const PickOptions& pick) {
    if (pick.fanout <= 0) return {};  // nothing is drawn
    const CscView& csc = types[edge_type].csc;
    // The seeds' rows are their own batch's, and a row with excluded edges takes others in each batch.
    const bool keep =
        options.labor_seeds > request.key.count && hop > 0 && !excluded.any(static_cast<int>(edge_type));
    return labor->of(dataset, csc,
                     {.edge_type = edge_type,
                      .number = hop,
                      .key = pick.stream.key,
                      .looks = neighbors_up_to(LaborMemory::looks_that_matter(csc), edge_type),
                      .keep = keep});
  }

  /// Of the rows to expand; not counted on from where they are as many as `enough`.
  std::uint64_t neighbors_up_to(std::uint64_t enough, std::size_t edge_type) const {
    const int dst = types[edge_type].csc.dst_type;
    const RowReader reader(dataset, static_cast<int>(edge_type));
    const std::int64_t* ids = nodes[dst].local.ids.data();
    std::uint64_t sum = 0;
    for (std::uint32_t i = nodes[dst].expanded; i < frontier_end[dst] && sum < enough; ++i)
      sum += reader.row(ids[i]).degree;
    return sum;
  }

  template <class Picker>
  void expand_with(std::size_t edge_type, const Picker& picker) {
    const EdgeTypePlan& type = types[edge_type];
    NodeScratch &dst = nodes[type.csc.dst_type], &src = nodes[type.csc.src_type];
    const ExpandEnds ends{.csc = type.csc,
                          .dst = dst.local,
                          .dst_original_ids = dst.original_ids,
                          .src = src.local,
                          .edges = edges[edge_type]};
    const ExpandOptions expand_options{
        .edge_ids = options.edge_ids, .positions = type.positions, .node_bits = node_bits};
    const HopRows rows{.ends = ends,
                       .options = expand_options,
                       .relabel = src.relabel,
                       .scratch = expand_scratch,
                       .lo = dst.expanded,
                       .hi = frontier_end[type.csc.dst_type]};
    if (excluded.any(static_cast<int>(edge_type)))
      expand_hop(rows, ExcludingPicker<Picker>(picker, {.rows = excluded,
                                                        .edge_type = static_cast<int>(edge_type),
                                                        .index_type = type.csc.index_type,
                                                        .weights = type.weights ? &*type.weights : nullptr}));
    else
      expand_hop(rows, picker);
  }

  const Sample& finish() {
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      NodeScratch& type = nodes[t];
      if (trees) take_ids_apart(type);
      result.nodes[t] = {.dataset_ids = {trees ? type.nodes.data() : type.local.ids.data(), type.local.count},
                         .original_ids = {type.original_ids.data(), has_rows(t) ? type.expanded : 0},
                         .per_hop = type.per_hop,
                         .trees = {type.trees.data(), trees ? type.local.count : 0}};
    }
    for (std::size_t e = 0; e < types.size(); ++e) {
      result.edges[e] = {
          .sources = {edges[e].sources.data(), edges[e].num_edges},
          .per_dst = {edges[e].per_dst.data(), nodes[types[e].csc.dst_type].expanded},
          .targets = {},
          .edge_ids = {edges[e].edge_ids.data(), options.edge_ids ? edges[e].num_edges : 0},
          .positions = {edges[e].positions.data(), types[e].positions ? edges[e].num_edges : 0},
          .per_hop = edges_per_hop[e]};
    }
    result.num_seeds = 0;
    for (const NodeScratch& type : nodes) result.num_seeds += type.per_hop[0];
    const bool repeats = static_cast<std::size_t>(result.num_seeds) < num_seeds;
    result.seed_index = {seed_index.data(), repeats ? num_seeds : 0};
    return result;
  }

  void take_ids_apart(NodeScratch& type) const {
    type.nodes.reserve(type.local.count);
    type.trees.reserve(type.local.count);
    const std::int64_t mask = (std::int64_t{1} << node_bits) - 1;
    for (std::uint32_t i = 0; i < type.local.count; ++i) {
      type.nodes[i] = type.local.ids[i] & mask;
      type.trees[i] = type.local.ids[i] >> node_bits;
    }
  }

  // Edges of one type that destinations expanded together give at most, of `all` in a batch. Layer-dependent
  // draws look at rows from end to end.
  std::size_t most_in_group(std::size_t e, std::size_t all) const {
    const std::vector<std::int64_t>& fanouts = types[e].fanouts;
    if (fanouts.empty()) return 0;
    const auto [least, most] = std::ranges::minmax(fanouts);
    std::size_t row = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
    if (least < 0 || options.labor)
      row = std::max(row, RowReader(dataset, static_cast<int>(e)).greatest_degree());
    return std::min(DrawnGroup::kRows * row, all);
  }

  // What the picker of expand() takes.
  PickScratch::Most most_of_picker(std::size_t e, std::size_t group) const {
    PickBounds bounds{.group = group, .fanout = 0, .replace = options.replace, .longest_row = [this, e] {
                        return RowReader(dataset, static_cast<int>(e)).greatest_degree();
                      }};
    for (const std::int64_t fanout : types[e].fanouts)
      if (fanout > 0) bounds.fanout = std::max(bounds.fanout, static_cast<std::size_t>(fanout));
    if (options.labor) return LaborPicker::most_scratch(bounds);
    if (types[e].weight) return WeightedPicker::most_scratch(bounds);
    if (types[e].time) return TemporalPicker::most_scratch(bounds);
    return UniformPicker::most_scratch(bounds);
  }

  // Node types that no edge ends at are expanded without rows, so nothing read their original ids.
  bool has_rows(std::size_t node_type) const {
    return dataset.meta().has_rows(dataset.meta().node_types[node_type]);
  }
};

NeighborSampler::NeighborSampler(const Dataset& dataset, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(dataset, options)) {}
NeighborSampler::~NeighborSampler() = default;

const Sample& NeighborSampler::sample(const SampleRequest& request) {
  impl_->begin(request);
  for (std::size_t hop = 0; hop < impl_->options.fanouts.size(); ++hop) impl_->run_hop(request, hop);
  return impl_->finish();
}

std::size_t NeighborSampler::scratch_bytes() const {
  const Impl& s = *impl_;
  std::size_t bytes = s.seed_index.bytes() + s.seed_times.bytes();
  for (const SeedPlaces& places : s.time_places) bytes += places.bytes();
  if (s.labor) bytes += s.labor->scratch_bytes();
  bytes += s.expand_scratch.bytes() + s.excluded.bytes();
  for (const EdgeScratch& edge : s.edges) bytes += edge.bytes();
  for (const NodeScratch& node : s.nodes) bytes += node.bytes();
  return bytes;
}

std::size_t NeighborSampler::later_table_bytes() const {
  const Impl& s = *impl_;
  return s.labor ? LaborMemory::max_scratch_bytes(s.dataset, num_hops(), s.options.labor_seeds > 0) : 0;
}

std::size_t NeighborSampler::max_scratch_bytes(SeedCounts seeds) const {
  const SampleBounds bounds = this->bounds(seeds);
  const Impl& s = *impl_;
  const auto num_seeds = static_cast<std::size_t>(bounds.seeds);
  std::size_t bytes = decltype(s.seed_index)::max_bytes(num_seeds) +
                      decltype(s.seed_times)::max_bytes(num_seeds) + later_table_bytes();
  std::size_t largest_group = 0;  // edges of destinations that are expanded together
  ExpandOptions of_any{.edge_ids = s.options.edge_ids};
  PickScratch::Most picks;
  for (std::size_t e = 0; e < s.edges.size(); ++e) {
    const auto edges = static_cast<std::size_t>(bounds.edges[e]);
    const auto destinations = static_cast<std::size_t>(bounds.nodes[s.types[e].csc.dst_type]);
    const std::size_t group = s.most_in_group(e, edges);
    largest_group = std::max(largest_group, group);
    picks.cover(s.most_of_picker(e, group));
    of_any.positions |= s.types[e].positions;
    bytes += EdgeScratch::max_bytes(edges, destinations,
                                    {.edge_ids = s.options.edge_ids, .positions = s.types[e].positions});
    if (s.types[e].time) bytes += SeedPlaces::max_bytes(num_seeds, s.options.time_window);
  }
  bytes += ExpandScratch::max_bytes(largest_group, of_any, s.trees, picks);
  if (s.options.link.excludes()) {
    ExcludedRows::Most most = most_excluded(s.dataset, num_seeds, DrawnGroup::kRows);
    most.weighted = !s.options.weight.empty();
    bytes += ExcludedRows::max_bytes(most);
  }
  for (std::size_t t = 0; t < s.nodes.size(); ++t)
    bytes += s.nodes[t].max_bytes(static_cast<std::size_t>(bounds.nodes[t]), largest_group, s.trees);
  return bytes;
}

std::size_t NeighborSampler::num_hops() const { return impl_->options.fanouts.size(); }

SampleBounds NeighborSampler::bounds(SeedCounts seeds) const {
  const Impl& s = *impl_;
  const std::int64_t trees = s.trees ? total_of(seeds) : 1;
  const auto all_nodes = [&](std::size_t t) {
    return saturating_product(s.dataset.num_nodes(static_cast<int>(t)), trees);
  };
  std::vector<std::int64_t> frontier(s.nodes.size(), 0);
  for (const auto& [type, count] : seeds)
    frontier[type] = std::min(saturating_sum(frontier[type], count), all_nodes(type));
  SampleBounds bounds{.nodes = frontier,
                      .edges = std::vector<std::int64_t>(s.types.size(), 0),
                      .seeds = total_of(seeds),
                      .arrays = {}};
  for (std::size_t hop = 0; hop < s.options.fanouts.size(); ++hop) {
    std::vector<std::int64_t> next(frontier.size(), 0);
    for (std::size_t e = 0; e < s.types.size(); ++e) {
      const CscView& csc = s.types[e].csc;
      const std::int64_t fanout = s.types[e].fanouts[hop],
                         all_edges = saturating_product(csc.num_edges, trees);
      std::int64_t edges = all_edges;
      if (fanout == 0) edges = 0;
      if (fanout > 0 && !s.options.labor) {
        edges = saturating_product(frontier[csc.dst_type], fanout);
        if (!s.options.replace) edges = std::min(edges, all_edges);
      }
      bounds.edges[e] = saturating_sum(bounds.edges[e], edges);
      if (!s.options.replace) bounds.edges[e] = std::min(bounds.edges[e], all_edges);
      next[csc.src_type] = std::min(saturating_sum(next[csc.src_type], edges), all_nodes(csc.src_type));
    }
    frontier = next;
    for (std::size_t t = 0; t < frontier.size(); ++t)
      bounds.nodes[t] = std::min(saturating_sum(bounds.nodes[t], frontier[t]), all_nodes(t));
  }
  return bounds;
}

std::uint64_t NeighborSampler::rows_summed() const { return impl_->expand_scratch.picks.rows_summed; }

}  // namespace hopfeed
