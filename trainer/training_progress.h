// TrainingProgress is what a run has measured and where it stands: a checkpoint stores it and a report shows
// it. There is no Torch here.
#pragma once
#include <cstdint>
#include <vector>

#include "core/batch/gpu_use.h"
#include "core/batch/tier_counts.h"
#include "core/batch/wait_times.h"

namespace hopfeed {

/// An EpochRow is one finished epoch.
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
  TierCounts tiers;          // where the workers of all ranks read feature rows
  GpuUse gpu;                // batches of all ranks; memory and shares are their means
};

/// TrainingProgress says where a run stands.
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
