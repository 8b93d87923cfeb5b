// See gpu_sampling.h.
#include "gpu/gpu_sampling.h"

#include "core/base/error.h"
#include "core/sampler/sampler_registry.h"
#include "gpu/cuda_engine.h"
#include "gpu/device_sampler.h"

namespace hopfeed {
namespace {

void require_gpu(const ExecutionOptions& execution) {
  if (const std::string why = gpu::why_no_gpu(execution.gpu_device); !why.empty())
    throw Error(ErrorCode::kNotFound,
                std::string("graph mode ") + to_string(execution.graph_mode) + ": " + why);
}

std::unique_ptr<Sampler> make_gpu_sampler(const Dataset& dataset, const BatchOptions& options,
                                          const ExecutionOptions& execution) {
  return std::make_unique<DeviceSampler>(
      dataset, options,
      DeviceSamplerOptions{.place = execution.graph_mode == GraphMode::kUva ? gpu::GraphPlace::kHost
                                                                            : gpu::GraphPlace::kDevice,
                           .device = execution.gpu_device,
                           .make_engine = gpu::make_cuda_engine,
                           .warm = true});
}

}  // namespace

void offer_gpu_sampling() { register_device_sampling({.require = require_gpu, .make = make_gpu_sampler}); }

}  // namespace hopfeed
