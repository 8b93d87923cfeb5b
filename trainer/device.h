// Chooses where a run computes: the CPU, or a GPU that Torch can use. Torch's CUDA half is a library of its
// own, which takes a second to load; it is loaded here when a GPU is asked for and the machine has a driver,
// and nothing needs it at link time, so that one build runs with and without it.
#pragma once
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <string>

#include "stream/torchrun_environment.h"

namespace hopfeed {

struct ChosenDevice {
  torch::Device device = torch::kCPU;
  std::string note;  // of auto: what was taken, and of the CPU why; else empty
};

/// Chooses by `auto`, `cpu`, `cuda` or `cuda:N`. Without a number each of a machine's ranks takes its own,
/// modulo the GPUs. Call it before anything else of Torch, which looks once what devices there are; the GPU
/// becomes the calling thread's current one. Throws kInvalid for other texts and for GPUs that are not there,
/// kUnsupported where GPUs are asked for and Torch can use none.
ChosenDevice choose_device(const std::string& text, const LocalRanks& local = local_ranks());

/// Loads Torch's CUDA half if that can be of use. Returns "", or why no GPU can be used.
std::string why_no_cuda();
/// Returns how many GPUs Torch can use; 0 before why_no_cuda() has been asked.
int num_gpus();

/// A GpuId is 16 bytes that no other GPU has, on whatever machine (CUDA's UUID). They are zeros for the CPU,
/// and where the driver does not tell.
using GpuId = std::array<std::uint8_t, 16>;
GpuId gpu_id(torch::Device device);

}  // namespace hopfeed
