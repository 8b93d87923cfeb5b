// hopfeed-bench sampler: sampled edges per second, against what the machine's random reads allow.
//
// The limit is random reads per second over the dataset's own `indices` (of the first edge type, all
// partitions), divided by the accesses per edge: one for the neighbour, one for its relabel slot, one row
// record per expanded node ((2E + F) / E), and one more per edge with edge ids. On a GPU the machine's random
// reads are no limit, and none is told: what the card reads is `limits --gpu`.
//
// Kinds other than uniform are also held against uniform sampling of the same dataset, just before and just
// after; links against nodes in batches of as many seeds.
#include <hwy/targets.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "bench/bench_data.h"
#include "bench/bench_options.h"
#include "bench/core/bench_seeds.h"
#include "bench/core/machine_limits.h"
#include "bench/core/serial_sampler.h"
#include "bench/measure.h"
#include "core/base/error.h"
#include "core/batch/aligned_block.h"
#include "core/batch/batch_view.h"
#include "core/maker/batch_maker.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/batches/device_sampler.h"
#include "gpu/device/gpu_sampling.h"

namespace hopfeed::bench {
namespace {

// By each thread, before the clock starts.
constexpr std::int64_t kVerifiedBatches = 1;

GpuOptions gpu_of(const BenchOptions& options) {
  return {.graph_mode = options.graph_mode,
          .gpu_device = options.gpu_device,
          .gpu_graph_cache = options.gpu_graph_cache};
}

/// A DeviceResults leaves its samples on the device, as for batches that lie there.
class DeviceResults final : public DeviceSampler {
 public:
  using DeviceSampler::DeviceSampler;
  const Sample& sample(const SampleRequest& request) override {
    if (const gpu::Fallback reason = sample_there(request); reason != gpu::Fallback::kNone)
      throw Error(ErrorCode::kUnsupported, std::string("the GPU does not sample such a batch (") +
                                               to_string(reason) + "); leave out --device-batches");
    return device_sample();
  }
};

NeighborSamplerFactory samplers_of(const BenchOptions& options) {
  if (!options.device_batches) return neighbor_samplers(gpu_of(options));
  return [gpu = gpu_of(options)](const Dataset& dataset, const BatchOptions& batch) {
    DeviceSamplerOptions device = device_sampler_options(dataset, gpu);
    device.results_on_device = true;
    device.warm = false;
    return std::make_unique<DeviceResults>(dataset, batch, device);
  };
}

struct Counts {
  double edges = 0, nodes = 0, expanded = 0, batches = 0;
  std::int64_t verified = 0;
};

constexpr std::int64_t kWalkLength = 20;  // steps, one walk a seed

// What one process per core would have of its own.
struct Worker {
  Worker(const Dataset& dataset, const BenchSeeds& list, const BatchOptions& batch,
         const NeighborSamplerFactory& make_neighbors)
      : seeds(list),
        data(dataset),
        sampler(make_sampler(dataset, batch, make_neighbors)),
        fields(list.fields()),
        maker(list.maker()) {}

  BatchKey key(int thread, int threads, std::int64_t repetition, std::int64_t batch_size) const {
    const std::int64_t per_epoch = std::max<std::int64_t>(1, seeds.size() / batch_size),
                       batch = repetition * threads + thread;
    return {.seed = 1,
            .epoch = batch / per_epoch,
            .first = batch % per_epoch * batch_size,
            .count = std::min(batch_size, seeds.size())};
  }

  SampleRequest request(const BatchKey& k) {
    const std::span<const TypedSeeds> typed = fields->seeds(k);
    return {.key = k, .seeds = typed, .excluded = fields->excluded()};
  }

  void sample_topology(const BatchKey& k) {
    const Sample& sample = sampler->sample(request(k));
    double edges = 0, nodes = 0, expanded = 0;
    for (const SampledEdges& type : sample.edges) edges += static_cast<double>(type.sources.size());
    for (const SampledNodes& type : sample.nodes) {
      nodes += static_cast<double>(type.dataset_ids.size());
      // Without hops (induced) the row of each node is read.
      const std::int64_t unread = type.per_hop.size() > 1 ? type.per_hop.back() : 0;
      expanded += static_cast<double>(type.dataset_ids.size()) - static_cast<double>(unread);
    }
    add(edges, nodes, expanded);
  }

  void make_batch(const BatchKey& k) {
    maker.write(block.resize(maker.sample(k)));
    const BatchView view(block.bytes());
    std::int64_t expanded = view.total_nodes();
    for (int t = 0; t < data.num_node_types(); ++t) {
      const auto per_hop = view.get("num_sampled_nodes", Store::kNode, t).as<std::int64_t>();
      if (per_hop.size() > 1) expanded -= per_hop.back();
    }
    add(static_cast<double>(view.total_edges()), static_cast<double>(view.total_nodes()),
        static_cast<double>(expanded));
  }

  // The last made batch against what the sampler alone gives, and that against the serial sampler.
  void verify(const BatchKey& k, const BatchOptions& batch, bool topology) {
    const SampleRequest asked = request(k);
    sampler->sample(asked);  // what a sampler keeps from batch to batch must not show in the next
    const Sample& sample = sampler->sample(asked);
    verify_sample(data, batch, asked, sample);
    ++counts.verified;
    if (topology) return;
    make_batch(k);
    const BatchView view(block.bytes());
    bool same = true;
    for (std::size_t e = 0; e < sample.edges.size(); ++e) {
      const auto index = view.get("edge_index", Store::kEdge, static_cast<int>(e)).as<std::int64_t>();
      same &= std::ranges::equal(sample.edges[e].sources, index.first(index.size() / 2));
    }
    for (std::size_t t = 0; t < sample.nodes.size(); ++t) {
      const auto n_id = view.get("n_id", Store::kNode, static_cast<int>(t)).as<std::int64_t>();
      same &= std::ranges::equal(sample.nodes[t].dataset_ids, n_id, {}, {},
                                 [&](std::int64_t id) { return data.dataset_id(static_cast<int>(t), id); });
    }
    if (!same) throw Error(ErrorCode::kCorrupt, "the block differs from the sample that it was made of");
  }

  void add(double edges, double nodes, double expanded) {
    counts.edges += edges;
    counts.nodes += nodes;
    counts.expanded += expanded;
    counts.batches += 1;
  }

  const BenchSeeds& seeds;
  const Dataset& data;
  const std::unique_ptr<Sampler> sampler;
  const std::unique_ptr<SeedFields> fields;
  BatchMaker maker;
  AlignedBlock block;
  Counts counts;
};

/// Samplers of one dataset and one set of options, one per thread.
class Workload {
 public:
  Workload(const BenchOptions& bench, const Dataset& dataset, BatchOptions batch)
      : bench_(bench),
        batch_(std::move(batch)),
        // A batch of one is a call of a serving system, which names its seed; the keyed shuffle would be most
        // of its time.
        seeds_(dataset, batch_, bench.batch_size > 1) {
    for (int t = 0; t < bench_.threads; ++t)
      workers_.push_back(std::make_unique<Worker>(dataset, seeds_, batch_, samplers_of(bench_)));
    if (DeviceSampler* device = dynamic_cast<DeviceSampler*>(workers_.back()->sampler.get()))
      device->wait_until_up();
  }

  /// Batches per second.
  Rate run() {
    return rate(bench_.threads, bench_.seconds, [&](int thread, std::int64_t repetition) {
      Worker& worker = *workers_[static_cast<std::size_t>(thread)];
      const BatchKey key = worker.key(thread, bench_.threads, repetition, bench_.batch_size);
      if (bench_.verify && repetition < kVerifiedBatches) worker.verify(key, batch_, bench_.topology);
      bench_.topology ? worker.sample_topology(key) : worker.make_batch(key);
      return 1;
    });
  }
  Counts counts() const {
    Counts sum;
    for (const auto& worker : workers_) {
      sum.edges += worker->counts.edges;
      sum.nodes += worker->counts.nodes;
      sum.expanded += worker->counts.expanded;
      sum.batches += worker->counts.batches;
      sum.verified += worker->counts.verified;
    }
    return sum;
  }
  double edges_per_batch() const { return counts().edges / counts().batches; }
  /// Nodes; of links both ends and their negatives, each node once.
  std::int64_t seeds_per_batch() const {
    constexpr std::int64_t kBatches = 8;
    std::size_t seeds = 0;
    for (std::int64_t i = 0; i < kBatches; ++i)
      seeds += workers_[0]->request(workers_[0]->key(0, 1, i, bench_.batch_size)).num_seeds();
    return static_cast<std::int64_t>(seeds) / kBatches;
  }
  /// The arrays that were made, each name once.
  std::set<std::string> fields() const {
    if (bench_.topology) return {"local ids"};
    std::set<std::string> names;
    const BatchView view(workers_[0]->block.bytes());
    for (int i = 0; i < view.num_arrays(); ++i) names.emplace(view.array(i).name);
    return names;
  }
  /// Null where it samples on the CPU alone.
  DeviceSampler* device() const { return dynamic_cast<DeviceSampler*>(workers_[0]->sampler.get()); }
  std::size_t scratch_bytes() const {
    return bench_.topology ? workers_[0]->sampler->scratch_bytes() : workers_[0]->maker.scratch_bytes();
  }

 private:
  const BenchOptions bench_;
  const BatchOptions batch_;
  const BenchSeeds seeds_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// The first weight or time that the dataset has.
std::string first_of(const Dataset& dataset, const std::vector<std::string>& names, const char* what) {
  if (!names.empty()) return names.front();
  throw Error(ErrorCode::kNotFound,
              dataset.folder().string() + " has no " + what + "; import one with --" + what);
}

MadeUp made_up_for(const std::string& kind) {
  return kind.starts_with("weighted")   ? MadeUp::kWeights
         : kind.starts_with("temporal") ? MadeUp::kTimes
         : kind == "hetero"             ? MadeUp::kTypes
                                        : MadeUp::kNothing;
}

BatchOptions batch_options(const BenchOptions& options, const Dataset& dataset, const std::string& kind) {
  BatchOptions batch{
      .fanouts = options.fanouts, .edge_ids = options.edge_ids, .attrs = std::vector<std::string>{}};
  if (!options.topology) {
    for (const NodeTypeMeta& type : dataset.meta().node_types) {
      for (const AttrMeta& attr : type.attrs)  // every default field but features
        if (attr.name != "x" && std::ranges::find(*batch.attrs, attr.name) == batch.attrs->end())
          batch.attrs->push_back(attr.name);
    }
  }
  const EdgeTypeMeta& edge = dataset.meta().edge_types.at(0);
  if (kind == "hetero")  // two edge types end at each node: about as many edges as without types
    for (std::int64_t& fanout : batch.fanouts) fanout = fanout < 0 ? fanout : (fanout + 1) / 2;
  batch.replace = kind == "replace" || kind == "weighted-replace";
  batch.disjoint = kind == "disjoint";
  batch.labor = kind == "labor";
  if (batch.labor && options.labor_batches > 1)
    batch.labor_seeds = options.labor_batches * options.batch_size;
  if (kind == "induced") batch.subgraph = Subgraph::kInduced;
  if (kind == "walk") {
    batch.sampler = BatchOptions::kWalkSampler;
    batch.fanouts = BatchOptions{}.fanouts;  // which walks do not know
    batch.walk = {.length = kWalkLength};
  }
  if (kind.starts_with("weighted")) batch.weight = first_of(dataset, edge.weights, "weight");
  if (kind.starts_with("temporal")) {
    batch.time = first_of(dataset, edge.times, "time");
    if (options.data.empty()) batch.seed_time = "seed_time";
  }
  if (kind.starts_with("link"))
    batch.link = {.edge_type = edge.folder(),
                  .negatives = {.mode = NegativeMode::kBinary, .amount = 1, .strict = kind == "link-strict"},
                  .exclude = kind == "link-exclude" ? Exclude::kSelf : Exclude::kNone};
  if (kind == "temporal-last") batch.temporal_strategy = TemporalStrategy::kLast;
  return batch;
}

// The set of that name. A processor without it is refused: Highway would end the program.
std::int64_t only(const std::string& instructions) {
  const std::int64_t set = instructions == "avx2" ? HWY_AVX2 : HWY_SSE4;
  if ((hwy::SupportedTargets() & set) == 0)
    throw Error(ErrorCode::kUnsupported,
                "this processor has no " + instructions + "; leave out --instructions");
  return set;
}

Rate random_reads(const BenchOptions& options, const CscView& csc) {
  return random_reads_per_s(csc, {.threads = options.threads, .seconds = std::min(1.0, options.seconds)});
}

}  // namespace

Report bench_sampler(const BenchOptions& options) {
  if (options.instructions != "best") hwy::SetSupportedTargetsForTest(only(options.instructions));
  if (options.labor_batches > 1 && options.kind != "labor")
    throw Error(ErrorCode::kInvalid, "--labor-batches is of --kind labor; give both");
  if (options.device_batches &&
      (options.graph_mode == GraphMode::kCpu || options.verify || !options.topology))
    throw Error(
        ErrorCode::kInvalid,
        "--device-batches leaves samples in a GPU's memory: give --graph-mode uva or cuda, and neither "
        "--verify nor --output batch");
  check_gpu_device(options.gpu_device, options.graph_mode);
  check_gpu_graph_cache(options.gpu_graph_cache, options.graph_mode);
  require_graph_mode(gpu_of(options));  // before a graph is generated for it
  const bool plain = options.kind == "uniform" || options.kind == "replace";
  const Dataset dataset(dataset_folder(options, made_up_for(options.kind)),
                        {.huge_pages = options.huge_pages});
  if (options.kind == "hetero" && dataset.num_edge_types() == 1)
    throw Error(ErrorCode::kInvalid,
                dataset.folder().string() +
                    " has one edge type; --kind hetero wants a graph of several, or leave "
                    "out --data for a generated one");
  const BatchOptions batch = batch_options(options, dataset, options.kind);
  Workload workload(options, dataset, batch);
  if (options.device_batches && workload.device() == nullptr)
    throw Error(ErrorCode::kUnsupported,
                "a GPU does not sample --kind " + options.kind + "; leave out --device-batches");
  std::optional<Dataset> untyped;
  if (options.kind == "hetero")
    untyped.emplace(dataset_folder(options), DatasetOptions{.huge_pages = options.huge_pages});
  const Dataset& compared = untyped ? *untyped : dataset;
  std::optional<Workload> uniform;  // with replacement where the kind is
  if (!plain) {
    BenchOptions other = options;
    if (batch.link.on()) other.batch_size = workload.seeds_per_batch();
    uniform.emplace(other, compared, batch_options(options, compared, batch.replace ? "replace" : "uniform"));
  }
  const Rate reads_before = random_reads(options, dataset.csc(0));
  const Rate uniform_before = uniform ? uniform->run() : Rate{};
  const Rate batches = workload.run();
  const Rate uniform_batches = uniform ? mean(uniform_before, uniform->run()) : Rate{};
  const Rate reads = mean(reads_before, random_reads(options, dataset.csc(0)));

  const PageUse use = dataset.page_use();
  const Counts sum = workload.counts();
  const double edges = workload.edges_per_batch();
  const double reads_per_edge = ((options.edge_ids ? 3 : 2) * sum.edges + sum.expanded) / sum.edges;
  const double edges_per_s = batches.per_s * edges;
  Report report{{"threads", options.threads},
                {"kind", options.kind},
                {"edges_per_s", edges_per_s},
                {"edges_per_s_per_core", edges_per_s / options.threads},
                {"seeds_per_s", batches.per_s * static_cast<double>(workload.seeds_per_batch())},
                {"edges_per_batch", edges},
                {"nodes_per_batch", sum.nodes / sum.batches},
                {"ms_per_batch", 1e3 * options.threads / batches.per_cpu_s},
                {"us_per_call", 1e6 * options.threads / batches.per_cpu_s},
                {"cpu_share", batches.cpu_share()},
                {"random_reads_per_s", reads.per_s},
                {"limit_edges_per_s", reads.per_s / reads_per_edge},
                {"fraction_of_limit", batches.per_cpu_s * edges / (reads.per_cpu_s / reads_per_edge)},
                {"scratch_bytes", workload.scratch_bytes()},
                {"huge_page_bytes", use.huge},
                {"resident_bytes", use.resident},
                {"verified_batches", sum.verified},
                {"fields", workload.fields()}};
  if (options.graph_mode != GraphMode::kCpu) {
    for (const char* of_the_cpu : {"random_reads_per_s", "limit_edges_per_s", "fraction_of_limit"})
      report.erase(of_the_cpu);
    report["graph_mode"] = to_string(options.graph_mode);
    if (const DeviceSampler* device = workload.device()) {
      const std::uint64_t there = device->batches(gpu::Fallback::kNone);
      report["device_batches_of_first_thread"] = there;
      report["waits_of_first_thread"] = device->waits();
      const GpuUse gpu = device->gpu_use();
      report["graph_bytes_of_first_thread"] = gpu.graph_bytes;
      report["graph_share_of_first_thread"] = gpu.graph.ratio();
      std::uint64_t here = 0;
      for (std::uint64_t reason = 1; reason < static_cast<std::uint64_t>(gpu::Fallback::kEnd); ++reason)
        here += device->batches(static_cast<gpu::Fallback>(reason));
      report["cpu_batches_of_first_thread"] = here;
    }
  }
  if (options.instructions != "best") report["instructions"] = options.instructions;
  if (batch.labor) report["labor_batches"] = options.labor_batches;
  if (uniform) {
    const double uniform_edges = uniform->edges_per_batch();
    report["uniform_edges_per_s"] = uniform_batches.per_s * uniform_edges;
    report["ratio_to_uniform"] = batches.per_cpu_s * edges / (uniform_batches.per_cpu_s * uniform_edges);
  }
  return report;
}

}  // namespace hopfeed::bench
