// The device sampler's engine on a GPU: cuda_engine.cu where hopfeed was built with CUDA, else
// cuda_engine_absent.cc.
#pragma once
#include <memory>
#include <string>

#include "gpu/device_room.h"
#include "gpu/found_gpus.h"
#include "gpu/hop_engine.h"

namespace hopfeed::gpu {

/// Empty where this process can use the GPU of that number; else one line: why it cannot, and what to do.
std::string why_no_gpu(int device = 0);
/// That GPU. Throws kNotFound where why_no_gpu() says so.
UsableGpu usable_gpu(int device);

/// On the plan's GPU. Throws kNotFound where why_no_gpu() says so, kNoSpace where memory does not suffice,
/// kIo for what else CUDA refuses.
std::unique_ptr<HopEngine> make_cuda_engine(const EnginePlan& plan);

/// For batches in the memory of the first GPU. Throws as make_cuda_engine.
std::shared_ptr<DeviceRoom> make_cuda_room();

}  // namespace hopfeed::gpu
