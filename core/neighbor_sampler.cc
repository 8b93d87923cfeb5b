// See neighbor_sampler.h.
#include "core/neighbor_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <variant>

#include "core/error.h"
#include "core/keyed_random.h"
#include "core/limits.h"
#include "core/relabel_table.h"
#include "core/row_expander.h"

namespace hopfeed {
namespace {

using AnyRelabel = std::variant<DirectRelabel, HashRelabel>;

AnyRelabel make_relabel(std::int64_t num_nodes) {
  if (num_nodes <= kMaxDirectNodes) return DirectRelabel(num_nodes);
  return HashRelabel(num_nodes);
}

struct NodeScratch {
  explicit NodeScratch(std::int64_t num_nodes) : relabel(make_relabel(num_nodes)) {}
  AnyRelabel relabel;
  LocalNodes local;
  ScratchArray<std::int64_t> original_ids;  // of the expanded nodes
  std::uint32_t expanded = 0;               // their number: nodes that were in a frontier
  std::vector<std::int64_t> per_hop;
};

}  // namespace

struct NeighborSampler::Impl {
  const Dataset& dataset;
  BatchOptions options;
  std::vector<CscView> csc;
  std::vector<NodeScratch> nodes;
  std::vector<EdgeScratch> edges;
  std::vector<std::vector<std::int64_t>> edges_per_hop;
  ExpandScratch expand_scratch;
  ScratchArray<std::uint32_t> seed_index;
  Sample result;

  Impl(const Dataset& data, const BatchOptions& opts) : dataset(data), options(opts) {
    options.validate();
    for (int t = 0; t < data.num_node_types(); ++t) nodes.emplace_back(data.num_nodes(t));
    for (int t = 0; t < data.num_edge_types(); ++t) {
      csc.push_back(data.csc(t));
      if (options.edge_ids && !csc.back().has_edge_ids) {
        throw Error(ErrorCode::kUnsupported,
                    data.folder().string() + " stores no edge ids; import the graph without --no-edge-ids");
      }
    }
    edges.resize(csc.size());
    edges_per_hop.resize(csc.size());
    result.nodes.resize(nodes.size());
    result.edges.resize(csc.size());
  }

  void begin(const SampleRequest& request) {
    for (NodeScratch& type : nodes) {
      type.expanded = 0;
      type.per_hop.clear();
      std::visit([&](auto& relabel) { relabel.begin_batch(type.local); }, type.relabel);
    }
    for (EdgeScratch& type : edges) type.num_edges = 0;
    for (auto& list : edges_per_hop) list.clear();
    NodeScratch& type = nodes[request.seed_type];
    seed_index.reserve(request.seeds.size());
    std::visit(
        [&](auto& relabel) {
          relabel.make_room(type.local, request.seeds.size());
          typename std::decay_t<decltype(relabel)>::Inserter inserter(relabel, type.local, seed_index.data());
          for (std::size_t i = 0; i < request.seeds.size(); ++i)
            inserter.insert(static_cast<std::uint64_t>(request.seeds[i]), i);
          inserter.close();
        },
        type.relabel);
    for (NodeScratch& t : nodes) t.per_hop.push_back(t.local.count);
  }

  void run_hop(const SampleRequest& request, std::size_t hop) {
    // Frontiers are fixed before any edge type adds to them.
    std::vector<std::uint32_t>& frontier_end = frontier_end_;
    frontier_end.clear();
    for (const NodeScratch& type : nodes) frontier_end.push_back(type.local.count);
    for (std::size_t e = 0; e < csc.size(); ++e) {
      const std::size_t before = edges[e].num_edges;
      expand(request, hop, e, frontier_end[csc[e].dst_type]);
      edges_per_hop[e].push_back(static_cast<std::int64_t>(edges[e].num_edges - before));
    }
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      nodes[t].expanded = frontier_end[t];
      nodes[t].per_hop.push_back(nodes[t].local.count - frontier_end[t]);
    }
  }

  void expand(const SampleRequest& request, std::size_t hop, std::size_t edge_type,
              std::uint32_t frontier_end) {
    const CscView& view = csc[edge_type];
    NodeScratch &dst = nodes[view.dst_type], &src = nodes[view.src_type];
    StreamOptions stream{.purpose = Purpose::kNeighbors,
                         .seed = request.key.seed,
                         .epoch = request.key.epoch,
                         .first = request.key.first,
                         .hop = static_cast<std::uint32_t>(hop),
                         .edge_type = static_cast<std::uint32_t>(edge_type)};
    NodeStream draws{.key = stream_key(stream), .retry_key = 0, .node = 0, .tree = 0};
    stream.purpose = Purpose::kRetries;
    draws.retry_key = stream_key(stream);
    const PickOptions pick{.fanout = options.fanouts[hop], .replace = options.replace, .stream = draws};
    const ExpandEnds ends{.csc = view,
                          .dst = dst.local,
                          .dst_original_ids = dst.original_ids,
                          .src = src.local,
                          .edges = edges[edge_type]};
    const auto run = [&]<class Index>(Index, auto& relabel) {
      RowExpander<Index, std::decay_t<decltype(relabel)>, UniformPicker>(
          ends, {.edge_ids = options.edge_ids}, UniformPicker(pick, expand_scratch.picks), relabel,
          expand_scratch)
          .expand(dst.expanded, frontier_end);
    };
    try {
      std::visit(
          [&](auto& relabel) {
            if (view.index_type == ElementType::kInt32)
              run(std::int32_t{}, relabel);
            else
              run(std::int64_t{}, relabel);
          },
          src.relabel);
    } catch (const DamagedRow& damage) {
      report(damage, edge_type);
    }
  }

  [[noreturn]] void report(const DamagedRow& damage, std::size_t edge_type) const {
    const EdgeTypeMeta& edge = dataset.meta().edge_types[edge_type];
    if (damage.what == DamagedRow::What::kOffsets) {
      throw Error(
          ErrorCode::kCorrupt,
          fmt::format(
              "{}: row {} has offsets that do not rise within the {} edges; run hopfeed-partition verify",
              (dataset.folder() / rows_path(damage.partition, edge)).string(), damage.row,
              edge.partition_edges[damage.partition]));
    }
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format(
            "{}: edge type {} has source node {}, but there are {} nodes; run hopfeed-partition verify",
            dataset.folder().string(), edge.folder(), damage.value, csc[edge_type].num_src_nodes));
  }

  const Sample& finish(const SampleRequest& request) {
    for (std::size_t t = 0; t < nodes.size(); ++t) {
      const NodeScratch& type = nodes[t];
      result.nodes[t] = {.dataset_ids = {type.local.ids.data(), type.local.count},
                         .original_ids = {type.original_ids.data(), has_rows(t) ? type.expanded : 0},
                         .per_hop = type.per_hop};
    }
    for (std::size_t e = 0; e < csc.size(); ++e) {
      result.edges[e] = {.sources = {edges[e].sources.data(), edges[e].num_edges},
                         .per_dst = {edges[e].per_dst.data(), nodes[csc[e].dst_type].expanded},
                         .edge_ids = {edges[e].edge_ids.data(), options.edge_ids ? edges[e].num_edges : 0},
                         .per_hop = edges_per_hop[e]};
    }
    result.num_seeds = nodes[request.seed_type].per_hop[0];
    const bool repeats = static_cast<std::size_t>(result.num_seeds) < request.seeds.size();
    result.seed_index = {seed_index.data(), repeats ? request.seeds.size() : 0};
    return result;
  }

  // Node types that no edge ends at are expanded without rows, so nothing read their original ids.
  bool has_rows(std::size_t node_type) const {
    for (const CscView& view : csc) {
      if (view.dst_type == static_cast<int>(node_type)) return true;
    }
    return false;
  }

  std::vector<std::uint32_t> frontier_end_;
};

NeighborSampler::NeighborSampler(const Dataset& dataset, const BatchOptions& options)
    : impl_(std::make_unique<Impl>(dataset, options)) {}
NeighborSampler::~NeighborSampler() = default;

const Sample& NeighborSampler::sample(const SampleRequest& request) {
  impl_->begin(request);
  for (std::size_t hop = 0; hop < impl_->options.fanouts.size(); ++hop) impl_->run_hop(request, hop);
  return impl_->finish(request);
}

std::size_t NeighborSampler::scratch_bytes() const {
  const Impl& s = *impl_;
  std::size_t bytes = s.seed_index.bytes();
  bytes += s.expand_scratch.bytes();
  for (const EdgeScratch& edge : s.edges) bytes += edge.bytes();
  for (const NodeScratch& node : s.nodes) {
    bytes += node.local.ids.bytes() + node.original_ids.bytes();
    bytes += std::visit([](const auto& relabel) { return relabel.bytes(); }, node.relabel);
  }
  return bytes;
}

std::size_t NeighborSampler::max_scratch_bytes(const SampleBounds& bounds) const {
  const Impl& s = *impl_;
  const auto array = [](std::size_t count, std::size_t size) {
    return hopfeed::max_scratch_bytes(count * size);
  };
  const std::size_t edge_id = s.options.edge_ids ? sizeof(std::int64_t) : 0;
  std::size_t bytes = array(static_cast<std::size_t>(bounds.seeds), sizeof(std::uint32_t));
  std::size_t largest_group = 0;  // edges of destinations that are expanded together
  for (std::size_t e = 0; e < s.edges.size(); ++e) {
    const auto edges = static_cast<std::size_t>(bounds.edges[e]);
    std::size_t group = 0;
    for (const std::int64_t fanout : s.options.fanouts)
      group = std::max(group, fanout < 0 ? edges : DrawnGroup::kRows * static_cast<std::size_t>(fanout));
    largest_group = std::max(largest_group, std::min(group, edges));
    bytes += array(edges, sizeof(std::uint32_t)) + array(edges, edge_id) +
             array(static_cast<std::size_t>(bounds.nodes[s.csc[e].dst_type]), sizeof(std::uint32_t));
  }
  bytes += std::size(s.expand_scratch.placed) *
               (array(largest_group, sizeof(std::uint64_t)) + array(largest_group, edge_id)) +
           array(largest_group, sizeof(std::uint32_t)) +
           array(largest_group, sizeof(std::uint64_t));  // picks
  for (std::size_t t = 0; t < s.nodes.size(); ++t) {
    const auto nodes = static_cast<std::size_t>(bounds.nodes[t]);
    bytes += array(nodes + largest_group + 1, sizeof(std::int64_t)) + array(nodes, sizeof(std::int64_t));
    bytes += std::visit([&](const auto& relabel) { return relabel.max_bytes(nodes + largest_group); },
                        s.nodes[t].relabel);
  }
  return bytes;
}

}  // namespace hopfeed
