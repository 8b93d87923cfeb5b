// See gpu_sampling.h.
#include "gpu/device/gpu_sampling.h"

#include "core/base/error.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/batches/device_sampler.h"
#include "gpu/device/cuda_engine.h"
#include "gpu/memory/pinned_dataset.h"
#include "gpu/memory/registered_memory.h"

namespace hopfeed {
namespace {

void require_gpu(const ExecutionOptions& execution) {
  if (const std::string why = gpu::why_no_gpu(execution.gpu_device); !why.empty())
    throw Error(ErrorCode::kNotFound,
                std::string("graph mode ") + to_string(execution.graph_mode) + ": " + why);
}

std::unique_ptr<gpu::HopEngine> make_engine(const Dataset& dataset, gpu::EnginePlan plan) {
  if (plan.place == gpu::GraphPlace::kHost)
    plan.keeps = gpu::pinned_on_machine(dataset, {.pin = gpu::pin_memory,
                                                  .unpin = gpu::unpin_memory,
                                                  .memory_node = gpu::memory_node_of_gpu(plan.device)});
  return gpu::make_cuda_engine(plan);
}

std::unique_ptr<Sampler> make_gpu_sampler(const Dataset& dataset, const BatchOptions& options,
                                          const ExecutionOptions& execution) {
  return std::make_unique<DeviceSampler>(
      dataset, options,
      DeviceSamplerOptions{
          .place =
              execution.graph_mode == GraphMode::kUva ? gpu::GraphPlace::kHost : gpu::GraphPlace::kDevice,
          .device = execution.gpu_device,
          .make_engine = [&dataset](const gpu::EnginePlan& plan) { return make_engine(dataset, plan); },
          .warm = true,
          .hot = execution.graph_cache()});
}

}  // namespace

void offer_gpu_sampling() { register_device_sampling({.require = require_gpu, .make = make_gpu_sampler}); }

}  // namespace hopfeed
