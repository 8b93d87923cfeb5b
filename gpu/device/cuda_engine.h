// The device sampler's engine on a GPU: cuda_engine.cu where hopfeed was built with CUDA, else
// cuda_engine_absent.cc.
#pragma once
#include <memory>
#include <string>

#include "core/base/error.h"
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

/// Throws kNotFound where `device` is not below `devices`.
inline void require_device(int device, int devices) {
  if (device < devices) return;
  throw Error(ErrorCode::kNotFound, "there is no GPU " + std::to_string(device) + ", only " +
                                        std::to_string(devices) +
                                        " counted from 0; change worker_devices or CUDA_VISIBLE_DEVICES");
}

}  // namespace hopfeed::gpu
