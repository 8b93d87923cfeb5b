// EngineResults brings a batch that an engine (hop_engine_on.h) has sampled to its place: its arrays go to
// memory of the host, or stay where they are, and EngineResult tells where.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/engine/batch_shapes.h"
#include "gpu/engine/engine_memory.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/local_id_kernels.h"

namespace hopfeed::gpu {

template <class Backend>
struct EngineResults {
  const EnginePlan& plan;
  Backend& backend;
  EngineSharedMemory<Backend>& memory;
  std::vector<EngineNodesMemory<Backend>>& nodes;
  std::vector<EngineEdgesMemory<Backend>>& edges;
  const CountMarks& marks;

  /// Asks for all that goes to the host, as long as bounds say.
  void copy_out() const {
    for (std::size_t t = 0; t < nodes.size() && !plan.results_on_device; ++t) copy_out_nodes(t);
    for (std::size_t e = 0; e < edges.size() && !plan.results_on_device; ++e) copy_out_edges(e);
  }

  /// Tells where results are, after the wait: `known` are the counts as the host has them.
  void tell(const std::uint64_t* known, EngineResult& result) const {
    for (std::size_t t = 0; t < nodes.size(); ++t) tell_nodes(known, t, result.nodes[t]);
    for (std::size_t e = 0; e < edges.size(); ++e) tell_edges(known, e, result.edges[e]);
    result.seed_index = memory.host_seed_index.data();
  }

  /// Returns whether rows of the type are read; else nothing has written its original ids.
  bool has_rows(std::size_t type) const {
    return std::any_of(plan.edge_types.begin(), plan.edge_types.end(), [type](const EdgePlan& edges) {
      return static_cast<std::size_t>(edges.dst_type) == type;
    });
  }

 private:
  template <class T>
  void copy_out(const T* from, DeviceArray<Backend, T, Where::kPinned>& to, std::uint64_t bound,
                const std::uint64_t* count) const {
    to.reserve(bound);
    backend.launch(bound, CopyOut<T>{from, to.data(), count});
  }

  void copy_out_nodes(std::size_t t) const {
    EngineNodesMemory<Backend>& from = nodes[t];
    const std::uint64_t* count = cell(nodes_behind(t, plan.hops));
    if (plan.trees) {
      from.host_ids.reserve(from.bound);
      from.host_trees.reserve(from.bound);
      backend.launch(from.bound, CopyOutTrees{from.ids.data(), from.host_ids.data(), from.host_trees.data(),
                                              count, plan.node_bits});
    } else {
      copy_out(reinterpret_cast<const std::int64_t*>(from.ids.data()), from.host_ids, from.bound, count);
    }
    if (has_rows(t))
      copy_out(from.original_ids.data(), from.host_original_ids, from.expanded_bound, cell(expanded(t)));
  }
  const std::uint64_t* cell(int number) const { return memory.counts.data() + number; }
  /// Returns the cell of a type's nodes behind so many hops.
  int nodes_behind(std::size_t type, int hops) const {
    return marks.nodes[static_cast<std::size_t>(hops) * nodes.size() + type];
  }
  int edges_behind(std::size_t type, int hops) const {
    return hops == 0 ? BatchCells::kZero
                     : marks.edges[static_cast<std::size_t>(hops - 1) * edges.size() + type];
  }
  /// Returns the cell of a type's nodes whose rows were read: all but those of the last hop.
  int expanded(std::size_t type) const {
    return plan.hops == 0 ? BatchCells::kZero : nodes_behind(type, plan.hops - 1);
  }
  void copy_out_edges(std::size_t e) const {
    EngineEdgesMemory<Backend>& from = edges[e];
    const EdgePlan& type = plan.edge_types[e];
    const auto dst = static_cast<std::size_t>(type.dst_type);
    const std::uint64_t* count = cell(edges_behind(e, plan.hops));
    copy_out(from.sources.data(), from.host_sources, from.bound, count);
    copy_out(from.per_dst.data(), from.host_per_dst, nodes[dst].expanded_bound, cell(expanded(dst)));
    if (plan.edge_ids) copy_out(from.edge_ids.data(), from.host_edge_ids, from.bound, count);
    if (type.positions) copy_out(from.positions.data(), from.host_positions, from.bound, count);
  }

  void tell_nodes(const std::uint64_t* known, std::size_t t, EngineNodes& out) const {
    const EngineNodesMemory<Backend>& from = nodes[t];
    const bool there = plan.results_on_device;
    out.ids = there ? reinterpret_cast<const std::int64_t*>(from.ids.data()) : from.host_ids.data();
    out.trees = from.host_trees.data();
    out.original_ids = there ? from.original_ids.data() : from.host_original_ids.data();
    out.count = known[nodes_behind(t, plan.hops)];
    out.expanded = known[expanded(t)];
    out.per_hop.clear();
    std::uint64_t before = 0;
    for (int hop = 0; hop <= plan.hops; ++hop) {
      const std::uint64_t behind = known[nodes_behind(t, hop)];
      out.per_hop.push_back(static_cast<std::int64_t>(behind - before));
      before = behind;
    }
  }

  void tell_edges(const std::uint64_t* known, std::size_t e, EngineEdges& out) const {
    const EngineEdgesMemory<Backend>& from = edges[e];
    const bool there = plan.results_on_device;
    out.sources = there ? from.sources.data() : from.host_sources.data();
    out.per_dst = from.host_per_dst.data();
    out.targets = from.targets.data();
    out.edge_ids = there ? from.edge_ids.data() : from.host_edge_ids.data();
    out.positions = there ? from.positions.data() : from.host_positions.data();
    out.count = known[edges_behind(e, plan.hops)];
    out.per_hop.clear();
    for (int hop = 0; hop < plan.hops; ++hop)
      out.per_hop.push_back(
          static_cast<std::int64_t>(known[edges_behind(e, hop + 1)] - known[edges_behind(e, hop)]));
  }
};

}  // namespace hopfeed::gpu
