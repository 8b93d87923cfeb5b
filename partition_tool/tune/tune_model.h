// Computes what an epoch costs by the model of a pipeline, and which share of the rows a consumer should
// hold. It is arithmetic alone: what is measured stands in its inputs (tune_measure.h, tune_rates.h,
// tune_files.h).
//
//   sample     sampling, shared by the workers
//   gather     writing the block without held rows and without rows that are read from files, shared by the
//              workers
//   read       rows of files: a worker waits for its own reads, and the disk serves all workers
//   move       the block without held rows over the wire: sending, the network, receiving, whichever is
//              slowest; in worker mode there is none
//   complete   putting the held rows back: the whole batch, by the consumer; nothing where no row is held
//   convert    making float32 of rows that are stored otherwise, by the consumer
//   train      the consumer's own work, where it is known
//
// sample, gather and read take turns in a worker; complete, convert and train in the consumer. Workers, disk,
// wire and consumer go on side by side, so the slowest sets the pace; and no pace is faster than the cores
// allow, which all that computes shares. The first batch passes the stages one after the other.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace hopfeed {

/// FileRates are reads from files, and what a row cache in front of them answers.
struct FileRates {
  double reads_per_second = 0;      // reads that one worker does alone
  double all_reads_per_second = 0;  // reads that all workers do together
  double cpu_seconds_per_read = 0;  // rows copied out included
};

/// WireRates say what carries blocks to the consumer.
struct WireRates {
  std::optional<double> bytes_per_second;  // none: loopback, as fast as the cores
  double send_seconds_per_byte = 0;        // on a core
  double receive_seconds_per_byte = 0;
  bool loopback() const { return !bytes_per_second; }
};

/// TuneRates are what a machine can do, and what training asks of it. Seconds of stages are seconds on a
/// core.
struct TuneRates {
  double sample_seconds = 0;                 // a batch, of one worker
  double gather_bytes_per_second = 0;        // of one worker
  double complete_bytes_per_second = 0;      // of the consumer
  double convert_bytes_per_second = 0;       // of the consumer: of float32; 0: nothing is converted
  std::optional<FileRates> files = {};       // none: rows come from memory
  std::optional<WireRates> wire = {};        // none: worker mode, shared memory, nothing moves
  std::optional<double> train_seconds = {};  // a batch; none: unknown, left out
  double num_workers = 2;
  double cores = 2;  // of each machine: servers and consumer on different machines have one each
};

/// A TuneLoad is a batch at one ratio.
struct TuneLoad {
  double batches = 0;        // of the epoch
  double block_bytes = 0;    // whole
  double held_bytes = 0;     // of block_bytes, those of rows that the consumer holds
  double file_bytes = 0;     // of block_bytes, those of rows that are read from files
  double reads = 0;          // reads that file_bytes take
  double convert_bytes = 0;  // of float32, that rows which are stored otherwise become
};

enum class TuneStage { kSample, kGather, kRead, kMove, kComplete, kConvert, kTrain, kCores };
/// Returns the name: "sample", "gather", ...
const char* to_string(TuneStage stage);

/// EpochTimes are seconds of an epoch; the parts are what each stage takes of its side of the pipeline.
struct EpochTimes {
  double sample = 0, gather = 0, read = 0, move = 0, complete = 0, convert = 0, train = 0;
  double cores = 0;                      // all that computes, over the cores of the busier machine
  double epoch = 0;                      // of the slowest side, and the first batch's way
  TuneStage binds = TuneStage::kSample;  // the largest stage of that side
};
EpochTimes model_epoch(const TuneRates& rates, const TuneLoad& load);

/// A TunePoint is a point of a curve.
struct TunePoint {
  double ratio = 0;             // of the rows that are held
  std::int64_t held_bytes = 0;  // bytes that the held rows take
  EpochTimes times;
};
struct TuneAdvice {
  std::size_t point = 0;  // of the curve
  std::size_t best = 0;   // the point of the shortest epoch
  std::string reason;
};
struct AdviceOptions {
  std::int64_t budget = std::numeric_limits<std::int64_t>::max();  // bytes that held rows may take
  double within = 0.05;            // of the best epoch: a forecast errs, and tells no smaller difference
  std::string held = "held rows";  // what rows are held in, for the reason: "a row cache"
};
/// Returns the smallest ratio whose epoch is within that of the best that the budget allows. The reason says
/// what the best would cost more. Points come by rising ratio, the first of ratio 0.
TuneAdvice recommend(std::span<const TunePoint> points, const AdviceOptions& options = {});
/// Returns what there is to say where nothing is sent: nothing is saved by holding rows.
TuneAdvice recommend_without_link();

}  // namespace hopfeed
