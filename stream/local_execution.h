// How this machine makes batches, and nothing that decides their bytes: what is here changes speed, memory
// and patience alone, and is never hashed. What decides bytes is BatchOptions and all else in a BatchSpec.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/feature_tiers.h"
#include "core/base/huge_pages.h"
#include "gpu/device/gpu_options.h"
#include "peers/peer_options.h"

namespace hopfeed {

class FieldVisitor;  // core/base/field_visitor.h

struct LocalExecution {
  /// Sampling workers (processes); 0: batches are made in the calling thread, as next() asks for them. Then
  /// cores, the deadlines, max_worker_restarts and worker_program are not read.
  std::int64_t num_workers = 1;
  /// Bytes the channel may hold; 0: four worst-case batches per worker, or one in each slot where that is no
  /// more than 64 MiB; at most a quarter of the memory that is available (LOCAL_WORLD_SIZE ranks share it).
  std::size_t channel_size = 0;
  /// Bytes that a worker's scratch may take, that is what it samples with before a batch is written: more is
  /// an error in the batch's place. 0: what the machine and its cgroups have free when the worker starts,
  /// without the channel, divided by the workers.
  std::size_t max_batch_memory = 0;
  std::int64_t num_slots = 0;  // batches planned ahead; 0: 2 a worker, its window beside, and 2
  /// Workers are placed on these in turn; empty: the machine's cores dealt so that ranks, workers and
  /// trainers do not fight (core_placement.h).
  std::vector<int> cores = {};
  HugePages huge_pages = HugePages::kAuto;  // of the dataset, in every process that samples
  GpuOptions gpu = {};                      // what a GPU does of it
  FeatureTiers features = {};               // where rows of features are read from
  PeerOptions partitions = {};              // where this machine has some partitions of the dataset only
  /// Each batch is looked through, and next() throws kInvalid for one whose node attributes hold NaN or
  /// infinity.
  bool check_finite = false;
  /// A worker that fills one batch for longer is killed, and the batch made again. Each deadline is at most a
  /// year.
  std::chrono::milliseconds batch_deadline{120'000};
  std::chrono::milliseconds start_deadline{30'000};
  /// How often in a row one worker is started again without a finished batch by any; after that next()
  /// throws kPeerDied with the last cause. Workers that are killed together, however many, are started again
  /// together.
  int max_worker_restarts = 10;
  std::vector<std::string> plugins = {};  // shared libraries with samplers of one's own (sampler_plugin.h)
  /// Empty: HOPFEED_WORKER, else hopfeed-worker beside this program, else on PATH.
  std::string worker_program = {};

  /// Batches of `seeds` that a worker samples ahead of the one that it writes: for the row cache, and where
  /// answers of other machines are waited for.
  std::int64_t batches_ahead(std::int64_t seeds) const;
  void visit(FieldVisitor& fields);
  /// Throws kInvalid naming the option.
  void validate() const;
};

}  // namespace hopfeed
