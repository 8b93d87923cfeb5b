// HopEngineOn is the device sampler's algorithm over a backend (host_backend.h says what one is), hop by hop
// and edge type by edge type in the dataset's order, as NeighborSampler's. The host asks for work and mostly
// does not wait: how many nodes and edges there are is known to the device alone (BatchCells), and launches
// are as long as bounds say. Where bounds are too large, or all neighbours are taken, a hop's edges are
// counted first, and the host waits for their number.
//
//   each hop, for each edge type
//     uniform draws of few     all up to the slots     DrawInPlace
//     other draws              look at rows            LookAtRows, scan of RowOffsets
//                              draw                    DrawFew, DrawMany, TakeAll
//                              read, insert            ReadEdges
//     all                      first appearances       scan of CountFirsts, AssignFirsts
//                              write                   WriteEdges
//   where a hop counts, all draws are other draws, and the host waits behind the look
//   at the end: results to the host, one wait
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
      : plan_(checked(plan)), bounds_(plan_), backend_(options), memory_(backend_) {
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
    cells_ = {static_cast<int>(nodes_.size()), static_cast<int>(edges_.size()), plan_.hops};
    memory_.counts.reserve(static_cast<std::uint64_t>(cells_.size()));
    memory_.host_counts.reserve(static_cast<std::uint64_t>(cells_.size()));
    memory_.weights_left.reserve(most_weights_left());
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
      if (const Fallback reason = ask_whole(request); reason != Fallback::kNone) return reason;
      if (shape != nullptr && !counted_) *shape = {shape->seeds, backend_.generation(), marks_, {}};
      return tell(request);
    }
    if (!shape->recording) shape->recording.emplace(record(request));
    marks_ = shape->marks;
    ++replays_;
    backend_.replay(*shape->recording);
    return tell(request);
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
  static constexpr std::uint64_t kFewRows = 64;  // are read as they come

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

  /// Numbers of edges and places in them have 31 bits.
  static EnginePlan checked(EnginePlan plan) {
    plan.most_uncounted_edges =
        std::min(plan.most_uncounted_edges, static_cast<std::uint64_t>(kMaxBatchNodes));
    return plan;
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

  /// Does what ask() does. Where that fails in the middle, what it has asked for still reads the seeds.
  Fallback ask_whole(const EngineRequest& request) {
    try {
      return ask(request);
    } catch (...) {
      backend_.wait();
      throw;
    }
  }

  /// Asks for all work of a batch. Returns kNone, unless what it counted meanwhile says that the device
  /// cannot do it.
  Fallback ask(const EngineRequest& request) {
    begin(request);
    for (int hop = 0; hop < plan_.hops; ++hop) {
      begin_hop();
      const std::uint64_t most = bounds_.edges_of_hop(frontiers(), hop);
      const bool counts = most > left_uncounted_;
      for (std::size_t e = 0; e < edges_.size(); ++e) {
        set_out(hop, e);
        edges_[e].in_place = !counts && draws_in_place(edges_[e].step);
        if (!edges_[e].in_place) look_at_rows(e);
      }
      if (!counts)
        left_uncounted_ -= most;
      else if (const Fallback reason = count_hop(); reason != Fallback::kNone)
        return reason;
      for (std::size_t e = 0; e < edges_.size(); ++e) draw(hop, e);
      move_on();
    }
    results().copy_out();
    ask_counts();
    return Fallback::kNone;
  }

  void begin(const EngineRequest& request) {
    bounds_.begin(num_seeds_);
    left_uncounted_ = plan_.most_uncounted_edges;
    memory_.streams.reserve(num_streams());
    backend_.launch(std::max<std::uint64_t>(num_streams(), 1),
                    BeginBatch{memory_.counts.data(), memory_.host_streams.data(), memory_.streams.data(),
                               num_streams()});
    marks_ = {};
    for (Nodes& nodes : nodes_) {
      nodes.bound = nodes.expanded_bound = nodes.frontier_bound = nodes.next_bound = 0;
      nodes.now = nodes.frontier_begin = nodes.frontier_end = BatchCells::kZero;
    }
    for (std::size_t i = 0; i < request.num_entries; ++i) {
      const auto type = static_cast<std::size_t>(request.seeds[i].node_type);
      nodes_[type].bound = nodes_[type].frontier_bound =
          std::min<std::uint64_t>(request.seeds[i].count, bounds_.all_nodes(type));
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      edges_[e].bound = 0;
      edges_[e].now = BatchCells::kZero;
      edges_[e].take_excluded(request.excluded == nullptr ? EngineExcluded{} : request.excluded[e]);
      edges_[e].take_times(request.times == nullptr ? EngineTimes{} : request.times[e], num_seeds_);
    }
    begin_tables();
    insert_seeds(request);
    mark_nodes();
  }

  /// Remembers which cells have the numbers of nodes behind a hop, or behind the seeds.
  void mark_nodes() {
    for (Nodes& nodes : nodes_) {
      marks_.nodes.push_back(nodes.now);
      nodes.frontier_begin = nodes.frontier_end;
      nodes.frontier_end = nodes.now;
    }
  }
  std::uint64_t* cell(int number) const { return memory_.counts.data() + number; }

  /// Begins tables for all nodes that the hops to come are bounded to, as far as nothing is counted.
  void begin_tables() {
    const std::vector<std::uint64_t> most = bounds_.nodes(frontiers(), left_uncounted_);
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      nodes_[t].table_bits = bits_for(most[t]);
      reserve_table(t);
      nodes_[t].ids.reserve(most[t]);
    }
  }

  /// Returns how many bits number the slots of a table that `nodes` fill at most half.
  static int bits_for(std::uint64_t nodes) {
    int bits = 4;
    while ((std::uint64_t{1} << bits) < 2 * nodes) ++bits;
    return bits;
  }

  void reserve_table(std::size_t type) {
    Nodes& nodes = nodes_[type];
    const std::uint64_t words = IdTable::num_words(nodes.table_bits, has_narrow_ids(type));
    nodes.table.reserve(words);
    backend_.fill(nodes.table.data(), 0xFF, words * sizeof(std::uint64_t));
  }
  bool has_narrow_ids(std::size_t type) const {
    return !plan_.trees && static_cast<std::uint64_t>(plan_.num_nodes[type]) < UINT32_MAX;
  }

  IdTable table(std::size_t type) const {
    return {has_narrow_ids(type), nodes_[type].table_bits, nodes_[type].table.data()};
  }

  /// Makes place in the table and the list of a type for so many nodes, of which the first `known` are there.
  void make_room(std::size_t type, std::uint64_t most, std::uint64_t known) {
    Nodes& nodes = nodes_[type];
    nodes.ids.reserve(most, known);
    const int bits = bits_for(most);
    if (bits <= nodes.table_bits) return;
    nodes.table_bits = bits;
    reserve_table(type);  // all that was in it is in the list
    backend_.launch(known, InsertAgain{table(type), nodes.ids.data(), cell(nodes.now)});
  }

  void insert_seeds(const EngineRequest& request) {
    memory_.host_seed_index.reserve(num_seeds_);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < request.num_entries; ++i) {
      const EngineSeeds& entry = request.seeds[i];
      if (entry.count == 0) continue;
      const auto type = static_cast<std::size_t>(entry.node_type);
      IdStep step = id_step(type, entry.count, cells_.seeds(entry.node_type));
      step.locals = memory_.host_seed_index.data() + number;
      backend_.launch(entry.count + 1, InsertSeeds{step, memory_.host_seeds.data() + number, number,
                                                   plan_.trees ? plan_.node_bits : 0});
      give_local_ids(step);
      backend_.launch(entry.count, WriteSeeds{step});
      number += entry.count;
    }
  }

  /// Begins a step that ends with the nodes of the type in the cell `after`.
  IdStep id_step(std::size_t type, std::uint64_t bound, int after) {
    Nodes& nodes = nodes_[type];
    memory_.slots.reserve(bound + 1);
    memory_.sums.reserve(bound + 1);
    IdStep step;
    step.table = table(type);
    step.bound = bound;
    step.slots = memory_.slots.data();
    step.sums = memory_.sums.data();
    step.ids = nodes.ids.data();
    step.nodes_before = cell(nodes.now);
    step.nodes_after = cell(after);
    nodes.now = after;
    return step;
  }

  void give_local_ids(const IdStep& step) {
    backend_.scan(step.bound + 1, CountFirsts{step}, step.sums);
    backend_.launch(step.bound + 1, AssignFirsts{step});
  }

  std::vector<std::uint64_t> frontiers() const {
    std::vector<std::uint64_t> bounds;
    for (const Nodes& nodes : nodes_) bounds.push_back(nodes.frontier_bound);
    return bounds;
  }

  /// Makes place for what a hop's rows tell, and has the rows in the order in which they lie where they are
  /// read in the host's memory.
  void begin_hop() {
    for (std::size_t t = 0; t < nodes_.size(); ++t) {
      Nodes& nodes = nodes_[t];
      const std::uint64_t before = nodes.expanded_bound;
      nodes.expanded_bound = std::min(bounds_.all_nodes(t), before + nodes.frontier_bound);
      nodes.original_ids.reserve(nodes.expanded_bound, before);
      nodes.in_order = sorts_rows() && results().has_rows(t) && nodes.frontier_bound >= kFewRows;
      if (nodes.in_order) sort_rows(t);
    }
  }
  bool sorts_rows() const { return place() == GraphPlace::kHost && hot_.millionths < HeldShare::kAll; }

  void sort_rows(std::size_t type) {
    Nodes& nodes = nodes_[type];
    const std::uint64_t rows = nodes.frontier_bound;
    int bits = 1;  // of the number of nodes, which is the key behind all of them
    while (bits < 63 && plan_.num_nodes[type] >> bits != 0) ++bits;
    memory_.keys.reserve(rows);
    memory_.sorted_keys.reserve(rows);
    memory_.numbers.reserve(rows);
    nodes.order.reserve(rows);
    backend_.launch(rows, KeyRows{nodes.ids.data(), cell(nodes.frontier_begin), cell(nodes.frontier_end),
                                  (std::uint64_t{1} << (plan_.trees ? plan_.node_bits : 63)) - 1,
                                  plan_.num_nodes[type], memory_.keys.data(), memory_.numbers.data()});
    backend_.sort_by(memory_.keys.data(), memory_.sorted_keys.data(), memory_.numbers.data(),
                     nodes.order.data(), rows, bits);
  }

  /// Sets out with an edge type's step of a hop.
  void set_out(int hop, std::size_t e) {
    const EdgePlan& plan = plan_.edge_types[e];
    Edges& edges = edges_[e];
    const Nodes& dst = nodes_[static_cast<std::size_t>(plan.dst_type)];
    edges.hop_bound = bounds_.edges(dst.frontier_bound, e, hop);
    edges.per_dst.reserve(dst.expanded_bound, std::min(edges.per_dst.capacity(), dst.expanded_bound));
    RowStep& step = edges.step;
    step = {};
    step.edges = edges.view;
    step.excluded = edges.excluded;
    step.times = edges.times;
    step.flag = cell(BatchCells::kFlag);
    step.frontier_begin = cell(dst.frontier_begin);
    step.frontier_end = cell(dst.frontier_end);
    step.fanout = plan.fanouts[static_cast<std::size_t>(hop)];
    step.replace = plan_.replace;
    step.last = plan_.last && plan.temporal;
    step.stream = memory_.streams.data() + static_cast<std::size_t>(hop) * edges_.size() + e;
    step.node_bits = plan_.trees ? plan_.node_bits : 63;
    step.dst_ids = dst.ids.data();
    step.row_bound = dst.frontier_bound;
    step.order = dst.in_order ? dst.order.data() : nullptr;
    step.notes = {dst.original_ids.data(), edges.per_dst.data()};
    step.left = {memory_.weights_left.data(), most_weights_left(), cell(BatchCells::kSummed)};
  }

  /// Returns how many edges a hop's weighted rows from which draws remove have at most. In trees a row comes
  /// as often as there are trees.
  std::uint64_t most_weights_left() const {
    std::uint64_t most = 0;
    for (const EdgePlan& plan : plan_.edge_types) {
      const bool draws =
          std::any_of(plan.fanouts.begin(), plan.fanouts.end(), [](std::int64_t f) { return f > 0; });
      if (plan.alias_bytes == 0 || plan_.replace || !draws) continue;
      for (const HostPart& part : plan.parts)
        most += plan_.trees ? plan_.most_weights_left : static_cast<std::uint64_t>(part.num_edges);
    }
    return std::min(most, plan_.most_weights_left);
  }

  /// Returns whether each row's draws are few and need no more than its length and its number.
  static bool draws_in_place(const RowStep& step) {
    return step.fanout > 0 && step.fanout <= kMaxOwnDraws && !step.weighted() && !step.edges.temporal &&
           step.excluded.count == 0;
  }

  void look_at_rows(std::size_t e) {
    Edges& edges = edges_[e];
    RowStep& step = edges.step;
    if (step.row_bound == 0) return;
    edges.rows.reserve(step.row_bound);
    edges.offsets.reserve(step.row_bound + 1);
    step.rows = edges.rows.data();
    step.offsets = edges.offsets.data();
    backend_.launch(step.row_bound, LookAtRows{step});
    backend_.scan(step.row_bound + 1, RowOffsets{step}, step.offsets);
  }

  /// Waits for the numbers of edges of a hop, and has them for bounds.
  Fallback count_hop() {
    counted_ = true;
    ask_counts();
    memory_.host_hop_edges.reserve(edges_.size());
    for (std::size_t e = 0; e < edges_.size(); ++e)
      if (const RowStep& step = edges_[e].step; step.row_bound > 0)
        backend_.copy(memory_.host_hop_edges.data() + e, step.offsets + step.row_bound,
                      sizeof(std::uint64_t));
    backend_.wait();
    const std::uint64_t* const known = memory_.host_counts.data();
    if (known[BatchCells::kFlag] != 0) return static_cast<Fallback>(known[BatchCells::kFlag]);
    std::uint64_t edges = 0, nodes = 0;
    for (Nodes& of_type : nodes_) {
      of_type.bound = known[of_type.now];
      nodes = std::max(nodes, of_type.bound);
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      if (edges_[e].step.row_bound == 0) continue;
      edges_[e].bound = known[edges_[e].now];
      edges_[e].hop_bound = memory_.host_hop_edges.data()[e];
      edges = std::min(HopBounds::kMany, edges + edges_[e].hop_bound);
    }
    return edges + nodes > kMaxBatchNodes ? Fallback::kTooLarge : Fallback::kNone;
  }

  void ask_counts() {
    backend_.copy(memory_.host_counts.data(), memory_.counts.data(),
                  static_cast<std::size_t>(cells_.size()) * sizeof(std::uint64_t));
  }

  /// Draws an edge type's edges of a hop, and gives their sources local ids.
  void draw(int hop, std::size_t e) {
    const EdgePlan& plan = plan_.edge_types[e];
    Edges& edges = edges_[e];
    const auto src = static_cast<std::size_t>(plan.src_type);
    const std::uint64_t more = edges.hop_bound;
    if (more > 0) {
      const std::uint64_t known = nodes_[src].bound, most = std::min(bounds_.all_nodes(src), known + more);
      reserve_edges(e);
      if (!edges.in_place) draw_into_rows(e);
      make_room(src, most, known);
      // This edge type or another one of the hop may have moved the list since the rows were looked at.
      edges.step.dst_ids = nodes_[static_cast<std::size_t>(plan.dst_type)].ids.data();
      number_sources(hop, e);
      edges.bound += more;
      nodes_[src].next_bound = std::min(bounds_.all_nodes(src), nodes_[src].next_bound + more);
      nodes_[src].bound = most;
    }
    marks_.edges.push_back(edges.now);
  }

  void reserve_edges(std::size_t e) {
    const EdgePlan& plan = plan_.edge_types[e];
    Edges& edges = edges_[e];
    const std::uint64_t all = edges.bound + edges.hop_bound;
    edges.sources.reserve(all, edges.bound);
    if (plan_.edge_ids) edges.edge_ids.reserve(all, edges.bound);
    if (plan.positions) edges.positions.reserve(all, edges.bound);
    if (plan_.results_on_device) edges.targets.reserve(all, edges.bound);
    memory_.places.reserve(edges.hop_bound);
  }

  /// Draws where each row's edges begin behind those of the row before.
  void draw_into_rows(std::size_t e) {
    RowStep& step = edges_[e].step;
    const std::uint64_t edges = edges_[e].hop_bound;
    memory_.row_of.reserve(edges);
    if (step.weighted()) memory_.source_places.reserve(edges);
    step.places = memory_.places.data();
    step.row_of = memory_.row_of.data();
    step.source_places = memory_.source_places.data();
    step.dst_ids = nodes_[static_cast<std::size_t>(plan_.edge_types[e].dst_type)].ids.data();
    launch_draws(step, edges);
  }

  void number_sources(int hop, std::size_t e) {
    const EdgePlan& plan = plan_.edge_types[e];
    Edges& edges = edges_[e];
    const int number = static_cast<int>(e);
    IdStep ids = id_step(static_cast<std::size_t>(plan.src_type), edges.hop_bound, cells_.nodes(hop, number));
    ids.locals = edges.sources.data();
    ids.edges_before = cell(edges.now);
    edges.now = cells_.edges(hop, number);
    ids.edges_after = cell(edges.now);
    if (edges.in_place) {
      const bool asked = plan_.edge_ids || plan.positions;
      backend_.launch(ids.bound + 1,
                      DrawInPlace{edges.step, ids, plan_.trees, asked ? memory_.places.data() : nullptr});
    } else {
      backend_.launch(ids.bound + 1, ReadEdges{edges.step, ids, plan_.trees});
    }
    give_local_ids(ids);
    backend_.launch(
        ids.bound,
        WriteEdges{edges.step, ids, edges.in_place ? static_cast<std::uint32_t>(edges.step.fanout) : 0,
                   memory_.places.data(), plan_.edge_ids ? edges.edge_ids.data() : nullptr,
                   plan.positions ? edges.positions.data() : nullptr,
                   plan_.results_on_device ? edges.targets.data() : nullptr});
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

  /// Has what is new for the next hop's frontier.
  void move_on() {
    mark_nodes();
    for (Nodes& nodes : nodes_) {
      nodes.frontier_bound = nodes.next_bound;
      nodes.next_bound = 0;
    }
  }

  EngineResults<Backend> results() { return {plan_, backend_, memory_, nodes_, edges_, marks_}; }

  /// Tells the results, after the wait.
  Fallback tell(const EngineRequest& request) {
    if (request.meanwhile != nullptr) (*request.meanwhile)();
    backend_.wait();
    const std::uint64_t* const known = memory_.host_counts.data();
    if (known[BatchCells::kFlag] != 0) return static_cast<Fallback>(known[BatchCells::kFlag]);
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
  BatchCells cells_;
  CountMarks marks_;  // of the batch under way
  std::uint64_t num_seeds_ = 0, left_uncounted_ = 0;
  EngineResult result_;
  BatchShapes<Backend> shapes_;  // behind the backend, which has what they are recorded for
  bool counted_ = false;         // in the batch under way
  std::uint64_t replays_ = 0;
};

}  // namespace hopfeed::gpu
