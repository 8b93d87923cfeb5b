// See gpu_sampling.h.
#include "gpu/device/gpu_sampling.h"

#include "core/base/error.h"
#include "gpu/batches/device_sampler.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/memory/pinned_dataset.h"
#include "gpu/memory/registered_memory.h"

namespace hopfeed {
namespace {

std::unique_ptr<gpu::HopEngine> make_engine(const Dataset& dataset, gpu::EnginePlan plan) {
  if (plan.place == gpu::GraphPlace::kHost) {
    gpu::usable_gpu(plan.device);  // throws before the dataset is copied
    plan.keeps = gpu::pinned_on_machine(dataset, {.pin = gpu::pin_memory,
                                                  .unpin = gpu::unpin_memory,
                                                  .memory_node = gpu::memory_node_of_gpu(plan.device)});
  }
  return gpu::make_cuda_engine(plan);
}

}  // namespace

DeviceSamplerOptions device_sampler_options(const Dataset& dataset, const GpuOptions& options) {
  return {.place = options.graph_mode == GraphMode::kUva ? gpu::GraphPlace::kHost : gpu::GraphPlace::kDevice,
          .device = options.gpu_device,
          .make_engine = [&dataset](const gpu::EnginePlan& plan) { return make_engine(dataset, plan); },
          .warm = true,
          .hot = options.graph_cache(),
          .cpu_fallback = options.cpu_fallback};
}

void require_graph_mode(const GpuOptions& options) {
  if (options.graph_mode == GraphMode::kCpu || options.cpu_fallback) return;
  if (const std::string why = gpu::why_no_gpu(options.gpu_device); !why.empty())
    throw Error(ErrorCode::kNotFound,
                std::string("graph mode ") + to_string(options.graph_mode) + ": " + why);
}

NeighborSamplerFactory neighbor_samplers(const GpuOptions& options, SamplerFor whom) {
  require_graph_mode(options);
  if (options.graph_mode == GraphMode::kCpu) return nullptr;
  return [options, whom](const Dataset& dataset, const BatchOptions& batch) {
    DeviceSamplerOptions device = device_sampler_options(dataset, options);
    device.ends_when_broken = whom == SamplerFor::kBatchesOfAWorker;
    if (whom == SamplerFor::kBounds) device.make_engine = nullptr;
    return std::make_unique<DeviceSampler>(dataset, batch, device);
  };
}

}  // namespace hopfeed
