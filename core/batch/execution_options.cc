// See execution_options.h.
#include "core/batch/execution_options.h"

#include <fmt/format.h>

#include <sched.h>
#include <algorithm>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {
namespace {

void check_deadline(std::chrono::milliseconds deadline, const char* option) {
  require_valid(
      deadline.count() >= 1 && deadline.count() <= kMaxDeadlineMs,
      fmt::format("{} is {} ms; choose 1 to {} (a year)", option, deadline.count(), kMaxDeadlineMs));
}

}  // namespace

const char* to_string(GraphMode mode) {
  return mode == GraphMode::kUva ? "uva" : mode == GraphMode::kCuda ? "cuda" : "cpu";
}

GraphMode graph_mode_from(const std::string& name) {
  for (const GraphMode mode : {GraphMode::kCpu, GraphMode::kUva, GraphMode::kCuda})
    if (name == to_string(mode)) return mode;
  throw Error(ErrorCode::kInvalid, "graph mode '" + name + "' is none of cpu, uva, cuda");
}

void check_gpu_device(int gpu_device, GraphMode mode) {
  require_valid(gpu_device >= 0, fmt::format("gpu_device is {}; GPUs are numbered from 0", gpu_device));
  require_valid(
      gpu_device == 0 || mode != GraphMode::kCpu,
      fmt::format("gpu_device is {} and graph_mode is cpu, which uses no GPU; choose graph_mode uva "
                  "or cuda, or leave gpu_device out",
                  gpu_device));
}

void check_gpu_graph_cache(const std::optional<GpuCache>& gpu_graph_cache, GraphMode mode) {
  if (!gpu_graph_cache) return;
  require_valid(mode == GraphMode::kUva,
                fmt::format("gpu_graph_cache is of a GPU that reads the graph in the host's memory, and "
                            "graph_mode is {}; choose graph_mode uva, or leave gpu_graph_cache out",
                            to_string(mode)));
  require_valid(
      gpu_graph_cache->ratio >= 0 && gpu_graph_cache->ratio <= 1,
      fmt::format("gpu_graph_cache has the ratio {}; give a share from 0 to 1", gpu_graph_cache->ratio));
}

std::int64_t ExecutionOptions::batches_ahead(std::int64_t seeds) const {
  const std::int64_t window = features.window_for(seeds, num_workers, partitions.on());
  return partitions.on() ? std::max(window, partitions.concurrency - 1) : window;
}

void ExecutionOptions::validate() const {
  require_valid(num_workers >= 0 && num_workers <= kMaxWorkers,
                fmt::format("num_workers is {}; choose 0 (batches are made in the calling thread) to {}",
                            num_workers, kMaxWorkers));
  require_valid(num_slots >= 0 && num_slots <= kMaxSlots,
                fmt::format("num_slots is {}; choose 1 to {}, or 0 for as many as the workers need",
                            num_slots, kMaxSlots));
  check_gpu_device(gpu_device, graph_mode);
  check_gpu_graph_cache(gpu_graph_cache, graph_mode);
  partitions.validate();
  require_valid(
      !partitions.on() || graph_mode == GraphMode::kCpu,
      "a GPU samples where all partitions are on one machine; take graph mode cpu, or leave peers out");
  features.validate(partitions.on());
  if (device_batches) {
    require_valid(graph_mode != GraphMode::kCpu,
                  "batches in a GPU's memory are made there: choose graph mode uva or cuda (it is cpu)");
    require_valid(
        features.from == FeaturesFrom::kMemory,
        "batches in a GPU's memory have features from memory, and they are to come from files; leave one of "
        "the two out");
  }
  require_valid(device_batches || !gpu_cache.any(),
                "gpu_cache is of batches that stay in a GPU's memory (device_batches), and these do not");
  require_valid(gpu_cache.ratio >= 0 && gpu_cache.ratio <= 1,
                fmt::format("gpu_cache has the ratio {}; give a share from 0 to 1", gpu_cache.ratio));
  require_valid(worker_devices.empty() || (device_batches && num_workers > 0),
                "worker_devices are of workers (num_workers) that make batches in a GPU's memory "
                "(device_batches), and there are none");
  for (int device : worker_devices)
    require_valid(device >= 0, fmt::format("GPU {} of worker_devices cannot be; they count from 0", device));
  check_deadline(batch_deadline, "batch_deadline");
  check_deadline(start_deadline, "start_deadline");
  require_valid(max_worker_restarts >= 0,
                fmt::format("max_worker_restarts is {}; choose 0 or more", max_worker_restarts));
  require_valid(
      cores.empty() || num_workers > 0,
      "cores are of workers (num_workers), and there are none: the calling thread makes the batches "
      "where it runs; leave them out (cores)");
  for (int core : cores)
    require_valid(core >= 0 && core < CPU_SETSIZE,
                  fmt::format("core {} cannot be; choose 0 to {}", core, CPU_SETSIZE - 1));
}

}  // namespace hopfeed
