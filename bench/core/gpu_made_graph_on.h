// Measures what gpu_made_graph.h says. It runs over a backend (gpu/device/host_backend.h).
//
// Node i is the i-th by degree: the rows of the first i nodes have edges * sqrt(i / nodes) edges, a power
// law. Sources are drawn in proportion to degrees: node nodes * u^2, for u uniform in [0, 1).
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bench/core/gpu_made_graph.h"
#include "core/base/error.h"
#include "core/base/host_device.h"
#include "core/base/memory_limits.h"
#include "gpu/engine/hop_engine_on.h"
#include "gpu/memory/device_array.h"

namespace hopfeed::bench {

/// Writes item i of nodes + 1.
struct MakeRows {
  RowRecord* rows = nullptr;
  std::int64_t nodes = 0, edges = 0;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t i) const {
    const double share = sqrt(static_cast<double>(i) / static_cast<double>(nodes));
    const auto offset = static_cast<std::int64_t>(static_cast<double>(edges) * share);
    const bool last = i == static_cast<std::uint64_t>(nodes);
    rows[i] = {.offset = last ? edges : offset, .original_id = last ? -1 : static_cast<std::int64_t>(i)};
  }
};

/// Writes item e of edges.
struct MakeSources {
  std::int32_t* sources = nullptr;
  std::int64_t nodes = 0;
  HOPFEED_HOST_DEVICE void operator()(std::uint64_t e) const {
    std::uint64_t word = (e + 1) * 0x9E3779B97F4A7C15u;  // splitmix64
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    word ^= word >> 31;
    const double u = static_cast<double>(word >> 11) * 0x1p-53;
    const auto node = static_cast<std::int64_t>(u * u * static_cast<double>(nodes));
    sources[e] = static_cast<std::int32_t>(node < nodes ? node : nodes - 1);
  }
};

template <class Backend>
class MadeGraphMeter {
 public:
  MadeGraphMeter(const MadeGraphOptions& options, const typename Backend::Options& of_backend)
      : options_(options),
        of_backend_(of_backend),
        backend_(of_backend),
        rows_(backend_),
        sources_(backend_) {
    require_valid(options.nodes > 0 && options.nodes <= INT32_MAX && options.edges >= options.nodes,
                  "--nodes and --edges: nodes are 1 to 2^31 - 1, and edges at least as many");
    const std::size_t bytes = (static_cast<std::size_t>(options.nodes) + 1) * sizeof(RowRecord) +
                              static_cast<std::size_t>(options.edges) * sizeof(std::int32_t);
    require_memory(bytes, available_memory(), "the graph in pinned memory", "lower --nodes and --edges");
  }

  MadeGraphRates measure() {
    const typename Backend::Scope scope(backend_);
    MadeGraphRates rates;
    make(rates);
    gpu::HopEngineOn<Backend> engine(plan(), of_backend_);
    for (int i = 0; i < kWarm; ++i) sample(engine);
    if (options_.verify) rates.verified_edges = verify(engine.result());
    const auto begin = Clock::now();
    std::uint64_t edges = 0, nodes = 0;
    double seconds = 0;
    do {
      sample(engine);
      edges += engine.result().edges[0].count;
      nodes += engine.result().nodes[0].count;
      ++rates.batches;
      seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    } while (seconds < options_.seconds);
    const auto batches = static_cast<double>(rates.batches);
    rates.edges_per_s = static_cast<double>(edges) / seconds;
    rates.edges_per_batch = static_cast<double>(edges) / batches;
    rates.nodes_per_batch = static_cast<double>(nodes) / batches;
    rates.ms_per_batch = 1e3 * seconds / batches;
    rates.replays = static_cast<std::int64_t>(engine.replays());
    return rates;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kWarm = 3;  // the first is asked for, the second recorded

  void make(MadeGraphRates& rates) {
    const auto begin = Clock::now();
    rows_.reserve(static_cast<std::size_t>(options_.nodes) + 1);
    sources_.reserve(static_cast<std::size_t>(options_.edges));
    backend_.launch(static_cast<std::uint64_t>(options_.nodes) + 1,
                    MakeRows{rows_.data(), options_.nodes, options_.edges});
    backend_.launch(static_cast<std::uint64_t>(options_.edges), MakeSources{sources_.data(), options_.nodes});
    backend_.wait();
    rates.made_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }

  gpu::EnginePlan plan() const {
    gpu::EnginePlan plan;
    plan.num_nodes = {options_.nodes};
    plan.hops = static_cast<int>(options_.fanouts.size());
    plan.node_bits = 63;
    plan.place = options_.graph_on_device ? gpu::GraphPlace::kDevice : gpu::GraphPlace::kHost;
    plan.hot.automatic = options_.hot_bytes < 0;
    if (options_.hot_bytes > 0) plan.hot.bytes = static_cast<std::size_t>(options_.hot_bytes);
    gpu::EdgePlan& edges = plan.edge_types.emplace_back();
    edges.partition_offsets = {0, options_.nodes};
    edges.fanouts = options_.fanouts;
    gpu::HostPart& part = edges.parts.emplace_back();
    part.rows = rows_.data();
    part.indices = sources_.data();
    part.num_rows = options_.nodes;
    part.num_edges = options_.edges;
    return plan;
  }

  void sample(gpu::HopEngine& engine) {
    seeds_.clear();
    for (std::int64_t i = 0; i < options_.batch_size; ++i)
      seeds_.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(options_.nodes)));
    streams_.clear();
    for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop)
      streams_.push_back(node_stream({.purpose = Purpose::kNeighbors,
                                      .seed = 1,
                                      .epoch = 0,
                                      .first = first_,
                                      .hop = static_cast<std::uint32_t>(hop),
                                      .edge_type = 0}));
    first_ += options_.batch_size;
    const gpu::EngineSeeds seeds{.node_type = 0, .ids = seeds_.data(), .count = seeds_.size()};
    const gpu::Fallback reason =
        engine.sample({.seeds = &seeds, .num_entries = 1, .streams = streams_.data()});
    if (reason != gpu::Fallback::kNone)
      throw Error(ErrorCode::kUnsupported, "the card does not sample such a batch; lower the fanouts");
  }

  /// Throws kCorrupt unless each edge is one of its destination's row; returns how many there are.
  std::int64_t verify(const gpu::EngineResult& result) const {
    const gpu::EngineNodes& nodes = result.nodes[0];
    const gpu::EngineEdges& edges = result.edges[0];
    std::size_t e = 0;
    for (std::size_t i = 0; i < nodes.expanded; ++i) {
      const RowRecord* const row = rows_.data() + nodes.ids[i];
      const std::int32_t *const begin = sources_.data() + row[0].offset, *const end =
                                                                             sources_.data() + row[1].offset;
      for (std::uint32_t k = 0; k < edges.per_dst[i]; ++k, ++e)
        if (std::find(begin, end, static_cast<std::int32_t>(nodes.ids[edges.sources[e]])) == end)
          throw Error(ErrorCode::kCorrupt, "edge " + std::to_string(e) + " of a batch is none of the graph");
    }
    if (e != edges.count) throw Error(ErrorCode::kCorrupt, "a batch has edges of no node");
    return static_cast<std::int64_t>(e);
  }

  const MadeGraphOptions options_;
  const typename Backend::Options of_backend_;
  Backend backend_;
  gpu::DeviceArray<Backend, RowRecord, gpu::Where::kPinned> rows_;
  gpu::DeviceArray<Backend, std::int32_t, gpu::Where::kPinned> sources_;
  std::vector<std::int64_t> seeds_;
  std::vector<NodeStream> streams_;
  std::int64_t first_ = 0;
  std::mt19937_64 random_{1};
};

}  // namespace hopfeed::bench
