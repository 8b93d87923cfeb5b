// See gpu_options.h.
#include "gpu/device/gpu_options.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace hopfeed {

const char* to_string(GraphMode mode) {
  return mode == GraphMode::kUva ? "uva" : mode == GraphMode::kCuda ? "cuda" : "cpu";
}

GraphMode graph_mode_from(const std::string& name) {
  for (const GraphMode mode : {GraphMode::kCpu, GraphMode::kUva, GraphMode::kCuda})
    if (name == to_string(mode)) return mode;
  throw Error(ErrorCode::kInvalid, "graph mode '" + name + "' is none of cpu, uva, cuda");
}

void check_gpu_device(int gpu_device, GraphMode mode) {
  const std::string field = marked("gpu_device"), mode_field = marked("graph_mode");
  require_valid(gpu_device >= 0, fmt::format("{} is {}; GPUs are numbered from 0", field, gpu_device));
  require_valid(
      gpu_device == 0 || mode != GraphMode::kCpu,
      fmt::format("{} is {} and {} is cpu, which uses no GPU; choose {} uva or cuda, or leave {} out", field,
                  gpu_device, mode_field, mode_field, field));
}

void check_gpu_graph_cache(const std::optional<CacheSize>& gpu_graph_cache, GraphMode mode) {
  if (!gpu_graph_cache) return;
  const std::string field = marked("gpu_graph_cache"), mode_field = marked("graph_mode");
  require_valid(
      mode == GraphMode::kUva,
      fmt::format("{} is of a GPU that reads the graph in the host's memory, and {} is {}; choose {} "
                  "uva, or leave {} out",
                  field, mode_field, to_string(mode), mode_field, field));
  gpu_graph_cache->validate("gpu_graph_cache");
}

void GpuOptions::validate(std::int64_t num_workers) const {
  check_gpu_device(gpu_device, graph_mode);
  check_gpu_graph_cache(gpu_graph_cache, graph_mode);
  require_valid(!device_batches || graph_mode != GraphMode::kCpu,
                "batches in a GPU's memory are made there: choose graph mode uva or cuda (it is cpu)");
  require_valid(device_batches || !gpu_cache.any(),
                fmt::format("{} is of batches that stay in a GPU's memory ({}), and these do not",
                            marked("gpu_cache"), marked("device_batches")));
  gpu_cache.validate("gpu_cache");
  require_valid(
      worker_devices.empty() || (device_batches && num_workers > 0),
      fmt::format("{} are of workers ({}) that make batches in a GPU's memory ({}), and there are none",
                  marked("worker_devices"), marked("num_workers"), marked("device_batches")));
  for (int device : worker_devices)
    require_valid(device >= 0,
                  fmt::format("GPU {} of {} cannot be; they count from 0", device, marked("worker_devices")));
}

}  // namespace hopfeed
