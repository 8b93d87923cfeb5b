// See tune_command.h.
#include "partition_tool/program/tune_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cache/hit_curve.h"
#include "cache/hotness_policy.h"
#include "cache/next_use.h"
#include "cache/tune_measure.h"
#include "cache/tune_model.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json_text.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/program/json_report.h"
#include "partition_tool/program/tool.h"
#include "partition_tool/program/tune_reader.h"
#include "partition_tool/program/tune_report.h"

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
      throw Error(error.code(), fmt::format("--policies: {}, {}", error.what(), kStored));
    }
  }
  // The recommendation is for the dataset as it lies.
  std::erase(policies, kStored);
  policies.insert(policies.begin(), kStored);
  return policies;
}

nlohmann::json read_object(const std::string& path, const char* option) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, fmt::format("{}: cannot read {}", option, path));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  nlohmann::json json = parse_json(text);
  if (!json.is_object())
    throw Error(ErrorCode::kInvalid,
                fmt::format("{}: {} is no JSON object: {}", option, path, json_complaint(text)));
  return json;
}

/// A positive number of a file; none where it has no such key.
std::optional<double> positive(const nlohmann::json& object, const std::string& key,
                               const std::string& where) {
  if (!object.contains(key)) return std::nullopt;
  const nlohmann::json& value = object[key];
  require_valid(value.is_number() && value.get<double>() > 0,
                fmt::format("{}: {} is {}; give a number above 0", where, key, json_text(value)));
  return value.get<double>();
}

/// What a file says of a machine takes the place of what was measured.
void read_machine(const std::string& path, TuneRates& rates) {
  const nlohmann::json file = read_object(path, "--machine");
  const std::string where = fmt::format("--machine: {}", path);
  const std::map<std::string, double*> measured{
      {"sample_seconds", &rates.sample_seconds},
      {"gather_bytes_per_second", &rates.gather_bytes_per_second},
      {"complete_bytes_per_second", &rates.complete_bytes_per_second},
      {"num_workers", &rates.num_workers}};
  for (const auto& [key, value] : file.items()) {
    require_valid(measured.contains(key) || key == "link_bytes_per_second" || key == "train_seconds",
                  fmt::format("{}: '{}' is no rate; docs/cache.md lists them", where, key));
  }
  for (const auto& [key, rate] : measured) *rate = positive(file, key, where).value_or(*rate);
  if (const auto link = positive(file, "link_bytes_per_second", where)) rates.link_bytes_per_second = link;
  if (const auto train = positive(file, "train_seconds", where)) rates.train_seconds = train;
}

/// The trainer's own seconds a batch: what the mean batch of its summary took, less what it waited for it.
double train_seconds_of(const std::string& path) {
  const nlohmann::json summary = read_object(path, "--summary");
  const std::string where = fmt::format("--summary: {}", path);
  const auto rate = positive(summary, "batches_per_s", where);
  const auto wait = summary.find("trainer_wait_fraction");
  if (!rate || wait == summary.end() || !wait->is_number() || wait->get<double>() < 0 ||
      wait->get<double>() >= 1)
    throw Error(ErrorCode::kInvalid,
                fmt::format("{} lacks batches_per_s or trainer_wait_fraction; give the summary.json of a "
                            "training program, or --train-ms",
                            where));
  return (1 - wait->get<double>()) / *rate;
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

/// The seeds of the batches, and how they are sampled.
struct TuneSeeds {
  int node_type = 0;
  std::span<const std::int64_t> ids;
  BatchOptions batch;
};

/// Orders of every type; empty ones for the dataset's own.
std::vector<std::vector<std::int64_t>> orders_of(const std::string& policy, const TuneChoices& choices,
                                                 const Dataset& dataset, const TuneSeeds& seeds,
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
                           {.batch = seeds.batch,
                            .batch_size = choices.batch_size,
                            .node_type = seeds.node_type,
                            .seeds = seeds.ids,
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

TuneCurve make_curve(const std::string& policy, const Dataset& dataset, const TunePass& pass,
                     const TuneRates& rates, const std::vector<std::vector<std::int64_t>>& orders) {
  const std::vector<HeldReads> reads = held_curve(dataset, pass, orders);
  const std::vector<std::int64_t> sizes = held_sizes(dataset, pass);
  const double all = reads.back().held_bytes;
  TuneCurve curve{.policy = policy, .hit_rate = {}, .sent_bytes = {}, .held_bytes = {}, .points = {}};
  for (std::size_t i = 0; i < reads.size(); ++i) {
    curve.hit_rate.push_back(reads[i].hit_rate());
    curve.held_bytes.push_back(reads[i].held_bytes);
    curve.sent_bytes.push_back(all - reads[i].held_bytes);
    curve.points.push_back({.ratio = static_cast<double>(i) / 100.0,
                            .held_bytes = sizes[i],
                            .times = model_epoch(rates, {.batches = static_cast<double>(pass.epoch_batches),
                                                         .block_bytes = pass.block_bytes,
                                                         .held_bytes = reads[i].held_bytes})});
  }
  return curve;
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

TuneRates rates_of(const TuneChoices& choices, const TunePass& pass) {
  TuneRates rates{.sample_seconds = pass.sample_seconds,
                  .gather_bytes_per_second = pass.gather_bytes_per_second,
                  .complete_bytes_per_second = pass.complete_bytes_per_second,
                  .link_bytes_per_second = choices.link,
                  .train_seconds = std::nullopt,
                  .num_workers = static_cast<double>(choices.num_workers)};
  if (!choices.machine.empty()) read_machine(choices.machine, rates);
  if (!choices.summary.empty()) rates.train_seconds = train_seconds_of(choices.summary);
  if (choices.train_ms) rates.train_seconds = *choices.train_ms / 1e3;
  return rates;
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
void tune_reader(const TuneChoices& choices, const Dataset& dataset, const TuneSeeds& seeds,
                 JsonReport& json) {
  Bars bars;
  const TuneReaderReport report = simulate_reader(dataset,
                                                  {.reader = *choices.reader,
                                                   .batch = seeds.batch,
                                                   .batch_size = choices.batch_size,
                                                   .batches = choices.most_batches,
                                                   .node_type = seeds.node_type,
                                                   .seeds = seeds.ids,
                                                   .seed = choices.seed,
                                                   .threads = choices.threads},
                                                  bars);
  fmt::print("{}", reader_table(report));
  json.write({{"dataset", choices.folder}, {"reader", reader_json(report)}});
}

void tune(const TuneChoices& choices) {
  require_valid(!choices.reader || choices.evictions, "--reader is of --evictions; give both");
  require_valid(choices.summary.empty() || !choices.train_ms,
                "--summary and --train-ms both tell how long training takes; give one of them");
  const std::vector<std::string> policies = chosen_policies(choices.policies);
  // Read before the work, so that a bad file is told at once.
  static_cast<void>(rates_of(choices, {}));
  JsonReport json(choices.json);
  std::optional<AtomicFile> plot;
  if (!choices.plot.empty()) plot.emplace(choices.plot, "--plot: ");
  const Dataset dataset(choices.folder);
  const int node_type = seed_type(dataset, choices);
  const TuneSeeds seeds{.node_type = node_type,
                        .ids = dataset.split(node_type, choices.split),
                        .batch = {.fanouts = parse_fanouts(choices.fanouts)}};
  const bool has_rows = std::ranges::any_of(dataset.meta().node_types,
                                            [](const NodeTypeMeta& type) { return !type.attrs.empty(); });
  require_valid(has_rows,
                fmt::format("{} has no node attributes, so there are no rows to hold", choices.folder));
  if (choices.reader) return tune_reader(choices, dataset, seeds, json);
  Bars bars;
  const TunePass pass = measure_batches(dataset, seeds.ids,
                                        {.batch = seeds.batch,
                                         .batch_size = choices.batch_size,
                                         .node_type = node_type,
                                         .most_batches = choices.most_batches,
                                         .keep_trace = choices.evictions,
                                         .seed = choices.seed,
                                         .progress = [&](std::int64_t done, std::int64_t total) {
                                           bars.show({"Sampling", "batches", static_cast<std::uint64_t>(done),
                                                      static_cast<std::uint64_t>(total)});
                                         }});
  bars.finish();
  TuneReport report{.dataset = choices.folder,
                    .batches = pass.batches,
                    .epoch_batches = pass.epoch_batches,
                    .rates = rates_of(choices, pass),
                    .curves = {},
                    .advice = {},
                    .evictions = {},
                    .allowed_bytes = allowed_bytes(choices, pass)};
  for (const std::string& policy : policies)
    report.curves.push_back(make_curve(policy, dataset, pass, report.rates,
                                       orders_of(policy, choices, dataset, seeds, pass, bars)));
  if (choices.evictions) report.evictions = simulate_evictions(pass.trace, bars);
  report.advice = report.rates.link_bytes_per_second
                      ? recommend(report.curves.front().points, report.allowed_bytes)
                      : recommend_without_link();
  fmt::print("{}{}\nrecommended: {:.2f} of the rows ({} bytes); {}\n", tune_table(report),
             tune_drawing(report), report.curves.front().points[report.advice.point].ratio,
             report.curves.front().points[report.advice.point].held_bytes, report.advice.reason);
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
      "--policies", choices.policies,
      "Orders to compare, by commas: stored (the dataset's own), vip, degree, pagerank, presample, random, "
      "oracle (counts of the batches that are made)");
  command.flag(
      "--evictions", choices.evictions,
      "Simulate caches of 5, 10, 20, 30% of the rows in front of a slow tier: static, LRU, SIEVE, and Belady "
      "with windows of 1, 2, 4, 16 batches");
  command.option("--reader", choices.reader,
                 "Partition: with --evictions, simulate what its machine would have of the rows of other "
                 "partitions that its own seeds read, by several rankings, and nothing else",
                 {.min = 0});
  command.option("--link", choices.link,
                 "Bytes a second of the wire to the consumer; default: none (worker mode)",
                 {.positive = true});
  command.option(
      "--machine", choices.machine,
      "JSON file with rates of another machine, in place of what is measured here (docs/cache.md)");
  command.option("--summary", choices.summary, "summary.json of a training run: how long it trains a batch");
  command.option("--train-ms", choices.train_ms, "Milliseconds that training a batch takes",
                 {.positive = true});
  command.option("--plot", choices.plot, "Write the curves to this file as SVG", {.output = true});
  choices.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  command.option("--threads", choices.threads, "Threads that compute policies", {.min = 1, .max = 1024});
  command.option("--json", choices.json, "Write a report as JSON to this file", {.output = true});
  command.action([&choices] { tune(choices); });
}

}  // namespace hopfeed
