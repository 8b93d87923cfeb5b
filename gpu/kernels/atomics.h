// These are the atomics of kernels, on the device and on hosts. On hosts they are the compiler's own, which
// ThreadSanitizer knows; C++17 has no std::atomic_ref, and nvcc compiles this header as C++17. They are
// relaxed: what one launch writes, only the next one counts on.
#pragma once
#include <cstdint>

#include "core/base/host_device.h"

namespace hopfeed::gpu {

HOPFEED_HOST_DEVICE inline std::uint64_t atomic_read(const std::uint64_t* at) {
#ifdef __CUDA_ARCH__
  return *static_cast<const volatile std::uint64_t*>(at);
#else
  return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

/// Returns what was there; it is `wanted` now if that was `expected`.
HOPFEED_HOST_DEVICE inline std::uint64_t atomic_swap_if(std::uint64_t* at, std::uint64_t expected,
                                                        std::uint64_t wanted) {
#ifdef __CUDA_ARCH__
  return atomicCAS(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(expected),
                   static_cast<unsigned long long>(wanted));
#else
  __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
#endif
}

/// Returns what was there before.
HOPFEED_HOST_DEVICE inline std::uint64_t atomic_add(std::uint64_t* at, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  return atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#else
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

HOPFEED_HOST_DEVICE inline void atomic_min(std::uint64_t* at, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  atomicMin(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#else
  std::uint64_t known = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value < known &&
         !__atomic_compare_exchange_n(at, &known, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

HOPFEED_HOST_DEVICE inline void atomic_max(std::uint64_t* at, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  atomicMax(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#else
  std::uint64_t known = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value > known &&
         !__atomic_compare_exchange_n(at, &known, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#endif
}

}  // namespace hopfeed::gpu
