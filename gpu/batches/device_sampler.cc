// See device_sampler.h.
#include "gpu/batches/device_sampler.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <system_error>
#include <utility>

#include "core/base/notes.h"
#include "core/base/saturating.h"

namespace hopfeed {
namespace {

bool runs_on_devices(const BatchOptions& options) {
  return options.sampler == BatchOptions::kNeighborSampler && !options.labor &&
         options.subgraph == Subgraph::kDirectional;
}

}  // namespace

const char* to_string(gpu::Fallback reason) {
  switch (reason) {
    case gpu::Fallback::kKind:
      return "kind of sampling";
    case gpu::Fallback::kTooLarge:
      return "too large";
    case gpu::Fallback::kWideRow:
      return "row of too many edges";
    case gpu::Fallback::kDrawsRemove:
      return "weighted rows of few heavy edges";
    case gpu::Fallback::kDamaged:
      return "damaged graph";
    case gpu::Fallback::kWarming:
      return "the GPU is not up yet";
    case gpu::Fallback::kFailed:
      return "error of the GPU";
    case gpu::Fallback::kNone:
    case gpu::Fallback::kEnd:
      break;
  }
  return "none";
}

DeviceSampler::DeviceSampler(const Dataset& dataset, const BatchOptions& options,
                             const DeviceSamplerOptions& device)
    : dataset_(dataset),
      options_(options),
      results_on_device_(device.results_on_device),
      cpu_fallback_(device.cpu_fallback),
      ends_when_broken_(device.ends_when_broken),
      cpu_(dataset, options),
      types_(plan_edge_types(dataset, options)) {
  for (int t = 0; t < dataset.num_node_types(); ++t)
    node_bits_ = std::max(node_bits_,
                          static_cast<int>(std::bit_width(static_cast<std::uint64_t>(dataset.num_nodes(t)))));
  result_.nodes.resize(static_cast<std::size_t>(dataset.num_node_types()));
  result_.edges.resize(types_.size());
  excluded_.resize(types_.size());
  time_places_.resize(types_.size());
  times_.resize(types_.size());
  samples_there_ = runs_on_devices(options);
  if (!samples_there_) return;
  const gpu::BatchCells cells{.node_types = dataset.num_node_types(),
                              .edge_types = static_cast<int>(types_.size()),
                              .hops = static_cast<int>(options.fanouts.size())};
  fixed_pinned_ = (static_cast<std::size_t>(cells.size()) + types_.size()) * sizeof(std::uint64_t) +
                  options.fanouts.size() * types_.size() * sizeof(NodeStream);
  if (!device.make_engine) return;
  const auto make = [make = device.make_engine, plan = make_plan(device)] {
    return std::shared_ptr<gpu::HopEngine>(make(plan));
  };
  try {
    if (device.warm) coming_ = std::async(std::launch::async, make).share();
  } catch (const std::system_error&) {  // no more threads may be started: batches wait for it
  }
  if (coming_.valid()) return;
  try {
    engine_ = make();
  } catch (const Error& error) {
    give_up(error);
  }
}

/// Whether there is an engine now.
bool DeviceSampler::is_up() {
  if (engine_ == nullptr && coming_.valid() &&
      coming_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    wait_until_up();
  return engine_ != nullptr;
}

void DeviceSampler::wait_until_up() {
  if (engine_ != nullptr || !coming_.valid() || lost_) return;
  try {
    engine_ = coming_.get();
  } catch (const Error& error) {
    give_up(error);
  }
}

void DeviceSampler::give_up(const Error& error) {
  if (!cpu_fallback_) throw;
  lost_ = true;
  give_warning_once("lost GPU", "the GPU cannot be used, and the CPU samples: " + error.message());
}

gpu::EnginePlan DeviceSampler::make_plan(const DeviceSamplerOptions& device) const {
  gpu::EnginePlan plan;
  for (int t = 0; t < dataset_.num_node_types(); ++t) plan.num_nodes.push_back(dataset_.num_nodes(t));
  plan.hops = static_cast<int>(options_.fanouts.size());
  plan.replace = options_.replace;
  plan.edge_ids = options_.edge_ids;
  plan.trees = options_.trees();
  plan.last = options_.temporal_strategy == TemporalStrategy::kLast;
  plan.node_bits = node_bits_;
  plan.place = device.place;
  plan.hot = device.hot;
  plan.results_on_device = device.results_on_device;
  plan.device = device.device;
  plan.most_uncounted_edges = device.most_uncounted_edges;
  plan.most_weights_left = device.most_weights_left;
  for (const EdgeTypePlan& type : types_) {
    const CscView& csc = type.csc;
    gpu::EdgePlan& edges = plan.edge_types.emplace_back();
    edges.src_type = csc.src_type;
    edges.dst_type = csc.dst_type;
    edges.partition_offsets.assign(csc.partition_offsets.begin(), csc.partition_offsets.end());
    edges.index_bytes = static_cast<int>(element_bytes(csc.index_type));
    edges.edge_id_bytes = static_cast<int>(element_bytes(csc.edge_id_type));
    edges.alias_bytes = type.weight ? static_cast<int>(type.weight->entry_bytes) : 0;
    edges.temporal = type.time.has_value();
    edges.fanouts = type.fanouts;
    edges.positions = type.positions;
    for (std::size_t p = 0; p < csc.parts.size(); ++p) {
      const CscPart& part = csc.parts[p];
      gpu::HostPart& host = edges.parts.emplace_back();
      host.rows = part.rows;
      host.indices = part.indices;
      host.edge_ids = options_.edge_ids ? part.edge_ids : nullptr;
      if (type.weight) host.aliases = reinterpret_cast<const unsigned char*>(type.weight->parts[p]);
      if (type.time) {
        host.indices = type.time->indices[p];
        host.codes = type.time->codes[p];
        host.times = type.time->times[p];
        if (options_.edge_ids || type.positions) host.order = type.time->order[p];
      }
      host.num_rows = part.num_rows;
      host.num_edges = part.num_edges;
      host.first_edge = part.first_edge;
    }
  }
  return plan;
}

const Sample& DeviceSampler::sample(const SampleRequest& request) {
  return sample_there(request) == gpu::Fallback::kNone ? result_ : cpu_.sample(request);
}

gpu::Fallback DeviceSampler::sample_there(const SampleRequest& request,
                                          const std::function<void()>& meanwhile) {
  const gpu::Fallback reason = try_there(request, meanwhile);
  ++batches_[static_cast<std::size_t>(reason)];
  return reason;
}

gpu::Fallback DeviceSampler::try_there(const SampleRequest& request, const std::function<void()>& meanwhile) {
  const bool up = is_up();
  if (lost_) return gpu::Fallback::kFailed;
  if (!up) return coming_.valid() ? gpu::Fallback::kWarming : gpu::Fallback::kKind;
  try {
    return start(request, meanwhile);
  } catch (const BrokenProcess& error) {
    if (ends_when_broken_) throw;
    give_up(error);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNoSpace || !cpu_fallback_)
      give_up(error);
    else
      give_warning_once("full GPU",
                        "the GPU has no memory for a batch, and the CPU samples it: " + error.message());
  }
  return gpu::Fallback::kFailed;
}

gpu::Fallback DeviceSampler::start(const SampleRequest& request, const std::function<void()>& meanwhile) {
  const std::size_t num_seeds = request.num_seeds();
  if (options_.trees() && std::bit_width(num_seeds) + node_bits_ > 63) return gpu::Fallback::kTooLarge;
  bool excludes = false;
  if (request.excluded != nullptr) excludes = take_excluded(*request.excluded);
  if (excludes && !options_.weight.empty()) return gpu::Fallback::kKind;
  name_streams(request.key);
  if (!options_.time.empty()) take_times(request);
  seeds_.clear();
  for (const TypedSeeds& entry : request.seeds)
    seeds_.push_back({.node_type = entry.node_type, .ids = entry.ids.data(), .count = entry.ids.size()});
  const gpu::Fallback reason = engine_->sample({.seeds = seeds_.data(),
                                                .num_entries = seeds_.size(),
                                                .streams = streams_.data(),
                                                .excluded = excludes ? excluded_.data() : nullptr,
                                                .times = times_.data(),
                                                .meanwhile = meanwhile ? &meanwhile : nullptr});
  if (reason == gpu::Fallback::kNone) take_result(num_seeds);
  return reason;
}

/// Names the streams as NeighborSampler does.
void DeviceSampler::name_streams(const BatchKey& key) {
  streams_.clear();
  for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop)
    for (std::size_t e = 0; e < types_.size(); ++e)
      streams_.push_back(node_stream({.purpose = Purpose::kNeighbors,
                                      .seed = key.seed,
                                      .epoch = key.epoch,
                                      .first = key.first,
                                      .hop = static_cast<std::uint32_t>(hop),
                                      .edge_type = static_cast<std::uint32_t>(e)}));
}

/// Whether there are any.
bool DeviceSampler::take_excluded(const ExcludedEdges& excluded) {
  bool any = false;
  for (std::size_t e = 0; e < types_.size(); ++e) {
    excluded_[e] = {};
    if (!excluded.any(static_cast<int>(e))) continue;
    const ExcludedEdges::Lists lists = excluded.lists(static_cast<int>(e));
    excluded_[e] = {.destinations = lists.destinations.data(),
                    .first = lists.first.data(),
                    .sources = lists.sources.data(),
                    .count = lists.destinations.size()};
    any = true;
  }
  return any;
}

void DeviceSampler::take_times(const SampleRequest& request) {
  seed_times_.reserve(request.num_seeds());
  std::int64_t* times = seed_times_.data();
  for (const TypedSeeds& entry : request.seeds) times = std::ranges::copy(entry.times, times).out;
  for (std::size_t e = 0; e < types_.size(); ++e) {
    if (!types_[e].time) continue;
    SeedPlaces& places = time_places_[e];
    places.find(types_[e].time->bounds, {seed_times_.data(), request.num_seeds()}, options_);
    times_[e] = {.ends = places.ends().data(),
                 .begins = places.begins().empty() ? nullptr : places.begins().data()};
  }
}

void DeviceSampler::take_result(std::size_t num_seeds) {
  const gpu::EngineResult& got = engine_->result();
  const DatasetMeta& meta = dataset_.meta();
  result_.num_seeds = 0;
  for (std::size_t t = 0; t < result_.nodes.size(); ++t) {
    const gpu::EngineNodes& nodes = got.nodes[t];
    // Node types that no edge ends at are expanded without rows, so nothing read their original ids.
    const bool has_rows = meta.has_rows(meta.node_types[t]);
    result_.nodes[t] = {.dataset_ids = {nodes.ids, nodes.count},
                        .original_ids = {nodes.original_ids, has_rows ? nodes.expanded : 0},
                        .per_hop = nodes.per_hop,
                        .trees = {nodes.trees, options_.trees() && !results_on_device_ ? nodes.count : 0}};
    result_.num_seeds += nodes.per_hop[0];
  }
  for (std::size_t e = 0; e < result_.edges.size(); ++e) {
    const gpu::EngineEdges& edges = got.edges[e];
    const std::size_t dst = static_cast<std::size_t>(types_[e].csc.dst_type);
    result_.edges[e] = {.sources = {edges.sources, edges.count},
                        .per_dst = {edges.per_dst, results_on_device_ ? 0 : got.nodes[dst].expanded},
                        .targets = {edges.targets, results_on_device_ ? edges.count : 0},
                        .edge_ids = {edges.edge_ids, options_.edge_ids ? edges.count : 0},
                        .positions = {edges.positions, types_[e].positions ? edges.count : 0},
                        .per_hop = edges.per_hop};
  }
  const bool repeats = static_cast<std::size_t>(result_.num_seeds) < num_seeds;
  result_.seed_index = {got.seed_index, repeats ? num_seeds : 0};
}

GpuUse DeviceSampler::gpu_use() const {
  GpuUse use;
  for (const std::uint64_t count : batches_) use.cpu_batches += static_cast<std::int64_t>(count);
  use.gpu_batches = static_cast<std::int64_t>(batches(gpu::Fallback::kNone));
  use.cpu_batches -= use.gpu_batches;
  if (engine_ == nullptr) return use;
  use.graph_bytes = engine_->graph_bytes();
  use.graph = engine_->graph_share();
  return use;
}

std::size_t DeviceSampler::scratch_bytes() const {
  std::size_t bytes = cpu_.scratch_bytes() + seed_times_.bytes();
  for (const SeedPlaces& places : time_places_) bytes += places.bytes();
  return bytes + (engine_ ? engine_->pinned_bytes() : 0);
}

// Results take as much as the engine's bounds say, which do not mind that an edge type may run out of edges.
std::size_t DeviceSampler::max_scratch_bytes(SeedCounts seeds) const {
  std::size_t bytes = cpu_.max_scratch_bytes(seeds);
  if (!samples_there_) return bytes;
  if (!options_.time.empty())
    bytes += decltype(seed_times_)::max_bytes(static_cast<std::size_t>(total_of(seeds)));
  for (const EdgeTypePlan& type : types_)
    if (type.time) bytes += SeedPlaces::max_bytes(static_cast<std::size_t>(total_of(seeds)), options_);
  const std::int64_t trees = options_.trees() ? total_of(seeds) : 1;
  const auto all_nodes = [&](std::size_t t) {
    return saturating_product(dataset_.num_nodes(static_cast<int>(t)), trees);
  };
  std::vector<std::int64_t> nodes(result_.nodes.size(), 0), edges(types_.size(), 0);
  for (const auto& [type, count] : seeds) {
    const auto t = static_cast<std::size_t>(type);
    nodes[t] = std::min(saturating_sum(nodes[t], count), all_nodes(t));
  }
  std::vector<std::int64_t> frontier = nodes;
  for (std::size_t hop = 0; hop < options_.fanouts.size(); ++hop) {
    std::vector<std::int64_t> next(frontier.size(), 0);
    for (std::size_t e = 0; e < types_.size(); ++e) {
      const CscView& csc = types_[e].csc;
      const auto src = static_cast<std::size_t>(csc.src_type), dst = static_cast<std::size_t>(csc.dst_type);
      const std::int64_t fanout = types_[e].fanouts[hop];
      const std::int64_t more =
          fanout < 0 ? saturating_product(csc.num_edges, trees) : saturating_product(frontier[dst], fanout);
      edges[e] = saturating_sum(edges[e], more);
      next[src] = std::min(saturating_sum(next[src], more), all_nodes(src));
    }
    for (std::size_t t = 0; t < nodes.size(); ++t)
      nodes[t] = std::min(saturating_sum(nodes[t], next[t]), all_nodes(t));
    frontier = next;
  }
  std::int64_t pinned = saturating_product(total_of(seeds), sizeof(std::uint32_t) + sizeof(std::int64_t));
  const auto add = [&](std::int64_t count, std::size_t width) {
    pinned = saturating_sum(pinned, saturating_product(count, static_cast<std::int64_t>(width)));
  };
  for (const std::int64_t count : nodes) add(count, (options_.trees() ? 3 : 2) * sizeof(std::int64_t));
  for (std::size_t e = 0; e < types_.size(); ++e) {
    const std::size_t ids = (options_.edge_ids ? 1 : 0) + (types_[e].positions ? 1 : 0);
    add(edges[e], sizeof(std::uint32_t) + ids * sizeof(std::int64_t));
    add(nodes[static_cast<std::size_t>(types_[e].csc.dst_type)], sizeof(std::uint32_t));
  }
  return bytes + fixed_pinned_ + static_cast<std::size_t>(saturating_product(pinned, 3)) / 2;
}

}  // namespace hopfeed
