// Makes engines of the device sampler that run on hosts.
#pragma once
#include <memory>

#include "core/base/error.h"
#include "gpu/device/host_backend.h"
#include "gpu/engine/hop_engine_on.h"
#include "tests/core/random_kinds.h"

namespace hopfeed::testing {

inline gpu::EngineFactory serial_engine(gpu::ItemOrder order = gpu::ItemOrder::kForward,
                                        std::uint64_t seed = 1) {
  return [=](const gpu::EnginePlan& plan) {
    return std::make_unique<gpu::HopEngineOn<gpu::SerialBackend>>(
        plan, gpu::SerialBackend::Options{.order = order, .seed = seed});
  };
}

inline gpu::EngineFactory threaded_engine(int threads) {
  return [=](const gpu::EnginePlan& plan) {
    return std::make_unique<gpu::HopEngineOn<gpu::ThreadedBackend>>(
        plan, gpu::ThreadedBackend::Options{.threads = threads});
  };
}

/// ScarceMemory is what a ScarceBackend has left, and what of it is in use.
struct ScarceMemory {
  static constexpr std::int64_t kPlenty = INT64_MAX;
  std::int64_t calls_left = kPlenty;  // of allocate() and place_graph(); the one behind them fails
  std::int64_t in_use = 0;            // allocations
};

/// A ScarceBackend has no more memory from one call on.
class ScarceBackend : public gpu::SerialBackend {
 public:
  struct Options {
    ScarceMemory* memory = nullptr;  // outlives the backend
  };
  explicit ScarceBackend(const Options& options)
      : SerialBackend(SerialBackend::Options{}), memory_(options.memory) {}

  void* allocate(std::size_t bytes, gpu::Where where) {
    take("cudaMalloc", bytes);
    ++memory_->in_use;
    return SerialBackend::allocate(bytes, where);
  }
  void release(void* memory, gpu::Where where) {
    --memory_->in_use;
    SerialBackend::release(memory, where);
  }
  const void* place_graph(const void* array, std::size_t bytes, gpu::GraphPlace place) {
    take("cudaHostRegister", bytes);
    return SerialBackend::place_graph(array, bytes, place);
  }

 private:
  void take(const char* call, std::size_t bytes) {
    if (memory_->calls_left == 0)
      throw Error(ErrorCode::kNoSpace, call + (" of " + std::to_string(bytes)) + " bytes: out of memory");
    --memory_->calls_left;
  }

  ScarceMemory* memory_;
};

inline gpu::EngineFactory scarce_engine(ScarceMemory& memory) {
  return [&memory](const gpu::EnginePlan& plan) {
    return std::make_unique<gpu::HopEngineOn<ScarceBackend>>(plan, ScarceBackend::Options{.memory = &memory});
  };
}

/// Makes an engine that goes forward, backward or shuffled.
inline gpu::EngineFactory engine_of_any_order(Rounds& rounds) {
  const gpu::ItemOrder orders[] = {gpu::ItemOrder::kForward, gpu::ItemOrder::kBackward,
                                   gpu::ItemOrder::kShuffled};
  return serial_engine(orders[rounds.below(3)], rounds.word());
}

}  // namespace hopfeed::testing
