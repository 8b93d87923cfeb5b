// Makes one pass of sampled batches: what they read, and how large they are. The tuner computes its curves
// from it. No row of features is read.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"
#include "core/maker/feature_source.h"
#include "partition_tool/tune/next_use.h"

namespace hopfeed {

struct TunePassOptions {
  BatchOptions batch;
  std::int64_t batch_size = 1024;
  int node_type = 0;               // of the seeds
  std::int64_t most_batches = 40;  // spread evenly over the epoch; fewer where the epoch has fewer
  double most_seconds = 60;        // no further batch is begun after so long, but one is made
  bool keep_trace = false;         // for evictions (next_use.h); 8 bytes a row that is read
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // may throw to stop
};

/// BatchIds are dataset ids that batches read, [batch][node type].
using BatchIds = std::vector<std::vector<std::vector<std::int64_t>>>;

struct TunePass {
  std::int64_t batches = 0, epoch_batches = 0;  // made, and of the epoch
  std::vector<std::vector<std::int64_t>>
      counts;                           // per node type [N] by dataset id: batches that read the row
  std::vector<std::int64_t> row_bytes;  // per node type: of the attributes that batches carry
  double block_bytes = 0;               // mean of a whole batch
  BatchIds ids;                         // of the last batches, kIdBatches at most
  /// It is the trace of the pass, where it is kept, over the rows of all types that batches carry.
  /// places[type][id] is the row's number.
  RowTrace trace;
  std::vector<std::vector<std::int64_t>> places;
};
inline constexpr std::size_t kIdBatches = 16;

/// `seeds` are original ids. Throws what BatchMaker throws.
TunePass measure_batches(const Dataset& dataset, std::span<const std::int64_t> seeds,
                         const TunePassOptions& options);

/// HeldReads are rows read by a batch on average, and those of them that are held, over the types whose rows
/// batches carry.
struct HeldReads {
  double rows = 0, held = 0, held_bytes = 0;
  std::vector<double> left = {};  // per node type: rows that are read and not held
  double hit_rate() const { return rows > 0 ? held / rows : 0.0; }
};
/// Returns an entry per ratio 0, 0.01, ... 1; `orders` has one per node type, each as hotness_order()
/// (hit_curve.h) gives one, or empty for the dataset's own.
std::vector<HeldReads> held_curve(const Dataset& dataset, const TunePass& pass,
                                  const std::vector<std::vector<std::int64_t>>& orders);

/// Leaves the rows of a block as they are, which is as large as if they were written: for whoever wants ids
/// alone.
FeatureSourceFactory absent_features();

/// Returns whether batches carry this attribute of nodes.
bool carries(const BatchOptions& batch, const std::string& attr);

/// Returns the bytes that the rows of each of these ratios take, of all attributes that batches carry.
std::vector<std::int64_t> held_sizes(const Dataset& dataset, const TunePass& pass);

}  // namespace hopfeed
