// Registers arrays of the host that GPUs read in place (UVA). A range of pages is registered once in a
// process, however many samplers read it.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>

#include "channel/pinned_memory.h"

namespace hopfeed::gpu {

/// Registers an array, and returns where the device finds it. Throws Error with what CUDA said.
const void* register_memory(const void* array, std::size_t bytes);
/// Undoes register_memory(); call it once for each.
void unregister_memory(const void* array) noexcept;

/// Pins whole pages of memory that is read and written, so that a device copies from it and to it by itself.
/// Throws kNotFound where there is no GPU, kIo with what CUDA said.
void pin_memory(void* at, std::size_t bytes);
/// Unpins a whole range.
void unpin_memory(void* at) noexcept;

/// Makes a mark, as Pinning::mark says; throws Error with what CUDA said.
std::unique_ptr<const StreamMark> mark_stream(GpuStream stream);

/// Returns the memory node near a GPU (near_gpu.h); nothing where there is no such GPU.
std::optional<int> memory_node_of_gpu(int device);

}  // namespace hopfeed::gpu
