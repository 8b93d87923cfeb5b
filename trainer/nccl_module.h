// NCCL lives in a module of its own, loaded for --backend nccl alone: with it come CUDA's libraries, which
// take a second to load and which a trainer on the CPU has no use for.
#pragma once
#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace hopfeed {

inline constexpr const char* kNcclModule = "libhopfeed_nccl.so";  // beside the program

/// It is the module's one function. Throws hopfeed::Error (kUnsupported) where the machine has no GPU.
using MakeNcclBackend = c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Store>& store,
                                                          int rank, int size, int gpu,
                                                          std::chrono::milliseconds timeout);
inline constexpr const char* kMakeNcclBackend = "hopfeed_make_nccl_backend";

}  // namespace hopfeed
