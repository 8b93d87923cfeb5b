// See gpu_options.h.
#include "gpu/device/gpu_options.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/field_visitor.h"

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
  require_valid(gpu_device <= kMaxGpuDevice,
                fmt::format("{} is {}; choose {} at most", field, gpu_device, kMaxGpuDevice));
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

void GpuOptions::visit(FieldVisitor& fields) {
  fields.choice(
      {.name = "graph_mode",
       .help = "Where neighbours are sampled: on the CPU, on a GPU that reads the graph in the host's memory "
               "(uva), or on one that has a copy of it (cuda)"},
      {.names = {"cpu", "uva", "cuda"},
       .get = [this] { return to_string(graph_mode); },
       .set = [this](const std::string& name) { graph_mode = graph_mode_from(name); }});
  fields.whole({.name = "gpu_device",
                .help = "With `graph_mode` uva or cuda: number of the GPU, of those that CUDA shows",
                .group = "gpu device"},
               gpu_device, {0, kMaxGpuDevice});
  fields.flag({.name = "cpu_fallback",
               .help = "With `graph_mode` uva or cuda: where the GPU cannot be used, or is lost, the CPU "
                       "samples, and a warning says why",
               .option = "",
               .of_workers = true},
              cpu_fallback);
  fields.flag({.name = "pin_slots",
               .help = "Pin the slots of the channel, so that a GPU copies batches from them by itself",
               .option = ""},
              pin_slots);
  fields.flag({.name = "device_batches",
               .help = "With `graph_mode` uva or cuda: batches lie in the GPU's memory, for a trainer on it",
               .group = "device batches",
               .of_workers = true},
              device_batches);
  fields.optional_cache_size(
      {.name = "gpu_cache",
       .help =
           "Of batches that stay in a GPU's memory: the hottest feature rows lie there too: a share of "
           "them (0.2), a size (4G) or auto (what fits into a quarter of the memory that is free when the "
           "loader opens; the default); 0: none",
       .group = "gpu cache",
       .of_workers = true},
      gpu_cache);
  fields.optional_cache_size(
      {.name = "gpu_graph_cache",
       .help =
           "With `graph_mode` uva: the hottest rows of the graph, and their neighbours, lie in the GPU's "
           "memory "
           "too, for each process that samples: a share of them (0.2), a size (4G) or auto (what fits into a "
           "sixteenth of the free memory; the default); 0: none",
       .group = "gpu graph cache",
       .of_workers = true},
      gpu_graph_cache);
  fields.numbers(
      {.name = "worker_devices",
       .help = "With `device_batches`: GPUs of the workers in turn, as CUDA counts; default: the trainer's",
       .option = ""},
      worker_devices);
}

void GpuOptions::validate(std::int64_t num_workers) const {
  check_gpu_device(gpu_device, graph_mode);
  check_gpu_graph_cache(gpu_graph_cache, graph_mode);
  require_valid(!device_batches || graph_mode != GraphMode::kCpu,
                "batches in a GPU's memory are made there: choose graph mode uva or cuda (it is cpu)");
  require_valid(
      !device_batches || !cpu_fallback,
      fmt::format("{} is of batches in the host's memory, and these stay in a GPU's ({}); leave one "
                  "of them out",
                  marked("cpu_fallback"), marked("device_batches")));
  require_valid(
      device_batches || !gpu_cache || !gpu_cache->any(),
      fmt::format("{} is of batches that stay in a GPU's memory, and these do not; choose {} uva or cuda and "
                  "a GPU for the batches to stay on, or leave {} out",
                  marked("gpu_cache"), marked("graph_mode"), marked("gpu_cache")));
  if (gpu_cache) gpu_cache->validate("gpu_cache");
  require_valid(
      worker_devices.empty() || (device_batches && num_workers > 0),
      fmt::format("{} are of workers ({}) that make batches in a GPU's memory ({}), and there are none",
                  marked("worker_devices"), marked("num_workers"), marked("device_batches")));
  for (int device : worker_devices)
    require_valid(device >= 0,
                  fmt::format("GPU {} of {} cannot be; they count from 0", device, marked("worker_devices")));
}

}  // namespace hopfeed
