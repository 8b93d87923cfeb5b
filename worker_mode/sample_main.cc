// hopfeed-sample: runs a loader without a trainer and prints one line per batch, so that two set-ups can be
// compared with diff; or makes one batch again in this process (--at) and stores it.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "channel/memory.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/block_file.h"
#include "core/batch/field_names.h"
#include "core/batch/nonfinite.h"
#include "core/dataset/dataset.h"
#include "core/maker/batch_maker.h"
#include "core/program/json_report.h"
#include "core/program/parse_option.h"
#include "core/program/program_main.h"
#include "core/program/progress_bar.h"
#include "core/sampler/sampler_plugin.h"
#include "worker_mode/loader.h"
#include "worker_mode/seed_files.h"
#include "worker_mode/trace_file.h"

namespace hopfeed {
namespace {

struct SampleArguments {
  LoaderOptions loader;
  std::string fanouts = "15,10,5", huge_pages = "auto";
  std::int64_t epochs = 1;
  std::int64_t start = 0;
  bool no_shuffle = false;
  std::int64_t labor_batches = 1;
  std::string edge_fanouts, temporal_strategy = "uniform", subgraph = "directional", attrs = "all",
                            edge_attrs;
  std::string seeds, seed_times, seed_weights, metapath, plugin;
  std::string links, labels, link_times, negatives = "none", exclude = "self";
  std::string at, dump, trace, json;
};

void print_line(const BatchView& batch) {
  std::printf("%ld %ld %ld %ld %ld %016lx\n", batch.key().epoch, batch.key().first, batch.key().count,
              batch.total_nodes(), batch.total_edges(), batch.digest());
}

void flush_lines() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw_errno("cannot write to standard output", errno);
}

/// Draws that strict negatives of the batch threw away.
std::int64_t negative_retries(const BatchView& batch) {
  for (int e = 0; e < batch.header().num_edge_types; ++e)
    if (const ArrayView found = batch.find(batch_field::kNumNegativeRetries, Store::kEdge, e);
        !found.name.empty())
      return found.as<std::int64_t>().front();
  return 0;
}

/// The 64-byte aligned home of one block.
struct BlockBuffer {
  explicit BlockBuffer(std::size_t size)
      : bytes(static_cast<std::byte*>(::operator new (size, std::align_val_t{kBlockAlignment}))),
        size(size) {}
  ~BlockBuffer() { ::operator delete (bytes, std::align_val_t{kBlockAlignment}); }
  BlockBuffer(const BlockBuffer&) = delete;
  BlockBuffer& operator=(const BlockBuffer&) = delete;
  std::byte* bytes;
  std::size_t size;
};

/// Makes the one batch of --at here, without workers.
void sample_one(const SampleArguments& arguments) {
  if (!arguments.trace.empty())
    throw Error(ErrorCode::kInvalid, "--trace is of workers, and --at has none; leave one of them out");
  JsonReport report(arguments.json);
  const LoaderOptions& o = arguments.loader;
  const std::vector<std::int64_t> at = parse_list(arguments.at, "--at");
  if (at.size() != 3)
    throw Error(ErrorCode::kInvalid, fmt::format("--at: '{}' is not EPOCH,FIRST,COUNT", arguments.at));
  for (const std::string& plugin : o.plugins) load_sampler_plugin(plugin);
  const Dataset dataset(o.dataset, {.huge_pages = o.huge_pages});
  const std::unique_ptr<BatchSource> source = loader_source(o, dataset);
  BatchMaker maker = source->maker(dataset, o.batch);
  BlockBuffer block(maker.sample({.seed = o.seed, .epoch = at[0], .first = at[1], .count = at[2]}));
  maker.write({block.bytes, block.size});
  const BatchView view({block.bytes, block.size});
  if (o.check_finite) require_finite(view);
  if (!arguments.dump.empty()) store_block(view, arguments.dump);
  print_line(view);
  flush_lines();
  nlohmann::json told{{"batches", 1},
                      {"nodes", view.total_nodes()},
                      {"edges", view.total_edges()},
                      {"bytes", block.size},
                      {"digest", fmt::format("{:016x}", view.digest())},
                      {"dump", arguments.dump}};
  if (o.batch.link.negatives.strict) told["num_negative_retries"] = negative_retries(view);
  report.write(told);
}

struct Totals {
  std::int64_t batches = 0, nodes = 0, edges = 0, bytes = 0, negative_retries = 0;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void sample_epoch(Loader& loader, std::int64_t epoch, std::int64_t start, Totals& totals) {
  const std::int64_t retries = totals.negative_retries;
  const WaitTimes waited = loader.stats().waits;
  const auto begin = std::chrono::steady_clock::now();
  loader.begin_epoch(epoch, start);
  ProgressBar bar(fmt::format("epoch {}", epoch), static_cast<std::uint64_t>(loader.steps()),
                  {.unit = "batches", .quiet = isatty(STDERR_FILENO) == 0});
  while (const std::optional<Batch> batch = loader.next()) {
    const BatchView& view = batch->view();
    print_line(view);
    if (std::ferror(stdout) != 0) flush_lines();  // nobody reads: stop now
    stop_if_asked();
    ++totals.batches;
    totals.nodes += view.total_nodes();
    totals.edges += view.total_edges();
    totals.bytes += static_cast<std::int64_t>(view.bytes().size());
    totals.negative_retries += negative_retries(view);
    bar.add(1);
  }
  const double seconds = seconds_since(begin);
  const double of_workers = seconds * static_cast<double>(loader.worker_pids().size());
  std::string note = to_text((loader.stats().waits - waited).shares_of(seconds, of_workers));
  if (totals.negative_retries > retries)
    note += fmt::format(", {} draws of negatives thrown away", totals.negative_retries - retries);
  bar.note(std::move(note));
}

/// What the run samples from: a split of nodes or of links, or links of a file.
std::string source_name(const LoaderOptions& options) {
  if (!options.batch.link.on() || !options.links) return options.split;
  return options.links->pairs ? "links" : options.links->split;
}

void sample_epochs(const SampleArguments& arguments) {
  if (!arguments.dump.empty())
    throw Error(ErrorCode::kInvalid, "--dump stores the one batch that --at names; give both");
  JsonReport report(arguments.json);
  std::optional<TraceFile> trace;
  LoaderOptions options = arguments.loader;
  if (!arguments.trace.empty()) {
    trace.emplace(TraceOptions{.path = arguments.trace, .rank = options.rank});
    options.observer = trace->observer(source_name(options));
  }
  Loader loader(options);
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
    sample_epoch(loader, epoch, epoch == 0 ? arguments.start : 0, totals);
    flush_lines();
  }
  const double seconds = seconds_since(begin);
  if (trace) {
    trace->close();
    trace->join();
  }
  const LoaderStats stats = loader.stats();
  nlohmann::json told{{"epochs", arguments.epochs},
                      {"batches", totals.batches},
                      {"nodes", totals.nodes},
                      {"edges", totals.edges},
                      {"bytes", totals.bytes},
                      {"seconds", seconds},
                      {"wait_seconds", stats.waits.trainer()},
                      {"waited_for_sampling", stats.waits.for_sampling},
                      {"waited_for_gather", stats.waits.for_gather},
                      {"waited_for_handover", stats.waits.for_handover},
                      {"workers_waited_for_slot", stats.waits.for_slot},
                      {"workers_waited_for_memory", stats.waits.for_memory},
                      {"channel_bytes", stats.channel_bytes},
                      {"channel_huge_bytes", channel_huge_bytes()},
                      {"dataset_resident_bytes", stats.dataset_pages.resident},
                      {"dataset_huge_bytes", stats.dataset_pages.huge},
                      {"worker_deaths", stats.worker_deaths},
                      {"batches_remade", stats.batches_remade}};
  if (options.batch.link.negatives.strict) told["num_negative_retries"] = totals.negative_retries;
  report.write(told);
}

/// What is told of links.
void take_links(SampleArguments& a) {
  a.loader.batch.link.negatives.mode = negative_mode_from(a.negatives);
  a.loader.batch.link.exclude = exclude_from(a.exclude);
  const bool file = a.links.ends_with(".npy");
  if (!a.links.empty() && !file) a.loader.links = LinkInput{.split = a.links};
  if (file) read_links(a.links, a.loader);
  if (!a.labels.empty()) read_link_labels(a.labels, a.loader);
  if (!a.link_times.empty()) read_link_times(a.link_times, a.loader);
}

void add_options(CommandLine& line, SampleArguments& a) {
  LoaderOptions& o = a.loader;
  line.option("DIR", o.dataset, "Dataset folder", {.required = true});
  line.option("--fanouts", a.fanouts, "Neighbours per hop, -1 for all");
  line.option("--batch-size", o.batch_size, "Seeds per batch and rank", {.min = 1, .max = kMaxBatchSize});
  line.option("--huge-pages", a.huge_pages,
              "2 MiB pages for the dataset: auto asks for them, never does without, always fails without",
              {.one_of = {"auto", "never", "always"}});
  line.option("--epochs", a.epochs, "Epochs to run, from epoch 0", {.positive = true});
  line.option("--seed", o.seed, "Seed of all random numbers");
  line.option("--split", o.split, "Seeds: this split of the dataset");
  line.option("--node-type", o.node_type, "Node type of the seeds; the first where not given");
  line.option("--seeds", a.seeds, "FILE.npy in place of a split: original ids, or a bool for each node");
  line.option("--seed-times", a.seed_times, "FILE.npy: the time of each seed, in place of an attribute");
  line.option("--seed-weights", a.seed_weights,
              "FILE.npy: draw the seeds of an epoch in proportion to these, with replacement");
  line.option("--link", o.batch.link.edge_type,
              "Seeds are links of this edge type, by name or by src__name__dst");
  line.option("--links", a.links,
              "With --link: a split of the edge type, or FILE.npy: source and destination of each");
  line.option("--labels", a.labels, "FILE.npy: an integer label for each link");
  line.option("--link-times", a.link_times, "FILE.npy: the time of each link");
  line.option("--negatives", a.negatives,
              "With --link: none, pairs that are drawn (binary), or destinations for each source (triplet)",
              {.one_of = {"none", "binary", "triplet"}});
  line.option("--amount", o.batch.link.negatives.amount, "Negatives for each link");
  line.flag("--strict", o.batch.link.negatives.strict,
            "No negative is an edge of the type or one of the links");
  line.option("--src-weight", o.batch.link.negatives.src_weight,
              "Draw the sources of negatives in proportion to this node attribute");
  line.option("--dst-weight", o.batch.link.negatives.dst_weight, "The same of their destinations");
  line.option("--exclude", a.exclude,
              "Edges that neighbours are not drawn from: none, those of the batch's links (self), or these "
              "and their reverses",
              {.one_of = {"none", "self", "reverse"}});
  line.option("--start", a.start, "Seed position where the first epoch begins (a resumed run)", {.min = 0});
  line.option("--rank", o.rank, "Which trainer's batches", {.min = 0});
  line.option("--world-size", o.world_size, "Trainers that share an epoch", {.min = 1, .max = kMaxWorldSize});
  line.option("--num-workers", o.num_workers, "Sampling processes", {.min = 1, .max = kMaxWorkers});
  line.size_option(
      "--channel-size", o.channel_size,
      "Bytes that batches in shared memory may take (4G, 512M); default: by the memory available");
  line.cores_option("--cores", o.cores, "Cores of the workers, dealt in turn (0,2-3); default: shared out");
  line.flag("--replace", o.batch.replace, "Draw with replacement");
  line.option("--edge-fanouts", a.edge_fanouts,
              "Fanouts of edge types, by name or by src__name__dst: depends=15,10;recommends=5,0");
  line.option("--weight", o.batch.weight, "Draw in proportion to this edge attribute");
  line.flag("--labor", o.batch.labor,
            "Layer-dependent sampling (LABOR): destinations take the same neighbours where they can");
  line.option(
      "--labor-batches", a.labor_batches,
      "With --labor: so many batches in a row take the same neighbours where they can, and are faster for it",
      {.min = 1, .max = 1 << 20});
  line.option("--subgraph", a.subgraph,
              "Edges between the nodes of a batch: those that were drawn, these and their reverses, or all",
              {.one_of = {"directional", "bidirectional", "induced"}});
  line.flag("--keep-orig-edges", o.batch.keep_orig_edges,
            "With --subgraph bidirectional: the edges as they were drawn beside it");
  line.flag("--disjoint", o.batch.disjoint, "A tree of its own for each seed");
  line.option("--time", o.batch.time,
              "Only neighbours no later than their seed, by this attribute of edges or of nodes");
  line.option("--seed-time", o.batch.seed_time,
              "Attribute of the seeds that is their time; default: that of --time");
  line.option("--temporal-strategy", a.temporal_strategy, "Which of the past: drawn uniformly, or the last",
              {.one_of = {"uniform", "last"}});
  line.option("--time-window", o.batch.time_window,
              "Only neighbours later than the seed's time minus this; 0: all", {.min = 0});
  line.option("--attrs", a.attrs, "Node attributes to gather (x,y), or all; '' for none");
  line.option("--edge-attrs", a.edge_attrs, "Edge attributes to gather (weight,time)");
  line.option("--sampler", o.batch.sampler,
              "Who samples: neighbor, walk, cluster, or what the plugin brings");
  line.option("--walk-length", o.batch.walk.length, "With --sampler walk: steps of a walk",
              {.min = 0, .max = kMaxWalkLength});
  line.option("--walks-per-seed", o.batch.walk.per_seed, "With --sampler walk: walks from each seed",
              {.min = 1, .max = kMaxWalksPerSeed});
  line.option("--walk-p", o.batch.walk.p, "With --sampler walk: node2vec's return parameter");
  line.option("--walk-q", o.batch.walk.q, "With --sampler walk: node2vec's in-out parameter");
  line.option("--metapath", a.metapath,
              "With --sampler walk: edge types of the steps, in turn (built_from,rev_built_from)");
  line.option("--cluster", o.batch.cluster,
              "With --sampler cluster: node attribute that numbers the clusters");
  line.option("--plugin", a.plugin, "Shared library with a sampler of one's own");
  line.option("--sampler-options", o.batch.sampler_options, "Text for the plugin's sampler");
  line.flag("--no-shuffle", a.no_shuffle, "Seeds in the order of the split");
  line.flag("--drop-last", o.drop_last, "Drop the incomplete last round");
  line.flag("--check-finite", o.check_finite, "Refuse a batch with NaN or infinity among its features");
  line.flag("--e-id", o.batch.edge_ids, "Carry the original position of each edge (e_id)");
  line.flag("--dataset-ids", o.batch.dataset_ids, "n_id in the dataset's own order");
  line.option("--at", a.at, "EPOCH,FIRST,COUNT: make this one batch, in this process");
  line.option("--dump", a.dump,
              "With --at: store its block here; FILE.npz for NumPy arrays by their PyG names",
              {.output = true});
  line.option("--trace", a.trace,
              "Write a Chrome trace of the run to this file: when each worker sampled and gathered, and when "
              "next() waited; Perfetto opens it",
              {.output = true});
  line.option("--json", a.json, "Write a report of the run to this file", {.output = true});
}

}  // namespace
}  // namespace hopfeed

int main(int argc, char** argv) {
  using namespace hopfeed;
  CommandLine line(
      "hopfeed-sample",
      "Samples mini-batches of a dataset and prints one line for each: epoch first count nodes edges "
      "digest.\n"
      "The digest (XXH3-64) covers the whole block: equal lines mean equal bytes, whatever the number of "
      "workers,\n"
      "ranks or partitions.\n\nExample: hopfeed-sample data --fanouts 15,10,5 --batch-size 1024 --seed 1 "
      "--num-workers 2");
  SampleArguments arguments;
  add_options(line, arguments);
  stop_on_signals();
  line.action([&] {
    arguments.loader.batch.fanouts = parse_fanouts(arguments.fanouts);
    if (arguments.fanouts.empty() && arguments.subgraph != "induced")
      throw Error(ErrorCode::kInvalid,
                  "--fanouts is '', no hops, so batches would have no edges; give a value or leave it out");
    arguments.loader.batch.edge_fanouts = parse_edge_fanouts(arguments.edge_fanouts);
    arguments.loader.batch.subgraph = subgraph_from(arguments.subgraph);
    require_valid(arguments.labor_batches == 1 || arguments.loader.batch.labor,
                  "--labor-batches is of --labor; give both");
    if (arguments.labor_batches > 1)
      arguments.loader.batch.labor_seeds = arguments.labor_batches * arguments.loader.batch_size;
    arguments.loader.batch.temporal_strategy = temporal_strategy_from(arguments.temporal_strategy);
    if (arguments.attrs != "all") arguments.loader.batch.attrs = parse_names(arguments.attrs, "attrs");
    arguments.loader.batch.edge_attrs = parse_names(arguments.edge_attrs, "edge_attrs");
    arguments.loader.batch.walk.metapath = parse_names(arguments.metapath, "walk.metapath");
    if (!arguments.plugin.empty()) arguments.loader.plugins.push_back(arguments.plugin);
    if (!arguments.seeds.empty()) read_seeds(arguments.seeds, arguments.loader);
    if (!arguments.seed_times.empty()) read_seed_times(arguments.seed_times, arguments.loader);
    if (!arguments.seed_weights.empty()) read_seed_weights(arguments.seed_weights, arguments.loader);
    take_links(arguments);
    arguments.loader.huge_pages = parse_huge_pages(arguments.huge_pages);
    arguments.loader.shuffle = !arguments.no_shuffle;
    arguments.at.empty() ? sample_epochs(arguments) : sample_one(arguments);
  });
  return program_main(line, argc, argv);
}
