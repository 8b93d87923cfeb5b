// Pre-sampling counts how often each node really occurs in the batches of some epochs. It checks the hotness
// that is computed without sampling (hotness.h), and is the yardstick of a cache's hit rate.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/batch/batch_options.h"
#include "core/dataset/dataset.h"

namespace hopfeed {

struct PresampleOptions {
  int node_type = 0;  // of the seeds
  std::vector<std::int64_t> fanouts{15, 10, 5};
  std::int64_t batch_size = 1024;
  std::int64_t epochs = 1;
  std::uint64_t seed = 0;
  int threads = 1;
  /// It is told how many batches were made of how many, from the calling thread; may throw to stop.
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};
};

/// Returns the number of batches that each node occurs in: per node type [N] by dataset id. `seeds` are
/// original ids.
std::vector<std::vector<std::int64_t>> presample(const Dataset& dataset, std::span<const std::int64_t> seeds,
                                                 const PresampleOptions& options);

/// Returns the number of batches that each node occurs in, as presample() gives it, for any kind of sampling:
/// `batch` takes the place of options.fanouts. What the batches gather besides is left out. Throws what
/// BatchMaker throws.
std::vector<std::vector<std::int64_t>> count_reads(const Dataset& dataset,
                                                   std::span<const std::int64_t> seeds, BatchOptions batch,
                                                   const PresampleOptions& options);

/// Returns Spearman's rank correlation in [-1, 1], equal values sharing their mean rank; 0 where one side is
/// constant.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace hopfeed
