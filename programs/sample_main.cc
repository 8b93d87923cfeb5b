// hopfeed-sample: runs a stream without a trainer and prints one line per batch, so that two set-ups can be
// compared with diff; or makes one batch again in this process (--at) and stores it. Batches are made by
// workers of this machine, or by servers (--servers).
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cache/file_features.h"
#include "channel/memory.h"
#include "core/base/error.h"
#include "core/base/limits.h"
#include "core/batch/aligned_block.h"
#include "core/batch/block_file.h"
#include "core/batch/field_names.h"
#include "core/batch/gpu_use_json.h"
#include "core/batch/nonfinite.h"
#include "core/batch/tier_json.h"
#include "core/maker/batch_maker.h"
#include "core/program/json_report.h"
#include "core/program/parse_option.h"
#include "core/program/program_main.h"
#include "core/program/progress_bar.h"
#include "gpu/device/gpu_sampling.h"
#include "programs/options/loader_arguments.h"
#include "programs/options/server_arguments.h"
#include "server_client_mode/client/remote_loader.h"
#include "stream/loader_parts.h"
#include "stream/trace_file.h"
#include "worker_mode/loader.h"

namespace hopfeed {
namespace {

struct SampleArguments {
  LoaderOptions loader;
  LoaderArguments from_line{loader};
  ServerArguments servers{"DIR"};
  std::int64_t epochs = 1;
  std::int64_t start = 0;
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

/// Makes the one batch of --at here, without workers.
void sample_one(const SampleArguments& arguments) {
  if (!arguments.trace.empty())
    throw Error(ErrorCode::kInvalid,
                "--trace is of whole runs, and --at makes one batch; leave one of them out");
  require_valid(!arguments.servers.remote(),
                "--at makes the batch in this process, from DIR; leave out --servers or --at");
  JsonReport report(arguments.json);
  const LoaderOptions& o = arguments.loader;
  o.execution.gpu.validate(o.execution.num_workers);
  const std::vector<std::int64_t> at = parse_list(arguments.at, "--at");
  if (at.size() != 3)
    throw Error(ErrorCode::kInvalid, fmt::format("--at: '{}' is not EPOCH,FIRST,COUNT", arguments.at));
  const LoaderParts parts = open_parts(o);
  BatchMaker maker = parts.source->maker(*parts.dataset, o.batch, neighbor_samplers(o.execution.gpu),
                                         feature_sources(o.execution.features.from));
  AlignedBlock block(maker.sample({.seed = o.seed, .epoch = at[0], .first = at[1], .count = at[2]}));
  maker.write(block.bytes());
  const BatchView view(block.bytes());
  if (o.execution.check_finite) require_finite(view);
  if (!arguments.dump.empty()) store_block(view, arguments.dump);
  print_line(view);
  flush_lines();
  nlohmann::json told{{"batches", 1},
                      {"nodes", view.total_nodes()},
                      {"edges", view.total_edges()},
                      {"bytes", block.bytes().size()},
                      {"digest", fmt::format("{:016x}", view.digest())},
                      {"dump", arguments.dump}};
  if (o.batch.link.negatives.strict) told["num_negative_retries"] = negative_retries(view);
  report.write(told);
}

double hit_rate(std::int64_t rows, std::int64_t held) {
  return rows > 0 ? static_cast<double>(held) / static_cast<double>(rows) : 0;
}

struct Totals {
  std::int64_t batches = 0, nodes = 0, edges = 0, bytes = 0, negative_retries = 0;
  nlohmann::json epoch_rows = nlohmann::json::array();  // as summary.json of training programs has them
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void sample_epoch(BatchStream& stream, std::int64_t epoch, std::int64_t start, Totals& totals) {
  const std::int64_t retries = totals.negative_retries, batches = totals.batches;
  const StreamStats before = stream.stats();
  const auto begin = std::chrono::steady_clock::now();
  stream.begin_epoch(epoch, start);
  ProgressBar bar(fmt::format("epoch {}", epoch), static_cast<std::uint64_t>(stream.steps()),
                  {.unit = "batches", .quiet = isatty(STDERR_FILENO) == 0});
  while (const std::optional<Batch> batch = stream.next()) {
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
  const double rate_of_hits = hit_rate(stream.stats().feature_rows - before.feature_rows,
                                       stream.stats().held_rows - before.held_rows);
  totals.epoch_rows.push_back({{"epoch", epoch},
                               {"batches", totals.batches - batches},
                               {"seconds", seconds},
                               {"hit_rate", rate_of_hits},
                               {"cache_hit_rate", (stream.stats().tiers - before.tiers).cache_hit_rate()}});
  const double of_workers = seconds * static_cast<double>(stream.stats().workers);
  const StreamStats after = stream.stats();
  const WaitTimes shares = (after.waits - before.waits).shares_of(seconds, of_workers);
  std::string note = after.workers > 0 ? to_text(shares) : own_work_text(shares);
  if (after.held_bytes > 0) note += fmt::format(", {:.1f}% of rows held", 100 * rate_of_hits);
  if (const std::string tiers = (after.tiers - before.tiers).text(); !tiers.empty()) note += ", " + tiers;
  if (after.gpu_use.any())
    note += fmt::format(", {} batches sampled by the GPU, {} by the CPU",
                        after.gpu_use.gpu_batches - before.gpu_use.gpu_batches,
                        after.gpu_use.cpu_batches - before.gpu_use.cpu_batches);
  if (totals.negative_retries > retries)
    note += fmt::format(", {} draws of negatives thrown away", totals.negative_retries - retries);
  bar.note(std::move(note));
}

/// What the run samples from: a split of nodes or of links, or links of a file.
std::string source_name(const LoaderOptions& options) {
  if (!options.batch.link.on() || !options.links) return options.split;
  return options.links->pairs ? "links" : options.links->split;
}

std::unique_ptr<BatchStream> open_stream(const SampleArguments& arguments, const LoaderOptions& options) {
  if (arguments.servers.remote()) return std::make_unique<RemoteLoader>(arguments.servers.options(), options);
  return std::make_unique<Loader>(options);
}

void sample_epochs(const SampleArguments& arguments) {
  if (!arguments.dump.empty())
    throw Error(ErrorCode::kInvalid, "--dump stores the one batch that --at names; give both");
  JsonReport report(arguments.json);
  std::optional<TraceFile> trace;
  LoaderOptions options = arguments.loader;
  options.while_waiting = stop_if_asked;
  if (!arguments.trace.empty()) {
    trace.emplace(TraceOptions{.path = arguments.trace, .rank = options.deal.rank});
    options.observer = trace->observer(source_name(options));
  }
  const std::unique_ptr<BatchStream> stream = open_stream(arguments, options);
  Totals totals;
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t epoch = 0; epoch < arguments.epochs; ++epoch) {
    sample_epoch(*stream, epoch, epoch == 0 ? arguments.start : 0, totals);
    flush_lines();
  }
  const double seconds = seconds_since(begin);
  if (trace) {
    trace->close();
    trace->join();
  }
  const StreamStats stats = stream->stats();
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
                      {"batches_remade", stats.batches_remade},
                      {"hit_rate", hit_rate(stats.feature_rows, stats.held_rows)},
                      {"held_bytes", stats.held_bytes},
                      {"cache_hit_rate", stats.tiers.cache_hit_rate()},
                      {"tiers", tiers_json(stats.tiers)},
                      {"epoch_rows", totals.epoch_rows}};
  if (stats.gpu_setup.total() > 0)
    told["gpu_setup_seconds"] = {{"context", stats.gpu_setup.context},
                                 {"copying", stats.gpu_setup.copying},
                                 {"pinning", stats.gpu_setup.pinning}};
  add_gpu_use(told, stats.gpu_use);
  if (options.batch.link.negatives.strict) told["num_negative_retries"] = totals.negative_retries;
  report.write(told);
}

void add_options(CommandLine& line, SampleArguments& a) {
  LoaderOptions& o = a.loader;
  line.option("DIR", o.dataset, "Dataset folder");
  a.servers.add(line);
  line.option("--epochs", a.epochs, "Epochs to run, from epoch 0", {.positive = true});
  line.option("--start", a.start, "Seed position where the first epoch begins (a resumed run)", {.min = 0});
  a.from_line.add(line, {"fanouts",         "edge fanouts", "draws",    "samplers",   "seeds",
                         "links",           "negatives",    "contents", "deal",       "seed",
                         "workers",         "cores",        "pages",    "graph mode", "device batches",
                         "gpu graph cache", "gpu cache",    "features", "partitions", "check finite"});
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
      "servers, ranks or partitions.\n\nExample: hopfeed-sample data --fanouts 15,10,5 --batch-size 1024 "
      "--seed 1 --num-workers 2");
  SampleArguments arguments;
  add_options(line, arguments);
  stop_on_signals();
  line.action([&] {
    arguments.servers.check(arguments.loader.dataset);
    if (arguments.servers.remote()) arguments.from_line.refuse_of_workers();
    arguments.from_line.take();
    const BatchOptions& batch = arguments.loader.batch;
    if (batch.fanouts.empty() && batch.subgraph != Subgraph::kInduced)
      throw Error(ErrorCode::kInvalid,
                  "--fanouts is '', no hops, so batches would have no edges; give a value or leave it out");
    arguments.at.empty() ? sample_epochs(arguments) : sample_one(arguments);
  });
  return program_main(line, argc, argv);
}
