// See neighbor_sampler.h.
#include "core/sampler/neighbor_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <variant>

#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/draws/any_relabel.h"
#include "core/sampler/edge_type_plan.h"
#include "core/sampler/hop_draws.h"
#include "core/sampler/hop_over_partitions.h"

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
  const int node_bits;  // of an id in a disjoint batch: tree << node_bits | node
  HopDraws draws;
  std::vector<NodeScratch> nodes;
  std::vector<EdgeScratch> edges;
  std::vector<std::vector<std::int64_t>> edges_per_hop;
  ScratchArray<std::uint32_t> seed_index;
  ScratchArray<std::int64_t> seed_times;  // of each tree
  std::size_t num_seeds = 0;
  std::vector<std::uint32_t> frontier_end;
  std::unique_ptr<HopOverPartitions> partitions;  // where some lie on other machines
  std::vector<HopOverPartitions::Frontier> frontiers;
  Sample result;

  Impl(const Dataset& data, const BatchOptions& opts)
      : dataset(data),
        options(opts),
        trees(opts.trees()),
        node_bits(node_bits_of(data)),
        draws((options.validate(), data), options) {
    for (int t = 0; t < data.num_node_types(); ++t) nodes.emplace_back(relabel_for(data.num_nodes(t)));
    edges.resize(draws.num_types());
    edges_per_hop.resize(draws.num_types());
    result.nodes.resize(nodes.size());
    result.edges.resize(draws.num_types());
    if (!data.whole()) partitions = std::make_unique<HopOverPartitions>(data, options);
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
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a disjoint batch of {} seeds is too large for a graph of this size; lower {}",
                              num_seeds, marked("batch_size")));
    }
    for (NodeScratch& type : nodes) {
      type.expanded = 0;
      type.per_hop.clear();
      std::visit([&](auto& relabel) { relabel.begin_batch(type.local); }, type.relabel);
    }
    for (EdgeScratch& type : edges) type.num_edges = 0;
    for (auto& list : edges_per_hop) list.clear();
    seed_index.reserve(num_seeds);
    std::size_t before = 0;
    for (const TypedSeeds& entry : request.seeds) {
      insert_seeds(entry, before);
      before += entry.ids.size();
    }
    for (NodeScratch& t : nodes) t.per_hop.push_back(t.local.count);
    if (!options.time.empty()) {
      seed_times.reserve(num_seeds);
      std::int64_t* times = seed_times.data();
      for (const TypedSeeds& entry : request.seeds) times = std::ranges::copy(entry.times, times).out;
    }
    draws.begin(request.excluded, {seed_times.data(), options.time.empty() ? 0 : num_seeds});
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
    if (partitions) draw_over_partitions(request, hop);
    for (std::size_t e = 0; e < draws.num_types(); ++e) {
      const std::size_t before = edges[e].num_edges;
      partitions ? place(e) : expand(request, hop, e);
      edges_per_hop[e].push_back(static_cast<std::int64_t>(edges[e].num_edges - before));
    }
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      nodes[t].expanded = frontier_end[t];
      nodes[t].per_hop.push_back(nodes[t].local.count - frontier_end[t]);
    }
  }

  void expand(const SampleRequest& request, std::size_t hop, std::size_t e) {
    const CscView& csc = draws.type(e).csc;
    NodeScratch &dst = nodes[csc.dst_type], &src = nodes[csc.src_type];
    draws.expand({.key = request.key, .number = hop, .edge_type = e},
                 {.ends = {.csc = csc,
                           .dst = dst.local,
                           .dst_original_ids = dst.original_ids,
                           .src = src.local,
                           .edges = edges[e]},
                  .relabel = src.relabel,
                  .lo = dst.expanded,
                  .hi = frontier_end[csc.dst_type]});
  }

  void draw_over_partitions(const SampleRequest& request, std::size_t hop) {
    frontiers.clear();
    for (std::size_t e = 0; e < draws.num_types(); ++e) {
      const EdgeTypePlan& type = draws.type(e);
      const NodeScratch& dst = nodes[type.csc.dst_type];
      const std::size_t count = frontier_end[type.csc.dst_type] - dst.expanded;
      frontiers.emplace_back(dst.local.ids.data() + dst.expanded, type.fanouts[hop] == 0 ? 0 : count);
    }
    partitions->draw({.key = request.key,
                      .excluded = request.excluded,
                      .seed_times = {seed_times.data(), options.time.empty() ? 0 : num_seeds}},
                     hop, frontiers);
  }

  void place(std::size_t e) {
    const CscView& csc = draws.type(e).csc;
    NodeScratch &dst = nodes[csc.dst_type], &src = nodes[csc.src_type];
    if (frontiers[e].empty()) {
      edges[e].per_dst.reserve(frontier_end[csc.dst_type]);
      std::fill_n(edges[e].per_dst.data() + dst.expanded, frontier_end[csc.dst_type] - dst.expanded, 0u);
      return;
    }
    partitions->place(e, {.src = src.local,
                          .relabel = src.relabel,
                          .edges = edges[e],
                          .first = dst.expanded,
                          .edge_ids = options.edge_ids,
                          .positions = draws.type(e).positions});
  }

  const Sample& finish() {
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      NodeScratch& type = nodes[t];
      if (trees) take_ids_apart(type);
      result.nodes[t] = {
          .dataset_ids = {trees ? type.nodes.data() : type.local.ids.data(), type.local.count},
          .original_ids = {type.original_ids.data(), has_rows(t) && !partitions ? type.expanded : 0},
          .per_hop = type.per_hop,
          .trees = {type.trees.data(), trees ? type.local.count : 0}};
    }
    for (std::size_t e = 0; e < draws.num_types(); ++e) {
      result.edges[e] = {
          .sources = {edges[e].sources.data(), edges[e].num_edges},
          .per_dst = {edges[e].per_dst.data(), nodes[draws.type(e).csc.dst_type].expanded},
          .targets = {},
          .edge_ids = {edges[e].edge_ids.data(), options.edge_ids ? edges[e].num_edges : 0},
          .positions = {edges[e].positions.data(), draws.type(e).positions ? edges[e].num_edges : 0},
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
  bytes += s.draws.scratch_bytes() + (s.partitions ? s.partitions->scratch_bytes() : 0);
  for (const EdgeScratch& edge : s.edges) bytes += edge.bytes();
  for (const NodeScratch& node : s.nodes) bytes += node.bytes();
  return bytes;
}

std::size_t NeighborSampler::later_table_bytes() const { return impl_->draws.later_table_bytes(); }

std::size_t NeighborSampler::max_scratch_bytes(SeedCounts seeds) const {
  const SampleBounds bounds = this->bounds(seeds);
  const Impl& s = *impl_;
  const auto num_seeds = static_cast<std::size_t>(bounds.seeds);
  std::size_t bytes = decltype(s.seed_index)::max_bytes(num_seeds) +
                      decltype(s.seed_times)::max_bytes(num_seeds) + later_table_bytes();
  for (std::size_t e = 0; e < s.edges.size(); ++e) {
    const EdgeTypePlan& type = s.draws.type(e);
    bytes += EdgeScratch::max_bytes(static_cast<std::size_t>(bounds.edges[e]),
                                    static_cast<std::size_t>(bounds.nodes[type.csc.dst_type]),
                                    {.edge_ids = s.options.edge_ids, .positions = type.positions});
  }
  const HopDraws::Most most = s.draws.most(bounds.edges, num_seeds);
  bytes += most.bytes;
  for (std::size_t t = 0; t < s.nodes.size(); ++t)
    bytes += s.nodes[t].max_bytes(static_cast<std::size_t>(bounds.nodes[t]), most.group, s.trees);
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
                      .edges = std::vector<std::int64_t>(s.draws.num_types(), 0),
                      .seeds = total_of(seeds),
                      .arrays = {}};
  for (std::size_t hop = 0; hop < s.options.fanouts.size(); ++hop) {
    std::vector<std::int64_t> next(frontier.size(), 0);
    for (std::size_t e = 0; e < s.draws.num_types(); ++e) {
      const CscView& csc = s.draws.type(e).csc;
      const std::int64_t fanout = s.draws.type(e).fanouts[hop],
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

std::uint64_t NeighborSampler::rows_summed() const { return impl_->draws.rows_summed(); }

}  // namespace hopfeed
