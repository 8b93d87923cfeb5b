// Engines of the device sampler that run on hosts.
#pragma once
#include <memory>

#include "gpu/hop_engine_on.h"
#include "gpu/host_backend.h"
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

/// Forward, backward or shuffled.
inline gpu::EngineFactory engine_of_any_order(Rounds& rounds) {
  const gpu::ItemOrder orders[] = {gpu::ItemOrder::kForward, gpu::ItemOrder::kBackward,
                                   gpu::ItemOrder::kShuffled};
  return serial_engine(orders[rounds.below(3)], rounds.word());
}

}  // namespace hopfeed::testing
