// Reports what `hopfeed-partition tune` found, as a table and a curve for a terminal, as a drawing and as
// JSON.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "partition_tool/tune/tune_model.h"

namespace hopfeed {

/// A TuneCurve is one policy's curve: entry i of each list is at ratio i / 100.
struct TuneCurve {
  std::string policy;
  std::vector<double> hit_rate;    // of rows that the consumer holds; row cache: of rows read from files
  std::vector<double> sent_bytes;  // of features, a batch: what producers gather for the consumer
  std::vector<double> held_bytes;  // of features, a batch: what the consumer has
  // These are parts of sent_bytes: from the row cache, and from files; what is left comes from memory.
  std::vector<double> cached_bytes, file_bytes;
  std::vector<double> reads, read_bytes;  // of files, a batch; whole pages
  std::vector<TunePoint> points;
};

/// A TuneEviction is what a cache in front of a slow tier would have had of the batches
/// (partition_tool/tune/next_use.h).
struct TuneEviction {
  std::string eviction;          // "static", "lru", "sieve", "belady, window 4", ...
  std::vector<double> hit_rate;  // per ratio of kEvictionRatios
};
inline constexpr double kEvictionRatios[] = {0.05, 0.1, 0.2, 0.3};

/// A MeasuredRun is a run of hopfeed-sample (--json) or of a training program (summary.json), beside what is
/// said of it.
struct MeasuredRun {
  std::string name;  // of the file
  double hit_rate = 0, epoch_seconds = 0;
};

struct TuneReport {
  std::string dataset;                          // folder
  double within = 0;                            // percent of the best epoch
  std::string name;                             // of the dataset
  std::uint64_t memory_bytes = 0;               // about, that it wanted; told before
  std::int64_t batches = 0, epoch_batches = 0;  // measured, of
  TuneRates rates;
  std::vector<TuneCurve> curves;  // the first is the one that is recommended from
  TuneAdvice advice;
  std::vector<TuneEviction> evictions;  // where they were asked for
  std::vector<MeasuredRun> measured;
};

/// Returns the point of the first curve that a measured run stands beside: the one with its hit rate.
std::size_t point_of(const TuneReport& report, const MeasuredRun& run);

/// Returns a line for ratios of every 10% and the recommended one, for each policy, with its stages; then
/// measured runs.
std::string tune_table(const TuneReport& report);
/// Returns the advice, in one line.
std::string tune_recommendation(const TuneReport& report);
/// Draws hit rate (upwards, 0 to 100%) over ratio, in letters.
std::string tune_drawing(const TuneReport& report);
/// Draws hit rate and epoch time over ratio as SVG with labelled axes, a line a policy, marks at the
/// recommendation and at what was measured.
std::string tune_svg(const TuneReport& report);
nlohmann::json tune_json(const TuneReport& report);

}  // namespace hopfeed
