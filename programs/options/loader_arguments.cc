// See loader_arguments.h.
#include "programs/options/loader_arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "cache/open_file_reader.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/program/parse_option.h"
#include "core/program/patient_write.h"
#include "gpu/device/auto_graph_mode.h"
#include "peers/peer_network.h"
#include "stream/seed_files.h"

namespace hopfeed {
namespace {

constexpr const char *kSampling = "Sampling", *kSpeed = "Speed and memory";  // headings of --help
constexpr const char* kAuto = "auto";                                        // a graph mode of programs alone

/// "15,10,5", as parse_fanouts reads it.
std::string text_of(const std::vector<std::int64_t>& fanouts) {
  return fmt::format("{}", fmt::join(fanouts, ","));
}

GpuCache gpu_cache_of(const std::string& text, const std::string& option) {
  const CacheSize size = parse_cache_size(text, option);
  return {.automatic = size.automatic, .ratio = size.ratio, .bytes = size.bytes};
}

}  // namespace

LoaderArguments::LoaderArguments(LoaderOptions& options)
    : options_(options),
      fanouts_(text_of(options.batch.fanouts)),
      huge_pages_(to_string(options.execution.huge_pages)),
      graph_mode_(to_string(options.execution.graph_mode)),
      features_from_(to_string(options.execution.features.from)),
      subgraph_(to_string(options.batch.subgraph)),
      temporal_strategy_(to_string(options.batch.temporal_strategy)),
      negatives_(to_string(options.batch.link.negatives.mode)),
      exclude_(to_string(options.batch.link.exclude)) {}

void LoaderArguments::add_fanouts(CommandLine& line, const std::string& seeds) {
  const CommandLine::Group group(line, kSampling);
  line.option("--fanouts", fanouts_, "Neighbours drawn per hop, -1 for all");
  line.option("--batch-size", options_.deal.batch_size, seeds + " per batch and rank",
              {.min = 1, .max = kMaxBatchSize});
}

void LoaderArguments::add_edge_fanouts(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  line.option(
      "--edge-fanouts", edge_fanouts_,
      "Fanouts of edge types, by name or by src__name__dst (depends=15,10;recommends=5,0); others take "
      "--fanouts");
}

void LoaderArguments::add_draws(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  BatchOptions& batch = options_.batch;
  line.flag("--replace", batch.replace, "Draw with replacement");
  line.option("--weight", batch.weight, "Draw in proportion to this edge attribute");
  line.flag("--labor", batch.labor,
            "Layer-dependent sampling (LABOR): destinations take the same neighbours where they can");
  line.option(
      "--labor-batches", labor_batches_,
      "With --labor: so many batches in a row take the same neighbours where they can, and are faster for it",
      {.min = 1, .max = 1 << 20});
  line.option("--subgraph", subgraph_,
              "Edges between the nodes of a batch: those that were drawn, these and their reverses, or all",
              {.one_of = {"directional", "bidirectional", "induced"}});
  line.flag("--keep-orig-edges", batch.keep_orig_edges,
            "With --subgraph bidirectional: the edges as they were drawn beside it");
  line.flag("--disjoint", batch.disjoint, "A tree of its own for each seed");
  line.option("--time", batch.time,
              "Only neighbours no later than their seed, by this attribute of edges or of nodes");
  line.option("--seed-time", batch.seed_time,
              "Attribute of the seeds that is their time; default: that of --time");
  line.option("--temporal-strategy", temporal_strategy_, "Which of the past: drawn uniformly, or the last",
              {.one_of = {"uniform", "last"}});
  line.option("--time-window", batch.time_window,
              "Only neighbours later than the seed's time minus this; 0: all", {.min = 0});
}

void LoaderArguments::add_samplers(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  BatchOptions& batch = options_.batch;
  line.option("--sampler", batch.sampler, "Who samples: neighbor, walk, cluster, or what the plugin brings");
  line.option("--walk-length", batch.walk.length, "With --sampler walk: steps of a walk",
              {.min = 0, .max = kMaxWalkLength});
  line.option("--walks-per-seed", batch.walk.per_seed, "With --sampler walk: walks from each seed",
              {.min = 1, .max = kMaxWalksPerSeed});
  line.option("--walk-p", batch.walk.p, "With --sampler walk: node2vec's return parameter");
  line.option("--walk-q", batch.walk.q, "With --sampler walk: node2vec's in-out parameter");
  line.option("--metapath", metapath_,
              "With --sampler walk: edge types of the steps, in turn (built_from,rev_built_from)");
  line.option("--cluster", batch.cluster, "With --sampler cluster: node attribute that numbers the clusters");
  line.option("--plugin", plugin_, "Shared library with a sampler of one's own");
  add_of_workers(line, "--plugin");
  line.option("--sampler-options", batch.sampler_options, "Text for the plugin's sampler");
}

void LoaderArguments::add_seeds(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  line.option("--split", options_.split, "Seeds: this split of the dataset");
  line.option("--node-type", options_.node_type, "Node type of the seeds; the first where not given");
  line.option("--seeds", seeds_, "FILE.npy in place of a split: original ids, or a bool for each node");
  line.option("--seed-times", seed_times_, "FILE.npy: the time of each seed, in place of an attribute");
  line.option("--seed-weights", seed_weights_,
              "FILE.npy: draw the seeds of an epoch in proportion to these, with replacement");
}

void LoaderArguments::add_links(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  LinkOptions& link = options_.batch.link;
  line.option("--link", link.edge_type, "Seeds are links of this edge type, by name or by src__name__dst");
  line.option(
      "--links", links_,
      "With --link: a split of the edge type, or FILE.npy: source and destination of each, [N, 2], or "
      "[2, N] where it cannot be [N, 2]");
  line.option("--labels", labels_, "FILE.npy: an integer label for each link");
  line.option("--link-times", link_times_, "FILE.npy: the time of each link");
  line.option("--negatives", negatives_,
              "With --link: none, pairs that are drawn (binary), or destinations for each source (triplet)",
              {.one_of = {"none", "binary", "triplet"}});
  line.option("--src-weight", link.negatives.src_weight,
              "Draw the sources of negatives in proportion to this node attribute");
  line.option("--dst-weight", link.negatives.dst_weight, "The same of their destinations");
}

void LoaderArguments::add_negatives(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  NegativeOptions& negatives = options_.batch.link.negatives;
  line.option("--amount", negatives.amount, "Negatives for each link");
  line.flag("--strict", negatives.strict, "No negative is an edge of the type or one of the links");
  line.option("--exclude", exclude_,
              "Edges that neighbours are not drawn from: none, those of the batch's links (self), or these "
              "and their reverses",
              {.one_of = {"none", "self", "reverse"}});
}

void LoaderArguments::add_contents(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  line.option("--attrs", attrs_, "Node attributes to gather (x,y), or all; '' for none");
  line.option("--edge-attrs", edge_attrs_, "Edge attributes to gather (weight,time)");
  line.flag("--e-id", options_.batch.edge_ids, "Carry the original position of each edge (e_id)");
  line.flag("--dataset-ids", options_.batch.dataset_ids, "n_id in the dataset's own order");
}

void LoaderArguments::add_deal(CommandLine& line) {
  const CommandLine::Group group(line, kSampling);
  line.option("--rank", options_.deal.rank, "Which trainer's batches", {.min = 0});
  line.option("--world-size", options_.deal.world_size, "Trainers that share an epoch",
              {.min = 1, .max = kMaxWorldSize});
  line.flag("--no-shuffle", no_shuffle_, "Seeds in the order of the split");
  line.flag("--drop-last", options_.deal.drop_last, "Drop the incomplete last round");
}

void LoaderArguments::add_workers(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  line.option("--num-workers", options_.execution.num_workers,
              "Sampling processes of each trainer; 0: it samples itself", {.min = 0, .max = kMaxWorkers});
  line.size_option(
      "--channel-size", options_.execution.channel_size,
      "Bytes that batches in shared memory may take (4G, 512M); default: by the memory available");
  line.size_option(
      "--max-batch-memory", options_.execution.max_batch_memory,
      "Bytes that a worker may sample with; a batch that needs more is an error (4G, 512M); default: what "
      "is free, divided by the workers");
  for (const char* const option : {"--num-workers", "--max-batch-memory"}) add_of_workers(line, option);
}

void LoaderArguments::add_pages(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  line.option("--huge-pages", huge_pages_,
              "2 MiB pages for the dataset: auto asks for them, never does without, always fails without",
              {.one_of = {"auto", "never", "always"}});
  add_of_workers(line, "--huge-pages");
}

void LoaderArguments::add_graph_mode(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  hopfeed::add_graph_mode(line, graph_mode_, options_.execution.gpu_device);
}

void LoaderArguments::add_gpu_graph_cache(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  hopfeed::add_gpu_graph_cache(line, gpu_graph_cache_);
  add_of_workers(line, "--gpu-graph-cache");
}

void LoaderArguments::add_gpu_cache(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  line.option("--gpu-cache", gpu_cache_,
              "Of batches that stay in a GPU's memory: the hottest feature rows lie there too: a share of "
              "them (0.2), a size (4G) or auto (what fits into a quarter of the free memory; the default)");
}

void LoaderArguments::take_gpu_cache(ExecutionOptions& execution) const {
  if (!execution.device_batches) {
    require_valid(gpu_cache_.empty(),
                  fmt::format("--gpu-cache is {}, and batches do not stay in a GPU's memory; choose "
                              "--graph-mode uva or cuda and a GPU to compute on, or leave it out",
                              gpu_cache_));
    return;
  }
  execution.gpu_cache = gpu_cache_of(gpu_cache_.empty() ? "auto" : gpu_cache_, "--gpu-cache");
}

void LoaderArguments::add_partitions(CommandLine& line) {
  line_ = &line;
  partitions_.add(line);
  for (const char* option :
       {"--partitions", "--peers", "--replicas", "--worker-concurrency", "--peer-deadline",
        "--peer-connect-timeout", "--peer-token-file", "--peer-ca", "--peer-cert", "--peer-key"})
    add_of_workers(line, option);
}

void LoaderArguments::add_features_from(CommandLine& line) {
  const CommandLine::Group group(line, kSpeed);
  hopfeed::add_features_from(line, features_from_, options_.execution.features);
  for (const char* option : {"--features-from", "--row-cache", "--window"}) add_of_workers(line, option);
}

void LoaderArguments::add_check_finite(CommandLine& line) {
  line.flag("--check-finite", options_.execution.check_finite,
            "Refuse a batch with NaN or infinity among its features");
}

/// What would be read by nobody, and change nothing.
void LoaderArguments::refuse_of_workers() const {
  for (const auto& [line, option] : of_workers_)
    require_valid(
        !line->given(option),
        fmt::format("{} is of sampling on this machine, and with --servers the servers sample; give "
                    "it to hopfeed-server, or leave it out",
                    option));
}

void LoaderArguments::take() {
  options_.execution.partitions = partitions_.take();
  if (options_.execution.partitions.on())
    note_lost_partitions([program = line_](const std::string& line) {
      write_patiently(STDERR_FILENO, program->in_own_words(line) + "\n", kLastLinePatienceMs);
    });
  options_.batch.fanouts = parse_fanouts(fanouts_);
  if (!edge_fanouts_.empty()) options_.batch.edge_fanouts = parse_edge_fanouts(edge_fanouts_);
  take_draws();
  if (attrs_ != "all") options_.batch.attrs = parse_names(attrs_, "attrs");
  if (!edge_attrs_.empty()) options_.batch.edge_attrs = parse_names(edge_attrs_, "edge_attrs");
  if (!metapath_.empty()) options_.batch.walk.metapath = parse_names(metapath_, "walk.metapath");
  if (!plugin_.empty()) options_.execution.plugins.push_back(plugin_);
  if (!seeds_.empty()) read_seeds(seeds_, options_);
  if (!seed_times_.empty()) read_seed_times(seed_times_, options_);
  if (!seed_weights_.empty()) read_seed_weights(seed_weights_, options_);
  take_links();
  options_.execution.huge_pages = parse_huge_pages(huge_pages_);
  take_graph_mode();
  options_.execution.features.from = features_from(features_from_);
  tell_how_features_are_read(options_.execution.features.from);
  if (no_shuffle_) options_.shuffle = false;
}

/// Servers choose for themselves.
void LoaderArguments::take_graph_mode() {
  ExecutionOptions& execution = options_.execution;
  if (graph_mode_ == kAuto && options_.dataset.empty())
    execution.gpu_device = 0;
  else
    execution.graph_mode = hopfeed::take_graph_mode(graph_mode_, execution.gpu_device, {options_.dataset},
                                                    execution.num_workers);
  execution.gpu_graph_cache = take_gpu_graph_cache(gpu_graph_cache_);
  check_gpu_graph_cache(execution.gpu_graph_cache, execution.graph_mode);
}

void add_graph_mode(CommandLine& line, std::string& name, int& gpu_device) {
  line.option("--graph-mode", name,
              "Where neighbours are sampled: on the CPU, on a GPU that reads the graph in the host's memory "
              "(uva), on one that has a copy of it (cuda), or on a GPU where one can be used (auto)",
              {.one_of = {"cpu", "uva", "cuda", kAuto}});
  line.option("--gpu-device", gpu_device, "With --graph-mode: number of the GPU", {.min = 0, .max = 1023});
}

void add_gpu_graph_cache(CommandLine& line, std::string& text) {
  line.option("--gpu-graph-cache", text,
              "With --graph-mode uva: the hottest rows of the graph, and their neighbours, lie in the GPU's "
              "memory too, for each process that samples: a share of them (0.2), a size (4G) or auto (what "
              "fits into a sixteenth of the free memory; the default); 0: none");
}

std::optional<GpuCache> take_gpu_graph_cache(const std::string& text) {
  if (text.empty()) return {};
  return gpu_cache_of(text, "--gpu-graph-cache");
}

GraphMode take_graph_mode(const std::string& name, int& gpu_device, const std::vector<std::string>& datasets,
                          std::int64_t num_workers) {
  if (name != kAuto) return graph_mode_from(name);
  const AutoGraphMode taken =
      auto_graph_mode({.device = gpu_device, .datasets = datasets, .copies = num_workers});
  std::fprintf(stderr, "--graph-mode auto: %s, %s\n", to_string(taken.mode), taken.why.c_str());
  if (taken.mode == GraphMode::kCpu) gpu_device = 0;
  return taken.mode;
}

void add_features_from(CommandLine& line, std::string& name, FeatureTiers& tiers) {
  line.option(
      "--features-from", name,
      "Where rows of features are read from: memory, that is mapped files, or file, for features larger "
      "than memory",
      {.one_of = {"memory", "file"}});
  line.size_option("--row-cache", tiers.row_cache_bytes,
                   "With --features-from file: memory for rows that batches will soon need again, shared by "
                   "all workers (4G, 512M); default: none");
  line.option("--window", tiers.window,
              "With --row-cache: batches that a worker samples ahead, so that it is known which rows are "
              "needed soon; default: 4, and 16 where batches have less than 512 seeds or with --peers",
              {.min = 0, .max = kMaxWindow});
}

void tell_how_features_are_read(FeaturesFrom from) {
  static std::once_flag told;
  if (from != FeaturesFrom::kFile) return;
  std::call_once(told, [] {
    if (const std::string why = why_no_io_uring(); !why.empty())
      std::fprintf(stderr, "io_uring is not to be had here (%s): threads read the features\n", why.c_str());
  });
}

void LoaderArguments::take_draws() {
  BatchOptions& batch = options_.batch;
  batch.subgraph = subgraph_from(subgraph_);
  batch.temporal_strategy = temporal_strategy_from(temporal_strategy_);
  require_valid(labor_batches_ == 1 || batch.labor, "--labor-batches is of --labor; give both");
  if (labor_batches_ > 1) batch.labor_seeds = labor_batches_ * options_.deal.batch_size;
}

void LoaderArguments::take_links() {
  options_.batch.link.negatives.mode = negative_mode_from(negatives_);
  options_.batch.link.exclude = exclude_from(exclude_);
  const bool file = links_.ends_with(".npy");
  if (!links_.empty() && !file) options_.links = LinkInput{.split = links_};
  if (file) read_links(links_, options_);
  if (!labels_.empty()) read_link_labels(labels_, options_);
  if (!link_times_.empty()) read_link_times(link_times_, options_);
}

}  // namespace hopfeed
