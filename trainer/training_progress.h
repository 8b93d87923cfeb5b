// What a run has measured and where it stands: what a checkpoint stores and a report shows. No Torch here.
#pragma once
#include <cstdint>
#include <vector>

#include "core/batch/gpu_use.h"
#include "core/batch/tier_counts.h"
#include "core/batch/wait_times.h"

namespace hopfeed {

/// One finished epoch.
struct EpochRow {
  std::int64_t epoch = 0;
  double loss = 0;                     // mean over the labelled seeds
  double valid_accuracy = 0;           // sampled; 0 where the dataset has no such split
  double valid_auc = 0, test_auc = 0;  // of links, in place of accuracies
  double seconds = 0;                  // training, without validation
  double valid_seconds = 0;
  std::int64_t batches = 0;  // of all ranks
  double batches_per_s = 0;  // of all ranks
  WaitTimes waits;           // shares of `seconds`, mean over ranks and workers
  double hit_rate = 0;       // share of the batches' feature rows that the trainers held themselves
  TierCounts tiers;          // of all ranks: where their workers read the rows of features
  GpuUse gpu;                // batches of all ranks; memory and shares are their means
};

/// Where a run stands.
struct TrainingProgress {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  // first seed position of the epoch that is not consumed
  double loss_sum = 0;        // of the running epoch, over all ranks
  std::int64_t loss_seeds = 0;
  std::int64_t batches = 0;
  double seconds = 0;
  WaitTimes waited;           // seconds, of this rank and its workers
  double best_accuracy = -1;  // of links the best ROC-AUC
  std::int64_t best_epoch = -1;
  std::int64_t world_size = 1;
  std::vector<EpochRow> rows;
};

}  // namespace hopfeed
