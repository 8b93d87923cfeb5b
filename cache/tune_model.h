// What an epoch costs by the model of a pipeline, and which share of the rows a consumer should hold.
// Arithmetic alone: what is measured stands in its inputs (tune_measure.h).
//
//   sample   sampling, shared by the workers
//   gather   writing the block: what is no held row, at the rate of the producers' memory, shared by the
//   workers move     the same bytes over the wire; without a link there is none complete putting the held
//   rows back: the whole batch, at the rate of the consumer's memory; nothing where no
//            row is held
//   train    the consumer's own work, where it is known
//
// sample and gather take turns in a worker, complete and train in the consumer; workers, link and consumer go
// on side by side, so the slowest of the three sets the pace.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hopfeed {

/// What a machine can do, and what training asks of it.
struct TuneRates {
  double sample_seconds = 0;                    // a batch, of one worker
  double gather_bytes_per_second = 0;           // of one worker
  double complete_bytes_per_second = 0;         // of the consumer
  std::optional<double> link_bytes_per_second;  // none: shared memory, nothing moves
  std::optional<double> train_seconds;          // a batch; none: unknown, left out
  double num_workers = 2;
};

/// An epoch at one ratio.
struct TuneLoad {
  double batches = 0;      // of the epoch
  double block_bytes = 0;  // a batch, whole
  double held_bytes = 0;   // of these, those of rows that the consumer holds
};

enum class TuneStage { kSample, kGather, kMove, kComplete, kTrain };
/// "sample", "gather", ...
const char* to_string(TuneStage stage);

/// Seconds of an epoch; the parts are what each stage takes of its side of the pipeline.
struct EpochTimes {
  double sample = 0, gather = 0, move = 0, complete = 0, train = 0;
  double epoch = 0;                      // of the slowest side
  TuneStage binds = TuneStage::kSample;  // the larger stage of that side
};
EpochTimes model_epoch(const TuneRates& rates, const TuneLoad& load);

/// A point of a curve.
struct TunePoint {
  double ratio = 0;             // of the rows that are held
  std::int64_t held_bytes = 0;  // that the rows take
  EpochTimes times;
};
struct TuneAdvice {
  std::size_t point = 0;  // of the curve
  std::string reason;
};
/// The smallest ratio whose epoch is within 1% of the best that `budget` bytes allow. Points by rising ratio,
/// the first of ratio 0.
TuneAdvice recommend(std::span<const TunePoint> points, std::int64_t budget);
/// What there is to say without a link: nothing is saved by holding rows.
TuneAdvice recommend_without_link();

}  // namespace hopfeed
