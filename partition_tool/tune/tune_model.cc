// See tune_model.h.
#include "partition_tool/tune/tune_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

namespace hopfeed {

const char* to_string(TuneStage stage) {
  switch (stage) {
    case TuneStage::kSample:
      return "sample";
    case TuneStage::kGather:
      return "gather";
    case TuneStage::kRead:
      return "read";
    case TuneStage::kMove:
      return "move";
    case TuneStage::kComplete:
      return "complete";
    case TuneStage::kConvert:
      return "convert";
    case TuneStage::kTrain:
      return "train";
    case TuneStage::kCores:
      return "cores";
  }
  return "?";
}

namespace {

/// Seconds of one batch, stage by stage, for whoever does it alone.
struct BatchTimes {
  double sample = 0, gather = 0, read = 0, send = 0, link = 0, receive = 0, complete = 0, convert = 0,
         train = 0;
  double read_cpu = 0, read_disk = 0;  // of a core; of the disk that all workers share
  double worker() const { return sample + gather + read; }
  double consumer() const { return complete + convert + train; }
  double move() const { return std::max({send, link, receive}); }
  double way() const { return worker() + send + link + receive + consumer(); }
};

BatchTimes batch_times(const TuneRates& rates, const TuneLoad& load) {
  const double sent = load.block_bytes - load.held_bytes;
  BatchTimes batch{.sample = rates.sample_seconds,
                   .gather = (sent - load.file_bytes) / rates.gather_bytes_per_second};
  if (rates.files) {
    batch.read = load.reads / rates.files->reads_per_second;
    batch.read_disk = load.reads / rates.files->all_reads_per_second;
    batch.read_cpu = load.reads * rates.files->cpu_seconds_per_read;
  }
  if (rates.wire) {
    batch.send = sent * rates.wire->send_seconds_per_byte;
    batch.receive = sent * rates.wire->receive_seconds_per_byte;
    if (rates.wire->bytes_per_second) batch.link = sent / *rates.wire->bytes_per_second;
  }
  if (load.held_bytes > 0) batch.complete = load.block_bytes / rates.complete_bytes_per_second;
  if (rates.convert_bytes_per_second > 0) batch.convert = load.convert_bytes / rates.convert_bytes_per_second;
  batch.train = rates.train_seconds.value_or(0);
  return batch;
}

/// What binds a side: the largest of its stages.
TuneStage largest(std::initializer_list<std::pair<double, TuneStage>> stages) {
  return std::ranges::max_element(stages, {}, &std::pair<double, TuneStage>::first)->second;
}

}  // namespace

EpochTimes model_epoch(const TuneRates& rates, const TuneLoad& load) {
  const BatchTimes batch = batch_times(rates, load);
  const double making = batch.sample + batch.gather + batch.read_cpu + batch.send,
               taking = batch.receive + batch.consumer();
  const bool two_machines = rates.wire && !rates.wire->loopback();
  const double cores = (two_machines ? std::max(making, taking) : making + taking) / rates.cores;
  const double workers = batch.worker() / rates.num_workers;
  const double pace = std::max({workers, batch.read_disk, batch.move(), batch.consumer(), cores});
  EpochTimes times{.sample = load.batches * batch.sample / rates.num_workers,
                   .gather = load.batches * batch.gather / rates.num_workers,
                   .read = load.batches * std::max(batch.read_disk, batch.read / rates.num_workers),
                   .move = load.batches * batch.move(),
                   .complete = load.batches * batch.complete,
                   .convert = load.batches * batch.convert,
                   .train = load.batches * batch.train,
                   .cores = load.batches * cores,
                   // All but the first come at the pace of the slowest.
                   .epoch = load.batches * pace + std::max(0.0, batch.way() - pace)};
  if (pace == workers)
    times.binds = largest({{batch.sample, TuneStage::kSample},
                           {batch.gather, TuneStage::kGather},
                           {batch.read, TuneStage::kRead}});
  else if (pace == batch.read_disk)
    times.binds = TuneStage::kRead;
  else if (pace == batch.move())
    times.binds = TuneStage::kMove;
  else if (pace == batch.consumer())
    times.binds = largest({{batch.train, TuneStage::kTrain},
                           {batch.complete, TuneStage::kComplete},
                           {batch.convert, TuneStage::kConvert}});
  else
    times.binds = TuneStage::kCores;
  return times;
}

TuneAdvice recommend_without_link() {
  return {.point = 0,
          .reason =
              "in worker mode trainer and workers read the same memory, so holding rows saves nothing; "
              "for a client of servers name its wire (--link BYTES_PER_SECOND or loopback)"};
}

namespace {

std::string memory_text(std::int64_t bytes) {
  const auto amount = static_cast<double>(bytes);
  return amount < 1e6 ? fmt::format("{:.1f} kB", amount / 1e3) : fmt::format("{:.1f} MB", amount / 1e6);
}

/// "; the best holds 0.92 of the rows, 12.0 MB more, for an epoch that is 3.0% shorter"
std::string best_costs(const TunePoint& chosen, const TunePoint& best) {
  return fmt::format("; the best holds {:.2f} of the rows, {} more, for an epoch that is {:.1f}% shorter",
                     best.ratio, memory_text(best.held_bytes - chosen.held_bytes),
                     100 * (1 - best.times.epoch / chosen.times.epoch));
}

}  // namespace

TuneAdvice recommend(std::span<const TunePoint> points, const AdviceOptions& options) {
  std::size_t allowed = 1;
  while (allowed < points.size() && points[allowed].held_bytes <= options.budget) ++allowed;
  const auto best = static_cast<std::size_t>(
      std::ranges::min_element(points.first(allowed), {}, [](const TunePoint& p) { return p.times.epoch; }) -
      points.begin());
  std::size_t chosen = 0;
  while (points[chosen].times.epoch > (1 + options.within) * points[best].times.epoch) ++chosen;
  const EpochTimes& times = points[chosen].times;
  TuneAdvice advice{.point = chosen, .best = best, .reason = fmt::format("{:.3f} s an epoch", times.epoch)};
  if (chosen == 0)
    advice.reason += fmt::format(" without {}", options.held);
  else
    advice.reason += fmt::format(" instead of {:.3f} s without {}", points[0].times.epoch, options.held);
  advice.reason +=
      fmt::format(", within {:g}% of the best of all ratios{}; then {} binds", 100 * options.within,
                  allowed == points.size() ? "" : " that the budget allows", to_string(times.binds));
  if (best != chosen) advice.reason += best_costs(points[chosen], points[best]);
  return advice;
}

}  // namespace hopfeed
