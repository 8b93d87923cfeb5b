// See tune_model.h.
#include "cache/tune_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace hopfeed {

const char* to_string(TuneStage stage) {
  switch (stage) {
    case TuneStage::kSample:
      return "sample";
    case TuneStage::kGather:
      return "gather";
    case TuneStage::kMove:
      return "move";
    case TuneStage::kComplete:
      return "complete";
    case TuneStage::kTrain:
      return "train";
  }
  return "?";
}

EpochTimes model_epoch(const TuneRates& rates, const TuneLoad& load) {
  const double sent = load.block_bytes - load.held_bytes;
  EpochTimes times;
  times.sample = load.batches * rates.sample_seconds / rates.num_workers;
  times.gather = load.batches * sent / rates.gather_bytes_per_second / rates.num_workers;
  if (rates.link_bytes_per_second) times.move = load.batches * sent / *rates.link_bytes_per_second;
  if (load.held_bytes > 0) times.complete = load.batches * load.block_bytes / rates.complete_bytes_per_second;
  if (rates.train_seconds) times.train = load.batches * *rates.train_seconds;
  const double workers = times.sample + times.gather, consumer = times.complete + times.train;
  times.epoch = std::max({workers, times.move, consumer});
  if (times.epoch == workers)
    times.binds = times.sample >= times.gather ? TuneStage::kSample : TuneStage::kGather;
  else if (times.epoch == times.move)
    times.binds = TuneStage::kMove;
  else
    times.binds = times.train >= times.complete ? TuneStage::kTrain : TuneStage::kComplete;
  return times;
}

TuneAdvice recommend_without_link() {
  return {.point = 0,
          .reason =
              "in worker mode trainer and workers read the same memory, so holding rows saves nothing; "
              "for a client of servers name its wire (--link BYTES_PER_SECOND)"};
}

TuneAdvice recommend(std::span<const TunePoint> points, std::int64_t budget) {
  std::size_t allowed = 1;
  while (allowed < points.size() && points[allowed].held_bytes <= budget) ++allowed;
  const auto faster = [](const TunePoint& a, const TunePoint& b) { return a.times.epoch < b.times.epoch; };
  const TunePoint& best =
      *std::min_element(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(allowed), faster);
  std::size_t chosen = 0;
  while (points[chosen].times.epoch > 1.01 * best.times.epoch) ++chosen;
  const EpochTimes& times = points[chosen].times;
  const bool all = allowed == points.size();
  TuneAdvice advice{.point = chosen, .reason = {}};
  if (chosen == 0)
    advice.reason = fmt::format(
        "{:.3f} s an epoch without held rows, which is within 1% of the best of all ratios{}: {} binds",
        times.epoch, all ? "" : " that the budget allows", to_string(times.binds));
  else
    advice.reason = fmt::format(
        "{:.3f} s an epoch instead of {:.3f} s without held rows, within 1% of the best of all ratios{}; "
        "then {} binds",
        times.epoch, points[0].times.epoch, all ? "" : " that the budget allows", to_string(times.binds));
  return advice;
}

}  // namespace hopfeed
