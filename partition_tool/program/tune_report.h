// What `hopfeed-partition tune` found, as a table and a curve for a terminal, as a drawing and as JSON.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cache/tune_model.h"

namespace hopfeed {

/// One policy's curve: entry i of each is at ratio i / 100.
struct TuneCurve {
  std::string policy;
  std::vector<double> hit_rate;
  std::vector<double> sent_bytes;  // of features, a batch: what producers gather for the consumer
  std::vector<double> held_bytes;  // of features, a batch: what the consumer has
  std::vector<TunePoint> points;
};

/// What a cache in front of a slow tier would have had of the batches (cache/next_use.h).
struct TuneEviction {
  std::string eviction;          // "static", "lru", "sieve", "belady, window 4", ...
  std::vector<double> hit_rate;  // per ratio of kEvictionRatios
};
inline constexpr double kEvictionRatios[] = {0.05, 0.1, 0.2, 0.3};

struct TuneReport {
  std::string dataset;
  std::int64_t batches = 0, epoch_batches = 0;  // measured, of
  TuneRates rates;
  std::vector<TuneCurve> curves;  // the first is the one that is recommended from
  TuneAdvice advice;
  std::vector<TuneEviction> evictions;  // where they were asked for
  std::int64_t allowed_bytes = 0;
};

/// A line for ratios of every 10% and the recommended one, for each policy, then the stages, then the advice.
std::string tune_table(const TuneReport& report);
/// Hit rate (upwards, 0 to 100%) over ratio, in letters.
std::string tune_drawing(const TuneReport& report);
/// The same as SVG with labelled axes, a line a policy, and a mark at the recommendation.
std::string tune_svg(const TuneReport& report);
nlohmann::json tune_json(const TuneReport& report);

}  // namespace hopfeed
