// How batches are made, and nothing that decides their bytes: what is here changes speed, memory and patience
// alone, and is never hashed. What decides bytes is BatchOptions and all else in a BatchSpec.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/huge_pages.h"
#include "core/batch/feature_tiers.h"
#include "core/batch/gpu_cache.h"
#include "core/batch/peer_options.h"

namespace hopfeed {

/// Where neighbours are sampled: on the CPU, on a GPU that reads the graph in pinned memory of the host
/// (unified virtual addressing), or on a GPU that has a copy of the graph.
enum class GraphMode { kCpu, kUva, kCuda };
const char* to_string(GraphMode mode);
/// "cpu", "uva" or "cuda". Throws kInvalid.
GraphMode graph_mode_from(const std::string& name);
/// Throws kInvalid unless a GPU can have that number, and the mode uses one where it is not 0.
void check_gpu_device(int gpu_device, GraphMode mode);
/// Throws kInvalid for one that cannot be, and in another mode than uva.
void check_gpu_graph_cache(const std::optional<GpuCache>& gpu_graph_cache, GraphMode mode);

struct ExecutionOptions {
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
  /// Where neighbour samplers sample (gpu/batches/device_sampler.h); what the GPU does not sample, the CPU
  /// does.
  GraphMode graph_mode = GraphMode::kCpu;
  int gpu_device = 0;  // with graph modes uva and cuda: its number, of those that CUDA shows
  /// The slots of the channel are pinned, so that a GPU copies batches from them by itself. Where they cannot
  /// be, StreamStats::why_not_pinned says so, and batches come all the same.
  bool pin_slots = false;
  /// Batches stay in the GPU's memory, for a trainer on it (Batch::device_form): with num_workers 0 a thread
  /// of this process makes them, else the workers do, in memory of this process's. graph_mode is uva or cuda.
  bool device_batches = false;
  GpuCache gpu_cache = {};  // rows of node attributes in the GPU's memory; of those batches
  /// With graph mode uva: the hottest rows of the graph, and their neighbours, of which each process that
  /// samples has a copy in the GPU's memory. None given: automatic, a sixteenth of what is free.
  std::optional<GpuCache> gpu_graph_cache = {};
  /// GPUs of the workers in turn, as CUDA counts, where workers make those batches; empty: the trainer's. One
  /// that is another than the trainer's writes to the memory of that.
  std::vector<int> worker_devices = {};
  FeatureTiers features = {};   // where rows of features are read from
  PeerOptions partitions = {};  // where this machine has some partitions of the dataset only
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

  GpuCache graph_cache() const { return gpu_graph_cache.value_or(GpuCache{.automatic = true}); }
  /// Batches of `seeds` that a worker samples ahead of the one that it writes: for the row cache, and where
  /// answers of other machines are waited for.
  std::int64_t batches_ahead(std::int64_t seeds) const;
  /// Throws kInvalid naming the option.
  void validate() const;
};

}  // namespace hopfeed
