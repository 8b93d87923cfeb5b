// See tune_reader.h.
#include "partition_tool/program/tune_reader.h"

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cache/remote_ranks.h"
#include "core/base/error.h"
#include "partition_tool/hotness/hotness_policy.h"
#include "partition_tool/tune/remote_reads.h"

namespace hopfeed {
namespace {

constexpr std::int64_t kReaderWindows[] = {1, 2, 4, 16};

}  // namespace

TuneReaderReport simulate_reader(const Dataset& dataset, const TuneReaderOptions& options, Bars& bars) {
  require_partition(dataset, options.reader, "--reader");
  require_valid(dataset.meta().partitions > 1,
                fmt::format("--reader: {} has one partition, so there are no rows of others; cut it with "
                            "hopfeed-partition partition",
                            dataset.folder().string()));
  const auto reader = static_cast<int>(options.reader);
  const std::vector<std::int64_t> seeds = own_seeds(dataset, options.node_type, options.seeds, reader);
  const auto show = [&](const char* step, std::int64_t done, std::int64_t total) {
    bars.show({step, "steps", static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total)});
  };
  const RemoteReads reads(
      dataset, reader, seeds,
      {.batch = options.batch,
       .batch_size = options.batch_size,
       .node_type = options.node_type,
       .batches = options.batches,
       .seed = options.seed,
       .progress = [&](std::int64_t done, std::int64_t total) { show("Sampling", done, total); }});
  const std::vector<std::vector<double>> global = node_hotness(
      dataset, HotnessPolicy::kVip,
      {.batch = options.batch,
       .batch_size = options.batch_size,
       .node_type = options.node_type,
       .seeds = options.seeds,
       .threads = options.threads,
       .progress = [&](std::int64_t done, std::int64_t total) { show("Global hotness", done, total); }});
  const auto batches = static_cast<double>(options.batches);
  TuneReaderReport report{.reader = reader,
                          .stored = RemoteRanks(dataset, reader).stored(options.node_type),
                          .seeds = std::ssize(seeds),
                          .batches = options.batches,
                          .remote_rows = reads.remote_rows(),
                          .own_reads = static_cast<double>(reads.own_reads()) / batches,
                          .remote_reads = static_cast<double>(reads.remote_reads()) / batches,
                          .lines = {}};
  const auto add = [&](const std::string& how, const std::function<CacheHits(std::int64_t)>& simulate) {
    report.lines.push_back({.how = how, .hit_rate = {}});
    for (const double ratio : kReaderRatios)
      report.lines.back().hit_rate.push_back(
          simulate(static_cast<std::int64_t>(ratio * static_cast<double>(reads.remote_rows()))).rate());
    show("Simulating", std::ssize(report.lines), 9);
  };
  add("static, owners' order", [&](std::int64_t capacity) { return reads.static_by_owners(capacity); });
  add("static, global order", [&](std::int64_t capacity) { return reads.static_by(global, capacity); });
  add("static, reader's list",
      [&](std::int64_t capacity) { return simulate_static(reads.trace(), capacity); });
  add("static, oracle", [&](std::int64_t capacity) { return reads.static_by_reads(capacity); });
  for (const std::int64_t window : kReaderWindows)
    add(fmt::format("belady, window {}", window),
        [&](std::int64_t capacity) { return simulate_belady(reads.trace(), capacity, window); });
  add("belady, whole",
      [&](std::int64_t capacity) { return simulate_belady(reads.trace(), capacity, kWholeEpoch); });
  bars.finish();
  return report;
}

std::string reader_table(const TuneReaderReport& report) {
  std::string out = fmt::format(
      "partition {}: {} batches from {} training nodes read {:.0f} rows of its own each and {:.0f} of the {} "
      "rows "
      "of other partitions; the reader's list is {}\n\n{:24}",
      report.reader, report.batches, report.seeds, report.own_reads, report.remote_reads, report.remote_rows,
      report.stored ? "stored" : "not stored (hopfeed-partition hotness makes one)", "held %");
  for (const double ratio : kReaderRatios) out += fmt::format(" {:>27.0f}", 100 * ratio);
  out += fmt::format("\n{:24}", "");
  for (std::size_t i = 0; i < std::size(kReaderRatios); ++i)
    out += fmt::format(" {:>7} {:>9} {:>9}", "hits %", "fetched", "fewer");
  for (const TuneReaderReport::Line& line : report.lines) {
    out += fmt::format("\n{:24}", line.how);
    for (const double rate : line.hit_rate)
      out += fmt::format(" {:7.2f} {:9.0f} {:>9}", 100 * rate, (1 - rate) * report.remote_reads,
                         rate < 1 ? fmt::format("{:.2f}x", 1 / (1 - rate)) : "all");
  }
  return out + "\n";
}

nlohmann::json reader_json(const TuneReaderReport& report) {
  nlohmann::json lines = nlohmann::json::array();
  for (const TuneReaderReport::Line& line : report.lines)
    for (std::size_t i = 0; i < line.hit_rate.size(); ++i)
      lines.push_back({{"how", line.how},
                       {"ratio", kReaderRatios[i]},
                       {"hit_rate", line.hit_rate[i]},
                       {"fetched_rows_per_batch", (1 - line.hit_rate[i]) * report.remote_reads}});
  return {{"partition", report.reader},
          {"list_stored", report.stored},
          {"seeds", report.seeds},
          {"batches", report.batches},
          {"remote_rows", report.remote_rows},
          {"own_rows_per_batch", report.own_reads},
          {"remote_rows_per_batch", report.remote_reads},
          {"caches", std::move(lines)}};
}

}  // namespace hopfeed
