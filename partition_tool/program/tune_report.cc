// See tune_report.h.
#include "partition_tool/program/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace hopfeed {
namespace {

std::string bytes_text(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes / 1e9);
  if (bytes >= 1e6) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} kB", bytes / 1e3);
}

bool shown(const TuneReport& report, std::size_t i) {
  return i % 10 == 0 || i == 5 || i == report.advice.point;
}

std::string machine_text(const TuneRates& rates) {
  std::string out = fmt::format(
      "a worker samples a batch in {:.2f} ms and writes {}/s; the consumer completes {}/s; {} cores\n",
      rates.sample_seconds * 1e3, bytes_text(rates.gather_bytes_per_second),
      bytes_text(rates.complete_bytes_per_second), rates.cores);
  if (rates.files)
    out += fmt::format(
        "a worker does {:.0f} reads of files a second, all together {:.0f}, each for {:.1f} us of a core\n",
        rates.files->reads_per_second, rates.files->all_reads_per_second,
        1e6 * rates.files->cpu_seconds_per_read);
  if (!rates.wire)
    out += "no link (worker mode): nothing moves\n";
  else
    out += fmt::format(
        "the link is {}; a core sends {}/s and receives {}/s\n",
        rates.wire->loopback() ? std::string("loopback") : bytes_text(*rates.wire->bytes_per_second) + "/s",
        bytes_text(1 / rates.wire->send_seconds_per_byte),
        bytes_text(1 / rates.wire->receive_seconds_per_byte));
  out += rates.train_seconds
             ? fmt::format("training takes {:.2f} ms a batch\n", *rates.train_seconds * 1e3)
             : std::string("training is not known and left out; --train-ms or --summary tells\n");
  return out;
}

/// What each tier gives a batch.
std::string tiers_text(const TuneReport& report) {
  std::string out = fmt::format("\n{:10} {:>7} {:>11} {:>11} {:>11} {:>11} {:>9}\n", "bytes from", "held %",
                                "held rows", "memory", "row cache", "files", "reads");
  const TuneCurve& curve = report.curves.front();
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    if (!shown(report, i)) continue;
    out += fmt::format("{:10} {:7} {:>11} {:>11} {:>11} {:>11} {:9.0f}\n",
                       i == report.advice.point ? "  -->" : "", i, bytes_text(curve.held_bytes[i]),
                       bytes_text(curve.sent_bytes[i] - curve.cached_bytes[i] - curve.file_bytes[i]),
                       bytes_text(curve.cached_bytes[i]), bytes_text(curve.file_bytes[i]), curve.reads[i]);
  }
  return out;
}

std::string evictions_text(const TuneReport& report) {
  std::string out = fmt::format("\n{:20}", "evictions, held %");
  for (const double ratio : kEvictionRatios) out += fmt::format(" {:6.0f}", 100 * ratio);
  for (const TuneEviction& eviction : report.evictions) {
    out += fmt::format("\n  {:18}", eviction.eviction);
    for (const double rate : eviction.hit_rate) out += fmt::format(" {:6.2f}", 100 * rate);
  }
  return out + "\n";
}

std::string measured_text(const TuneReport& report) {
  std::string out = fmt::format("\n{:32} {:>9} {:>12} {:>12} {:>7}\n", "measured", "hits %", "epoch, s",
                                "said, s", "ratio");
  for (const MeasuredRun& run : report.measured) {
    const double said = report.curves.front().points[point_of(report, run)].times.epoch;
    out += fmt::format("{:32} {:9.2f} {:12.3f} {:12.3f} {:7.2f}\n", run.name, 100 * run.hit_rate,
                       run.epoch_seconds, said, said / run.epoch_seconds);
  }
  return out;
}

nlohmann::json machine_json(const TuneRates& rates) {
  nlohmann::json machine = {{"sample_seconds", rates.sample_seconds},
                            {"gather_bytes_per_second", rates.gather_bytes_per_second},
                            {"complete_bytes_per_second", rates.complete_bytes_per_second},
                            {"num_workers", rates.num_workers},
                            {"cores", rates.cores}};
  if (rates.convert_bytes_per_second > 0)
    machine["convert_bytes_per_second"] = rates.convert_bytes_per_second;
  if (rates.files) {
    machine["reads_per_second"] = rates.files->reads_per_second;
    machine["all_reads_per_second"] = rates.files->all_reads_per_second;
    machine["cpu_seconds_per_read"] = rates.files->cpu_seconds_per_read;
  }
  if (rates.wire) {
    machine["send_seconds_per_byte"] = rates.wire->send_seconds_per_byte;
    machine["receive_seconds_per_byte"] = rates.wire->receive_seconds_per_byte;
    if (rates.wire->bytes_per_second) machine["link_bytes_per_second"] = *rates.wire->bytes_per_second;
  }
  if (rates.train_seconds) machine["train_seconds"] = *rates.train_seconds;
  return machine;
}

}  // namespace

std::size_t point_of(const TuneReport& report, const MeasuredRun& run) {
  const std::vector<double>& rates = report.curves.front().hit_rate;
  std::size_t point = 0;
  for (std::size_t i = 1; i < rates.size(); ++i)
    if (std::abs(rates[i] - run.hit_rate) < std::abs(rates[point] - run.hit_rate)) point = i;
  return point;
}

std::string tune_table(const TuneReport& report) {
  std::string out = fmt::format("{}: {} of {} batches of the epoch made\n", report.name, report.batches,
                                report.epoch_batches) +
                    machine_text(report.rates);
  for (const TuneCurve& curve : report.curves) {
    out += fmt::format(
        "\n{:10} {:>7} {:>7} {:>11} | seconds: {:>7} {:>7} {:>7} {:>7} {:>8} {:>7} {:>7} {:>7} {:>7}  "
        "binds\n",
        curve.policy, "held %", "hits %", "gathered", "sample", "gather", "read", "move", "complete",
        "convert", "train", "cores", "epoch");
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      if (!shown(report, i)) continue;
      const EpochTimes& times = curve.points[i].times;
      out += fmt::format(
          "{:10} {:7} {:7.2f} {:>11} |          {:7.3f} {:7.3f} {:7.3f} {:7.3f} {:8.3f} {:7.3f} {:7.3f} "
          "{:7.3f} {:7.3f}  {}\n",
          i == report.advice.point && &curve == report.curves.data() ? "  -->" : "", i,
          100 * curve.hit_rate[i], bytes_text(curve.sent_bytes[i]), times.sample, times.gather, times.read,
          times.move, times.complete, times.convert, times.train, times.cores, times.epoch,
          to_string(times.binds));
    }
  }
  out += tiers_text(report);
  if (!report.evictions.empty()) out += evictions_text(report);
  if (!report.measured.empty()) out += measured_text(report);
  return out;
}

std::string tune_recommendation(const TuneReport& report) {
  const TunePoint& point = report.curves.front().points[report.advice.point];
  return fmt::format("recommended: {:.2f} of the rows ({} bytes); {}", point.ratio, point.held_bytes,
                     report.advice.reason);
}

std::string tune_drawing(const TuneReport& report) {
  constexpr int kHeight = 11, kWidth = 51;
  std::vector<std::string> rows(kHeight, std::string(kWidth, ' '));
  for (auto curve = report.curves.rbegin(); curve != report.curves.rend();
       ++curve) {  // the first lies on top
    for (int x = 0; x < kWidth; ++x) {
      const double rate = curve->hit_rate[static_cast<std::size_t>(2 * x)];
      const auto y = std::clamp(static_cast<int>(std::lround(rate * (kHeight - 1))), 0, kHeight - 1);
      rows[static_cast<std::size_t>(kHeight - 1 - y)][static_cast<std::size_t>(x)] = curve->policy.front();
    }
  }
  std::string out = "\nhit rate, %\n";
  for (int y = 0; y < kHeight; ++y)
    out += fmt::format("{:4} |{}\n", 100 - 10 * y, rows[static_cast<std::size_t>(y)]);
  out +=
      fmt::format("     +{}\n      0{:>24}{:>25}   rows held, %\n     ", std::string(kWidth, '-'), 50, 100);
  for (const TuneCurve& curve : report.curves)
    out += fmt::format(" {}: {}", curve.policy.front(), curve.policy);
  return out + "\n";
}

nlohmann::json tune_json(const TuneReport& report) {
  using nlohmann::json;
  json curve = json::array();
  for (const TuneCurve& of : report.curves) {
    for (std::size_t i = 0; i < of.points.size(); ++i) {
      const EpochTimes& times = of.points[i].times;
      curve.push_back({{"policy", of.policy},
                       {"ratio", of.points[i].ratio},
                       {"hit_rate", of.hit_rate[i]},
                       {"bytes_per_batch", of.sent_bytes[i]},
                       {"held_bytes_per_batch", of.held_bytes[i]},
                       {"cached_bytes_per_batch", of.cached_bytes[i]},
                       {"file_bytes_per_batch", of.file_bytes[i]},
                       {"reads_per_batch", of.reads[i]},
                       {"read_bytes_per_batch", of.read_bytes[i]},
                       {"held_rows_bytes", of.points[i].held_bytes},
                       {"epoch_seconds", times.epoch},
                       {"stages",
                        {{"sample", times.sample},
                         {"gather", times.gather},
                         {"read", times.read},
                         {"move", times.move},
                         {"complete", times.complete},
                         {"convert", times.convert},
                         {"train", times.train},
                         {"cores", times.cores}}},
                       {"binds", to_string(times.binds)}});
    }
  }
  json evictions = json::array();
  for (const TuneEviction& eviction : report.evictions)
    for (std::size_t i = 0; i < eviction.hit_rate.size(); ++i)
      evictions.push_back({{"eviction", eviction.eviction},
                           {"ratio", kEvictionRatios[i]},
                           {"hit_rate", eviction.hit_rate[i]}});
  json measured = json::array();
  for (const MeasuredRun& run : report.measured) {
    const TunePoint& point = report.curves.front().points[point_of(report, run)];
    measured.push_back({{"file", run.name},
                        {"ratio", point.ratio},
                        {"hit_rate", run.hit_rate},
                        {"epoch_seconds", run.epoch_seconds},
                        {"predicted_epoch_seconds", point.times.epoch}});
  }
  const std::vector<TunePoint>& points = report.curves.front().points;
  const TunePoint &chosen = points[report.advice.point], &best = points[report.advice.best];
  return {{"dataset", report.dataset},
          {"name", report.name},
          {"memory_bytes", report.memory_bytes},
          {"batches", report.batches},
          {"epoch_batches", report.epoch_batches},
          {"machine", machine_json(report.rates)},
          {"curve", std::move(curve)},
          {"evictions", std::move(evictions)},
          {"measured", std::move(measured)},
          {"recommended",
           {{"ratio", chosen.ratio},
            {"reason", report.advice.reason},
            {"within_percent", report.within},
            {"best",
             {{"ratio", best.ratio},
              {"held_rows_bytes", best.held_bytes},
              {"epoch_seconds", best.times.epoch}}}}}};
}

}  // namespace hopfeed
