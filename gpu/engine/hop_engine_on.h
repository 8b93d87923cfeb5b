// HopEngineOn is the device sampler's algorithm over a backend (host_backend.h says what one is), hop by hop
// and edge type by edge type in the dataset's order, as NeighborSampler's. The host asks for work and mostly
// does not wait: how many nodes and edges there are is known to the device alone (Counters), and launches are
// as long as bounds say. Where bounds are too large, or all neighbours are taken, a hop's edges are counted
// first, and the host waits for their number.
//
//   each hop      for each edge type   look at rows, scan      LookAtRows
//                 where it counts      wait                    CountEdges
//                 for each edge type   draw                    DrawFew, DrawMany, TakeAll
//                                      read, insert            ReadEdges
//                                      first appearances       FlagFirsts, scan, AssignFirsts, WriteLocals
//                 then                 the next frontier       CloseHop
//   at the end    results to the host, one wait
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/limits.h"
#include "gpu/engine/batch_shapes.h"
#include "gpu/engine/engine_memory.h"
#include "gpu/engine/engine_results.h"
#include "gpu/engine/hop_bounds.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/engine/hot_prefix.h"
#include "gpu/kernels/device_views.h"
#include "gpu/kernels/local_id_kernels.h"
#include "gpu/kernels/row_kernels.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::gpu {

template <class Backend>
class HopEngineOn : public HopEngine {
 public:
  /// `options` are the backend's.
  HopEngineOn(const EnginePlan& plan, const typename Backend::Options& options)
      : plan_(plan), bounds_(plan_), backend_(options), memory_(backend_) {
    const typename Backend::Scope scope(backend_);
    hot_ = hot_share(plan_);
    graph_bytes_ = hot_bytes(plan_, hot_);
    for (std::size_t t = 0; t < plan_.num_nodes.size(); ++t) nodes_.emplace_back(backend_);
    for (const EdgePlan& edges : plan_.edge_types) {
      edges_.emplace_back(backend_);
      place(edges, edges_.back());
    }
    result_.nodes.resize(nodes_.size());
    result_.edges.resize(edges_.size());
    counters_.node_types = static_cast<int>(nodes_.size());
    counters_.edge_types = static_cast<int>(edges_.size());
    counters_.hops = plan_.hops;
    memory_.counters.reserve(counters_.size());
    memory_.host_counters.reserve(counters_.size());
    counters_.at = memory_.counters.data();
    backend_.wait();  // the plan's arrays were copied from
  }

  /// What batches of so many seeds ask of the device is the same but for seeds and keys, which lie at places
  /// that stay: the second one is recorded, and the others are that recording.
  Fallback sample(const EngineRequest& request) override {
    const typename Backend::Scope scope(backend_);
    stage(request);
    typename BatchShapes<Backend>::Shape* const shape = shapes_.of(request, plan_);
    const bool known = shape != nullptr && shape->generation == backend_.generation();
    if (!known) {
      counted_ = false;
      if (const Fallback reason = ask(request); reason != Fallback::kNone) return reason;
      if (shape != nullptr && !counted_) *shape = {shape->seeds, backend_.generation(), {}};
      return tell();
    }
    if (!shape->recording) shape->recording.emplace(record(request));
    ++replays_;
    backend_.replay(*shape->recording);
    return tell();
  }

  const EngineResult& result() const override { return result_; }

  std::size_t pinned_bytes() const override {
    std::size_t bytes = memory_.pinned_bytes();
    for (const Nodes& nodes : nodes_) bytes += nodes.pinned_bytes();
    for (const Edges& edges : edges_) bytes += edges.pinned_bytes();
    return bytes;
  }
  std::size_t device_bytes() const override {
    std::size_t bytes = memory_.device_bytes();
    for (const Nodes& nodes : nodes_) bytes += nodes.device_bytes();
    for (const Edges& edges : edges_) bytes += edges.device_bytes();
    return bytes;
  }
  std::size_t graph_bytes() const override { return graph_bytes_; }
  HeldShare graph_share() const override { return place() == GraphPlace::kDevice ? kAllRows : hot_; }
  std::uint64_t waits() const override { return backend_.waits(); }
  std::uint64_t replays() const override { return replays_; }
  /// Returns the backend, whose work follows a batch's in turn.
  Backend& backend() { return backend_; }
  GraphPlace place() const { return plan_.place; }
  /// Returns the rows as the device reads them.
  const DevicePart& part(std::size_t edge_type, std::size_t partition) const {
    return edges_[edge_type].host_parts[partition];
  }

 private:
  template <class T>
  using Array = DeviceArray<Backend, T>;
  template <class T>
  using Pinned = DeviceArray<Backend, T, Where::kPinned>;

  using Nodes = EngineNodesMemory<Backend>;
  using Edges = EngineEdgesMemory<Backend>;
  using Memory = EngineSharedMemory<Backend>;

  void place(const EdgePlan& plan, Edges& edges) {
    for (const HostPart& part : plan.parts) {
      const auto count = static_cast<std::size_t>(part.num_edges);
      const auto graph = [&](const void* array, std::size_t bytes) {
        if (array != nullptr && place() == GraphPlace::kDevice) graph_bytes_ += bytes;
        return array == nullptr ? nullptr : backend_.place_graph(array, bytes, place());
      };
      DevicePart view;
      view.rows = static_cast<const RowRecord*>(
          graph(part.rows, (static_cast<std::size_t>(part.num_rows) + 1) * sizeof(RowRecord)));
      view.indices = graph(part.indices, count * static_cast<std::size_t>(plan.index_bytes));
      view.edge_ids = graph(part.edge_ids, count * static_cast<std::size_t>(plan.edge_id_bytes));
      view.aliases = static_cast<const unsigned char*>(
          graph(part.aliases, count * static_cast<std::size_t>(plan.alias_bytes)));
      view.codes = static_cast<const std::int16_t*>(graph(part.codes, count * sizeof(std::int16_t)));
      view.times = static_cast<const std::int64_t*>(graph(part.times, count * sizeof(std::int64_t)));
      view.order = static_cast<const std::uint32_t*>(graph(part.order, count * sizeof(std::uint32_t)));
      place_hot(backend_, part, {.share = hot_, .index_bytes = plan.index_bytes}, view);
      view.num_edges = part.num_edges;
      view.first_edge = part.first_edge;
      edges.host_parts.push_back(view);
    }
    edges.view.parts = edges.parts.assign(edges.host_parts.data(), edges.host_parts.size());
    edges.view.partition_offsets =
        edges.partition_offsets.assign(plan.partition_offsets.data(), plan.partition_offsets.size());
    edges.view.num_parts = static_cast<int>(plan.parts.size());
    edges.view.index_bytes = plan.index_bytes;
    edges.view.edge_id_bytes = plan.edge_id_bytes;
    edges.view.alias_bytes = plan.alias_bytes;
    edges.view.temporal = plan.temporal;
    edges.view.num_src = static_cast<std::uint64_t>(plan_.num_nodes[static_cast<std::size_t>(plan.src_type)]);
  }

  typename Backend::Recording record(const EngineRequest& request) {
    backend_.begin_recording();
    try {
      ask(request);
    } catch (...) {
      backend_.end_recording();
      throw;
    }
    return backend_.end_recording();
  }

  /// Stages seeds and keys in memory from which the device takes them.
  void stage(const EngineRequest& request) {
    num_seeds_ = 0;
    for (std::size_t i = 0; i < request.num_entries; ++i) num_seeds_ += request.seeds[i].count;
    memory_.host_seeds.reserve(num_seeds_);
    std::int64_t* to = memory_.host_seeds.data();
    for (std::size_t i = 0; i < request.num_entries; ++i)
      to = std::copy_n(request.seeds[i].ids, request.seeds[i].count, to);
    memory_.host_streams.reserve(num_streams());
    std::copy_n(request.streams, num_streams(), memory_.host_streams.data());
  }
  std::size_t num_streams() const { return static_cast<std::size_t>(plan_.hops) * edges_.size(); }

  /// Asks for all work of a batch. Returns kNone, unless what it counted meanwhile says that the device
  /// cannot do it.
  Fallback ask(const EngineRequest& request) {
    begin(request);
    for (int hop = 0; hop < plan_.hops; ++hop) {
      look_at_rows(hop);
      const std::uint64_t most = bounds_.edges_of_hop(frontiers(), hop);
      if (most <= left_uncounted_) {
        left_uncounted_ -= most;
      } else if (const Fallback reason = count_hop(hop); reason != Fallback::kNone) {
        return reason;
      }
      for (std::size_t e = 0; e < edges_.size(); ++e) draw(hop, e);
      backend_.launch(nodes_.size(), CloseHop{counters_, hop + 1});
      move_on();
    }
    results().copy_out(num_seeds_);
    ask_counters();
    return Fallback::kNone;
  }

  void begin(const EngineRequest& request) {
    bounds_.begin(num_seeds_);
    left_uncounted_ = plan_.most_uncounted_edges;
    backend_.fill(counters_.at, 0, counters_.size() * sizeof(std::uint64_t));
    for (Nodes& nodes : nodes_)
      nodes.bound = nodes.expanded_bound = nodes.frontier_bound = nodes.next_bound = 0;
    for (std::size_t i = 0; i < request.num_entries; ++i) {
      const auto type = static_cast<std::size_t>(request.seeds[i].node_type);
      nodes_[type].bound = nodes_[type].frontier_bound =
          std::min<std::uint64_t>(request.seeds[i].count, bounds_.all_nodes(type));
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      edges_[e].bound = 0;
      edges_[e].take_excluded(request.excluded == nullptr ? EngineExcluded{} : request.excluded[e]);
      edges_[e].take_times(request.times == nullptr ? EngineTimes{} : request.times[e], num_seeds_);
    }
    memory_.streams.reserve(num_streams());
    backend_.copy(memory_.streams.data(), memory_.host_streams.data(), num_streams() * sizeof(NodeStream));
    begin_tables();
    insert_seeds(request);
    backend_.launch(nodes_.size(), CloseHop{counters_, 0});
  }

  /// Begins tables for all nodes that the hops to come are bounded to, as far as nothing is counted.
  void begin_tables() {
    const std::vector<std::uint64_t> most = bounds_.nodes(frontiers(), left_uncounted_);
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      nodes_[t].table_bits = bits_for(most[t]);
      reserve_table(nodes_[t].slots, nodes_[t].table_bits);
      nodes_[t].ids.reserve(most[t]);
    }
  }

  /// Returns how many bits number the slots of a table that `nodes` fill at most half.
  static int bits_for(std::uint64_t nodes) {
    int bits = 4;
    while ((std::uint64_t{1} << bits) < 2 * nodes) ++bits;
    return bits;
  }

  void reserve_table(Array<IdTable::Slot>& slots, int bits) {
    slots.reserve(std::uint64_t{1} << bits);
    backend_.fill(slots.data(), 0xFF, sizeof(IdTable::Slot) << bits);
  }

  IdTable table(const Nodes& nodes) const { return {nodes.slots.data(), nodes.table_bits}; }

  /// Makes place in the table and the list of a type for so many nodes, of which the first `known` are there.
  void make_room(int type, std::uint64_t most, std::uint64_t known) {
    Nodes& nodes = nodes_[static_cast<std::size_t>(type)];
    nodes.ids.reserve(most, known);
    const int bits = bits_for(most);
    if (bits <= nodes.table_bits) return;
    reserve_table(nodes.slots, bits);  // all that was in it is in the list
    nodes.table_bits = bits;
    backend_.launch(known, InsertAgain{table(nodes), nodes.ids.data(), &counters_.nodes(type)});
  }

  void insert_seeds(const EngineRequest& request) {
    memory_.seeds.reserve(num_seeds_);
    memory_.seed_index.reserve(num_seeds_);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < request.num_entries; ++i) {
      const EngineSeeds& entry = request.seeds[i];
      if (entry.count == 0) continue;
      backend_.copy(memory_.seeds.data() + number, memory_.host_seeds.data() + number,
                    entry.count * sizeof(std::int64_t));
      IdStep step = id_step(entry.node_type, entry.count);
      step.locals = memory_.seed_index.data() + number;
      backend_.launch(entry.count, InsertSeeds{step, memory_.seeds.data() + number, number,
                                               plan_.trees ? plan_.node_bits : 0});
      give_local_ids(step);
      number += entry.count;
    }
  }

  IdStep id_step(int type, std::uint64_t bound) {
    Nodes& nodes = nodes_[static_cast<std::size_t>(type)];
    memory_.slots.reserve(bound);
    memory_.firsts.reserve(bound + 1);
    IdStep step;
    step.table = table(nodes);
    step.bound = bound;
    step.slots = memory_.slots.data();
    step.firsts = memory_.firsts.data();
    step.ids = nodes.ids.data();
    step.num_nodes = &counters_.nodes(type);
    return step;
  }

  void give_local_ids(const IdStep& step) {
    backend_.launch(step.bound + 1, FlagFirsts{step});
    backend_.exclusive_scan(step.firsts, step.bound + 1);
    backend_.launch(step.bound, AssignFirsts{step});
    backend_.launch(step.bound, WriteLocals{step});
    backend_.launch(1, CloseStep{step});
  }

  std::vector<std::uint64_t> frontiers() const {
    std::vector<std::uint64_t> bounds;
    for (const Nodes& nodes : nodes_) bounds.push_back(nodes.frontier_bound);
    return bounds;
  }

  void look_at_rows(int hop) {
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      Nodes& nodes = nodes_[t];
      const std::uint64_t before = nodes.expanded_bound;
      nodes.expanded_bound = std::min(bounds_.all_nodes(t), before + nodes.frontier_bound);
      nodes.original_ids.reserve(nodes.expanded_bound, before);
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const EdgePlan& plan = plan_.edge_types[e];
      Edges& edges = edges_[e];
      Nodes& dst = nodes_[static_cast<std::size_t>(plan.dst_type)];
      const std::uint64_t rows = dst.frontier_bound;
      edges.hop_bound = bounds_.edges(rows, e, hop);
      if (rows == 0) continue;
      edges.per_dst.reserve(dst.expanded_bound, std::min(edges.per_dst.capacity(), dst.expanded_bound));
      edges.rows.reserve(rows);
      edges.offsets.reserve(rows + 1);
      RowStep& step = edges.step;
      step.edges = edges.view;
      step.excluded = edges.excluded;
      step.times = edges.times;
      step.counters = counters_;
      step.src_type = plan.src_type;
      step.dst_type = plan.dst_type;
      step.edge_type = static_cast<int>(e);
      step.hop = hop;
      step.fanout = plan.fanouts[static_cast<std::size_t>(hop)];
      step.replace = plan_.replace;
      step.last = plan_.last && plan.temporal;
      step.stream = memory_.streams.data() + static_cast<std::size_t>(hop) * edges_.size() + e;
      step.node_bits = plan_.trees ? plan_.node_bits : 63;
      step.dst_ids = dst.ids.data();
      step.row_bound = rows;
      step.rows = edges.rows.data();
      step.offsets = edges.offsets.data();
      backend_.launch(rows + 1, LookAtRows{step, dst.original_ids.data(), edges.per_dst.data()});
      backend_.exclusive_scan(step.offsets, rows + 1);
      backend_.launch(1, CountEdges{step});
    }
  }

  /// Waits for the numbers of edges of a hop, and has them for bounds.
  Fallback count_hop(int hop) {
    counted_ = true;
    ask_counters();
    backend_.wait();
    const Counters known = host_counters();
    if (known.flag() != 0) return static_cast<Fallback>(known.flag());
    std::uint64_t edges = 0, nodes = 0;
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      nodes_[t].bound = known.nodes(static_cast<int>(t));
      nodes = std::max(nodes, nodes_[t].bound);
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      edges_[e].hop_bound = known.edges_of_hop(static_cast<int>(e), hop);
      edges_[e].bound = known.edges(static_cast<int>(e));
      edges = std::min(HopBounds::kMany, edges + edges_[e].hop_bound);
    }
    return edges + nodes > kMaxBatchNodes ? Fallback::kTooLarge : Fallback::kNone;
  }

  void ask_counters() {
    backend_.copy(memory_.host_counters.data(), counters_.at, counters_.size() * sizeof(std::uint64_t));
  }
  Counters host_counters() const {
    Counters known = counters_;
    known.at = memory_.host_counters.data();
    return known;
  }

  void draw(int hop, std::size_t e) {
    const EdgePlan& plan = plan_.edge_types[e];
    Edges& edges = edges_[e];
    const auto src = static_cast<std::size_t>(plan.src_type);
    const std::uint64_t more = edges.hop_bound;
    if (more == 0) return;
    const std::uint64_t all = edges.bound + more;
    RowStep& step = edges.step;
    edges.sources.reserve(all, edges.bound);
    if (plan_.edge_ids) edges.edge_ids.reserve(all, edges.bound);
    if (plan.positions) edges.positions.reserve(all, edges.bound);
    if (plan_.results_on_device) edges.targets.reserve(all, edges.bound);
    memory_.places.reserve(more);
    memory_.row_of.reserve(more);
    if (step.weighted()) memory_.source_places.reserve(more);
    step.places = memory_.places.data();
    step.row_of = memory_.row_of.data();
    step.source_places = memory_.source_places.data();
    // Another edge type of this hop may have moved the list since the rows were looked at.
    step.dst_ids = nodes_[static_cast<std::size_t>(plan.dst_type)].ids.data();
    launch_draws(step, more);

    const std::uint64_t known = nodes_[src].bound, most = std::min(bounds_.all_nodes(src), known + more);
    make_room(plan.src_type, most, known);
    step.dst_ids = nodes_[static_cast<std::size_t>(plan.dst_type)].ids.data();
    IdStep ids = id_step(plan.src_type, more);
    ids.count_at = &counters_.edges_of_hop(static_cast<int>(e), hop);
    ids.locals = edges.sources.data();
    ids.num_before = &counters_.edges(static_cast<int>(e));
    backend_.launch(more, ReadEdges{step, ids, plan_.trees, plan_.edge_ids ? edges.edge_ids.data() : nullptr,
                                    plan.positions ? edges.positions.data() : nullptr,
                                    plan_.results_on_device ? edges.targets.data() : nullptr});
    give_local_ids(ids);
    edges.bound = all;
    nodes_[src].next_bound = std::min(bounds_.all_nodes(src), nodes_[src].next_bound + more);
    nodes_[src].bound = most;
  }

  void launch_draws(const RowStep& step, std::uint64_t edges) {
    if (step.fanout > kMaxOwnDraws) {
      const std::uint64_t words = DrawMany::words(edges, step.row_bound);
      memory_.draws.reserve(words);
      backend_.fill(memory_.draws.data(), 0, words * sizeof(std::uint32_t));
      backend_.launch(step.row_bound, DrawMany{step, memory_.draws.data()});
      return;
    }
    const bool spread = step.fanout < 0 && !step.weighted();
    if (spread) backend_.launch(edges, TakeAll{step});
    if (!spread || step.excluded.count > 0) backend_.launch(step.row_bound, DrawFew{step, spread});
  }

  void move_on() {
    for (Nodes& nodes : nodes_) {
      nodes.frontier_bound = nodes.next_bound;
      nodes.next_bound = 0;
    }
  }

  EngineResults<Backend> results() { return {plan_, backend_, memory_, nodes_, edges_, counters_}; }

  /// Tells the results, after the wait.
  Fallback tell() {
    backend_.wait();
    const Counters known = host_counters();
    if (known.flag() != 0) return static_cast<Fallback>(known.flag());
    results().tell(known, result_);
    return Fallback::kNone;
  }

  const EnginePlan plan_;
  HeldShare hot_;  // of the rows of each partition
  std::size_t graph_bytes_ = 0;
  HopBounds bounds_;
  Backend backend_;
  Memory memory_;
  std::vector<Nodes> nodes_;
  std::vector<Edges> edges_;
  Counters counters_;
  std::uint64_t num_seeds_ = 0, left_uncounted_ = 0;
  EngineResult result_;
  BatchShapes<Backend> shapes_;  // behind the backend, which has what they are recorded for
  bool counted_ = false;         // in the batch under way
  std::uint64_t replays_ = 0;
};

}  // namespace hopfeed::gpu
