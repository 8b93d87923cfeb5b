// Moves bytes of a row as widely as their addresses allow. Memory is read in stretches of 16 bytes that begin
// at multiples of 16, each once, by one item: items side by side read whole sectors, wherever the row begins,
// and only what is written may be narrow. A device reads the whole of a stretch in which a row begins or
// ends: it lies within one sector, and so within one page. Hosts read the row's bytes alone, as sanitizers
// want it, and have rubbish for the others.
#pragma once
#include <cstdint>
#include <cstring>

#include "core/base/host_device.h"

namespace hopfeed::gpu {

inline constexpr unsigned kStretch = 16;

/// Returns a T at an address that is a multiple of its size. What is read does not change while a kernel
/// runs.
template <class T>
HOPFEED_HOST_DEVICE T load_aligned(const unsigned char* at) {
#ifdef __CUDA_ARCH__
  return __ldg(reinterpret_cast<const T*>(at));
#else
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
#endif
}
template <class T>
HOPFEED_HOST_DEVICE void store_aligned(void* at, T value) {
#ifdef __CUDA_ARCH__
  *static_cast<T*>(at) = value;
#else
  std::memcpy(at, &value, sizeof value);
#endif
}

#ifdef __CUDA_ARCH__
using Words = uint4;
template <>
__device__ inline void store_aligned(void* at, Words value) {
  __stwb(static_cast<Words*>(at), value);  // one store, which the compiler would else take apart
}
#else
struct Words {
  std::uint32_t x, y, z, w;
};
#endif

HOPFEED_HOST_DEVICE inline unsigned place_in(const void* at, unsigned power_of_two) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) & (power_of_two - 1));
}

/// Returns the widest of 8, 4, 2 and 1 that divides `place` and is at most `left`, which is not 0.
HOPFEED_HOST_DEVICE inline unsigned widest(unsigned place, unsigned left) {
  for (unsigned width = 8; width > 1; width /= 2)
    if (place % width == 0 && left >= width) return width;
  return 1;
}

/// RowBytes has the bytes of a stretch from `begin` to `end`, in registers.
struct RowBytes {
  std::uint64_t low = 0, high = 0;  // little-endian
  unsigned begin = 0, end = kStretch;

  /// Loads the bytes; `stretch` is a multiple of 16.
  HOPFEED_HOST_DEVICE static RowBytes load(const unsigned char* stretch, unsigned begin, unsigned end) {
    RowBytes bytes;
    bytes.begin = begin;
    bytes.end = end;
#ifdef __CUDA_ARCH__
    const auto words = load_aligned<Words>(stretch);
#else
    Words words;
    std::memset(&words, 0xA5, sizeof words);
    std::memcpy(reinterpret_cast<unsigned char*>(&words) + begin, stretch + begin, end - begin);
#endif
    bytes.low = words.x | std::uint64_t{words.y} << 32;
    bytes.high = words.z | std::uint64_t{words.w} << 32;
    return bytes;
  }

  HOPFEED_HOST_DEVICE std::uint32_t byte(unsigned at) const {
    return static_cast<std::uint32_t>((at < 8 ? low : high) >> at % 8 * 8) & 0xFF;
  }

  /// Stores the bytes; `to` is where byte `begin` comes to lie.
  HOPFEED_HOST_DEVICE void store(unsigned char* to) const {
    if (end - begin == kStretch && place_in(to, kStretch) == 0) {
      Words words;
      words.x = static_cast<std::uint32_t>(low);
      words.y = static_cast<std::uint32_t>(low >> 32);
      words.z = static_cast<std::uint32_t>(high);
      words.w = static_cast<std::uint32_t>(high >> 32);
      return store_aligned(to, words);
    }
    for (unsigned at = begin; at < end;) {
      const unsigned width = widest(place_in(to, 8), end - at);
      store_number(to, width, from(at));
      to += width;
      at += width;
    }
  }

 private:
  /// Returns the eight bytes that begin at `at`; those behind the stretch are 0.
  HOPFEED_HOST_DEVICE std::uint64_t from(unsigned at) const {
    if (at >= 8) return high >> (at - 8) * 8;
    return at == 0 ? low : low >> at * 8 | high << (8 - at) * 8;
  }
  HOPFEED_HOST_DEVICE static void store_number(unsigned char* to, unsigned width, std::uint64_t value) {
    switch (width) {
      case 8:
        return store_aligned(to, value);
      case 4:
        return store_aligned(to, static_cast<std::uint32_t>(value));
      case 2:
        return store_aligned(to, static_cast<std::uint16_t>(value));
      default:
        return store_aligned(to, static_cast<std::uint8_t>(value));
    }
  }
};

}  // namespace hopfeed::gpu
