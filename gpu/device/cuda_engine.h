// The device sampler's engine on a GPU: cuda_engine.cu where hopfeed was built with CUDA, else
// cuda_engine_absent.cc.
#pragma once
#include <memory>
#include <string>

#include "gpu/batches/device_room.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/memory/found_gpus.h"

namespace hopfeed::gpu {

/// Empty where this process can use the GPU of that number; else one line: why it cannot, and what to do.
std::string why_no_gpu(int device = 0);
/// That GPU. Throws kNotFound where why_no_gpu() says so.
UsableGpu usable_gpu(int device);

/// On the plan's GPU. Throws kNotFound where why_no_gpu() says so, kNoSpace where memory does not suffice,
/// kIo for what else CUDA refuses.
std::unique_ptr<HopEngine> make_cuda_engine(const EnginePlan& plan);

/// The name of make_cuda_room()'s room.
inline constexpr const char* kCudaRoom = "cuda";
/// For batches in the memory of a GPU. Throws as make_cuda_engine.
std::shared_ptr<DeviceRoom> make_cuda_room(int device);

}  // namespace hopfeed::gpu
