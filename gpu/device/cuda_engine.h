// Makes the device sampler's engine on a GPU: by cuda_engine.cu where hopfeed was built with CUDA, else by
// cuda_engine_absent.cc.
#pragma once
#include <memory>
#include <string>

#include "gpu/batches/device_room.h"
#include "gpu/engine/hop_engine.h"
#include "gpu/memory/found_gpus.h"

namespace hopfeed::gpu {

/// Returns "" where this process can use the GPU of that number; else one line: why it cannot, and what to
/// do.
std::string why_no_gpu(int device = 0);
/// Returns that GPU. Throws kNotFound where why_no_gpu() says so.
UsableGpu usable_gpu(int device);

/// Makes the engine on the plan's GPU. Throws kNotFound where why_no_gpu() says so, kNoSpace where memory
/// does not suffice, kIo for what else CUDA refuses.
std::unique_ptr<HopEngine> make_cuda_engine(const EnginePlan& plan);

/// The DeviceRoom of make_cuda_room() has this name.
inline constexpr const char* kCudaRoom = "cuda";
/// Makes the DeviceRoom for batches in the memory of a GPU. Throws what make_cuda_engine throws.
std::shared_ptr<DeviceRoom> make_cuda_room(int device);

}  // namespace hopfeed::gpu
