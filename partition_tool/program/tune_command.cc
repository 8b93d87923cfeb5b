// See tune_command.h.
#include "partition_tool/program/tune_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/program/json_report.h"
#include "partition_tool/graph_memory.h"
#include "partition_tool/hotness/hotness_policy.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/program/tune_curves.h"
#include "partition_tool/program/tune_machine.h"
#include "partition_tool/program/tune_reader.h"
#include "partition_tool/program/tune_report.h"
#include "partition_tool/tune/hit_curve.h"
#include "partition_tool/tune/next_use.h"
#include "partition_tool/tune/tune_files.h"
#include "partition_tool/tune/tune_measure.h"
#include "partition_tool/tune/tune_model.h"

namespace hopfeed {
namespace {

/// The dataset's own order, beside those that hotness_policy.h makes.
constexpr const char* kStored = "stored";

std::vector<std::string> chosen_policies(const std::string& text) {
  std::vector<std::string> policies = parse_names(text, "policies");
  require_valid(!policies.empty(), "--policies is '', so there is nothing to compare; leave it out for all");
  for (const std::string& policy : policies) {
    try {
      if (policy != kStored) static_cast<void>(hotness_policy_from(policy));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("--policies: {}, {}", error.message(), kStored));
    }
  }
  // The recommendation is for the dataset as it lies.
  std::erase(policies, kStored);
  policies.insert(policies.begin(), kStored);
  return policies;
}

int seed_type(const Dataset& dataset, const TuneChoices& choices) {
  if (!choices.node_type.empty()) return dataset.meta().node_type(choices.node_type);
  const auto& types = dataset.meta().node_types;
  const auto found = std::ranges::find_if(
      types, [&](const NodeTypeMeta& type) { return type.splits.contains(choices.split); });
  return found == types.end() ? 0 : static_cast<int>(found - types.begin());
}

/// Original ids by dataset id: what equally hot rows go by.
std::vector<std::int64_t> original_ids(const Dataset& dataset, int node_type) {
  std::vector<std::int64_t> ids;
  for (int p = 0; p < dataset.meta().partitions; ++p) {
    const OriginalIds part = dataset.original_ids(node_type, p);
    for (std::int64_t i = 0; i < part.count; ++i) ids.push_back(part.first[i * part.stride]);
  }
  return ids;
}

/// Orders of every type; empty ones for the dataset's own.
std::vector<std::vector<std::int64_t>> orders_of(const std::string& policy, const TuneChoices& choices,
                                                 const Dataset& dataset, const TuneJob& job,
                                                 const TunePass& pass, Bars& bars) {
  std::vector<std::vector<std::int64_t>> orders(pass.counts.size());
  if (policy == kStored) return orders;
  std::vector<std::vector<double>> hotness;
  if (const HotnessPolicy which = hotness_policy_from(policy); which == HotnessPolicy::kOracle) {
    for (const auto& counts : pass.counts) hotness.emplace_back(counts.begin(), counts.end());
  } else {
    const auto progress = [&](std::int64_t done, std::int64_t total) {
      bars.show(
          {to_string(which), "steps", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total)});
    };
    hotness = node_hotness(dataset, which,
                           {.batch = job.batch,
                            .batch_size = choices.batch_size,
                            .node_type = job.node_type,
                            .seeds = job.seeds,
                            .seed = choices.seed,
                            .threads = choices.threads,
                            .progress = progress});
    bars.finish();
  }
  for (std::size_t t = 0; t < orders.size(); ++t) {
    orders[t] = hotness_order(hotness[t], original_ids(dataset, static_cast<int>(t)),
                              dataset.meta().node_types[t].partition_offsets);
  }
  return orders;
}

/// Bytes that may be held; a budget that no row fits into is a slip.
std::int64_t allowed_bytes(const TuneChoices& choices, const TunePass& pass) {
  if (choices.budget == 0) return std::numeric_limits<std::int64_t>::max();
  std::int64_t row = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t bytes : pass.row_bytes)
    if (bytes > 0) row = std::min(row, bytes);
  require_valid(
      std::cmp_greater_equal(choices.budget, row),
      fmt::format("--budget is {} bytes, and a row has {}; give at least that", choices.budget, row));
  return static_cast<std::int64_t>(
      std::min<std::size_t>(choices.budget, std::numeric_limits<std::int64_t>::max()));
}

std::vector<TuneEviction> simulate_evictions(const RowTrace& trace, Bars& bars) {
  std::vector<TuneEviction> evictions;
  const auto add = [&](const std::string& name,
                       const std::function<CacheHits(std::int64_t capacity)>& simulate) {
    evictions.push_back({.eviction = name, .hit_rate = {}});
    for (const double ratio : kEvictionRatios)
      evictions.back().hit_rate.push_back(
          simulate(static_cast<std::int64_t>(ratio * static_cast<double>(trace.num_rows))).rate());
    bars.show({"Simulating evictions", "evictions", evictions.size(), 8});
  };
  add("static", [&](std::int64_t capacity) { return simulate_static(trace, capacity); });
  add("lru", [&](std::int64_t capacity) { return simulate_lru(trace, capacity); });
  add("sieve", [&](std::int64_t capacity) { return simulate_sieve(trace, capacity); });
  for (const std::int64_t window : {1, 2, 4, 16})
    add(fmt::format("belady, window {}", window),
        [&](std::int64_t capacity) { return simulate_belady(trace, capacity, window); });
  add("belady, whole", [&](std::int64_t capacity) { return simulate_belady(trace, capacity, kWholeEpoch); });
  bars.finish();
  return evictions;
}

/// What one partition's machine reads of the others, in place of all else: curves and recommendation are of a
/// consumer of whole batches.
void tune_reader(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job, JsonReport& json) {
  Bars bars;
  const TuneReaderReport report = simulate_reader(dataset,
                                                  {.reader = *choices.reader,
                                                   .batch = job.batch,
                                                   .batch_size = choices.batch_size,
                                                   .batches = choices.most_batches,
                                                   .node_type = job.node_type,
                                                   .seeds = job.seeds,
                                                   .seed = choices.seed,
                                                   .threads = choices.threads},
                                                  bars);
  fmt::print("{}", reader_table(report));
  json.write({{"dataset", choices.folder}, {"reader", reader_json(report)}});
}

FeatureTiers tiers_of(const TuneChoices& choices) {
  FeatureTiers tiers = choices.features;
  tiers.from = features_from(choices.features_from);
  return tiers;
}

/// What can be told before any work.
void check_choices(const TuneChoices& choices) {
  require_valid(!choices.reader || choices.evictions, "--reader is of --evictions; give both");
  require_valid(choices.summary.empty() || !choices.train_ms,
                "--summary and --train-ms both tell how long training takes; give one of them");
  require_valid(choices.within >= 0 && choices.within <= 100,
                fmt::format("--within is {}; give percent from 0 to 100", choices.within));
  tiers_of(choices).validate();
  check_rates(choices);
}

RowCache row_cache_of(const TuneChoices& choices) {
  FeatureTiers tiers = tiers_of(choices);
  const std::size_t bytes = tiers.row_cache_bytes;
  tiers.row_cache_bytes = std::max<std::size_t>(bytes, 1);  // the window of a cache that is to be recommended
  // Each worker announces as many batches.
  return {.bytes = bytes,
          .window = choices.num_workers * tiers.window_for(choices.batch_size, choices.num_workers)};
}

TuneJob job_of(const TuneChoices& choices, const Dataset& dataset) {
  const int node_type = seed_type(dataset, choices);
  TuneJob job{.node_type = node_type,
              .seeds = dataset.split(node_type, choices.split),
              .batch = {.fanouts = parse_fanouts(choices.fanouts)},
              .files = {}};
  const bool has_rows = std::ranges::any_of(dataset.meta().node_types,
                                            [](const NodeTypeMeta& type) { return !type.attrs.empty(); });
  require_valid(has_rows,
                fmt::format("{} has no node attributes, so there are no rows to hold", choices.folder));
  if (choices.features_from == "file") job.files = file_attrs(dataset, job.batch);
  return job;
}

TunePass sample_pass(const TuneChoices& choices, const Dataset& dataset, const TuneJob& job, Bars& bars) {
  TunePass pass = measure_batches(dataset, job.seeds,
                                  {.batch = job.batch,
                                   .batch_size = choices.batch_size,
                                   .node_type = job.node_type,
                                   .most_batches = choices.most_batches,
                                   .most_seconds = 30,
                                   .keep_trace = choices.evictions || !job.files.empty(),
                                   .seed = choices.seed,
                                   .progress = [&](std::int64_t done, std::int64_t total) {
                                     bars.show({"Sampling", "batches", static_cast<std::uint64_t>(done),
                                                static_cast<std::uint64_t>(total)});
                                   }});
  bars.finish();
  return pass;
}

/// In worker mode rows of files can be held before the files, and nowhere else.
bool chooses_row_cache(const TuneChoices& choices, const TuneReport& report) {
  return !report.rates.wire && report.rates.files && choices.features.row_cache_bytes == 0;
}

TuneAdvice advise(const TuneChoices& choices, const TuneReport& report, std::int64_t allowed) {
  const std::vector<TunePoint>& points = report.curves.front().points;
  AdviceOptions options{.budget = allowed, .within = choices.within / 100};
  if (chooses_row_cache(choices, report))
    options.held = "a row cache";
  else if (!report.rates.wire)
    return recommend_without_link();
  return recommend(points, options);
}

void tune(const TuneChoices& choices) {
  const std::vector<std::string> policies = chosen_policies(choices.policies);
  check_choices(choices);
  TuneReport report{.dataset = choices.folder, .within = choices.within};
  for (const std::string& path : choices.measured) report.measured.push_back(read_measured(path));
  JsonReport json(choices.json);
  std::optional<AtomicFile> plot;
  if (!choices.plot.empty()) plot.emplace(choices.plot, "--plot: ");
  const Dataset dataset(choices.folder);
  report.name = dataset.meta().name;
  const TuneJob job = job_of(choices, dataset);
  Bars bars;
  MemoryTold told(bars);
  const bool traced = choices.evictions || !job.files.empty();
  want_memory(told.teller(),
              {.what = "tuning " + choices.folder,
               .knobs = traced ? "leave out --evictions and --features-from file, or use a machine with more"
                               : "use a machine with more",
               .bytes = tune_bytes(counts_of(dataset.meta()), traced ? Traces::kKept : Traces::kNone)});
  report.memory_bytes = told.bytes();
  if (choices.reader) return tune_reader(choices, dataset, job, json);
  const TunePass pass = sample_pass(choices, dataset, job, bars);
  report.batches = pass.batches;
  report.epoch_batches = pass.epoch_batches;
  report.rates = measure_rates(choices, dataset, job, pass, bars);
  const std::int64_t allowed = allowed_bytes(choices, pass);
  TuneCurves curves(dataset, job, pass, report.rates, row_cache_of(choices));
  if (chooses_row_cache(choices, report)) report.curves.push_back(curves.cached());
  for (const std::string& policy : policies)
    report.curves.push_back(curves.held(policy, orders_of(policy, choices, dataset, job, pass, bars)));
  if (choices.evictions) report.evictions = simulate_evictions(pass.trace, bars);
  report.advice = advise(choices, report, allowed);
  fmt::print("{}{}\n{}\n", tune_table(report), tune_drawing(report), tune_recommendation(report));
  if (plot) {
    plot->write(tune_svg(report));
    plot->commit();
  }
  json.write(tune_json(report));
}

}  // namespace

void add_tune_command(CommandLine& line, TuneChoices& choices) {
  CommandLine& command = line.command("tune",
                                      "Say what holding the hottest rows of features where batches are used "
                                      "would bring, and how many to hold");
  command.option("DIR", choices.folder, "Dataset folder", {.required = true});
  command.option("--fanouts", choices.fanouts, "Neighbours per hop, from the seeds outwards");
  command.option("--batch-size", choices.batch_size, "Seeds of a batch", {.positive = true});
  command.option("--split", choices.split, "Seeds of the batches");
  command.option("--node-type", choices.node_type, "Type of the seeds; default: the first with that split");
  command.option("--seed", choices.seed, "Seed of the batches that are made");
  command.option("--batches", choices.most_batches, "At most so many batches are made, spread over the epoch",
                 {.min = 1, .max = 1'000'000});
  command.option("--num-workers", choices.num_workers, "Sampling workers that share the work",
                 {.min = 1, .max = 4096});
  command.size_option("--budget", choices.budget,
                      "Bytes that held rows may take (4G); default: all rows fit");
  command.option(
      "--within", choices.within,
      "Percent that an epoch may take longer than the best: of these the fewest rows are recommended");
  command.option(
      "--policies", choices.policies,
      "Orders to compare, by commas: stored (the dataset's own), vip, degree, presample, oracle (counts of "
      "the batches that are made)");
  command.flag(
      "--evictions", choices.evictions,
      "Simulate caches of 5, 10, 20, 30% of the rows in front of a slow tier: static, LRU, SIEVE, and Belady "
      "with windows of 1, 2, 4, 16 batches");
  command.option("--reader", choices.reader,
                 "Partition: with --evictions, simulate what its machine would have of the rows of other "
                 "partitions that its own seeds read, by several rankings, and nothing else",
                 {.min = 0});
  command.option("--features-from", choices.features_from,
                 "Where workers read rows from: memory, or file (read for each batch, past the page cache)",
                 {.one_of = {"memory", "file"}});
  command.size_option("--row-cache", choices.features.row_cache_bytes,
                      "With --features-from file: memory that all workers share for rows of files; default: "
                      "one is recommended");
  command.option(
      "--window", choices.features.window,
      "With --row-cache: batches that a worker samples ahead; default: 4, and 16 where batches have "
      "less than 512 seeds",
      {.min = 0, .max = kMaxWindow});
  command.option("--link", choices.link,
                 "The wire to the consumer: bytes a second, or loopback (servers and consumer share this "
                 "machine's cores); default: none (worker mode)");
  command.option(
      "--machine", choices.machine,
      "JSON file with rates of another machine, in place of what is measured here (docs/cache.md)");
  command.option("--summary", choices.summary, "summary.json of a training run: how long it trains a batch");
  command.option("--train-ms", choices.train_ms, "Milliseconds that training a batch takes",
                 {.positive = true});
  command.flag("--digest", choices.digest,
               "The consumer is hopfeed-sample, which reads each batch for its digest");
  command.repeatable_option(
      "--measured", "FILE",
      "A real run to stand beside: --json of hopfeed-sample or summary.json of a training "
      "program; may be given again",
      [&choices](const std::string& path) { choices.measured.push_back(path); });
  command.option("--plot", choices.plot, "Write the curves to this file as SVG", {.output = true});
  choices.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.option("--seconds", choices.seconds,
                 "How long stages are measured together; files and wire take as long again",
                 {.positive = true});
  command.option("--threads", choices.threads, "Threads that compute policies", {.min = 1, .max = 1024});
  command.option("--json", choices.json, "Write a report as JSON to this file", {.output = true});
  command.action([&choices] { tune(choices); });
}

}  // namespace hopfeed
