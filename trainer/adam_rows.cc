// See adam_rows.h.
#include "trainer/adam_rows.h"

#include <cmath>

namespace hopfeed {
namespace {

/// SplitMix64's mixing of 64 bits (Steele, Lea, Flood 2014).
[[gnu::always_inline]] inline std::uint64_t mix(std::uint64_t h) {
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9U;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBU;
  return h ^ (h >> 31);
}

}  // namespace

#define HOPFEED_EACH_PROCESSOR [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]

HOPFEED_EACH_PROCESSOR void first_values(std::uint64_t key, std::int64_t row, float bound, std::int64_t width,
                                         float* __restrict__ out) {
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15U;
  const std::uint64_t begin = mix(mix(key + kStep) ^ (static_cast<std::uint64_t>(row) * kStep));
  for (std::int64_t f = 0; f < width; ++f) {
    const std::uint64_t random = mix(begin + (static_cast<std::uint64_t>(f) + 1) * kStep);
    // An odd number of 25 bits below 2^25, so neither bound is reached and 0 is the middle; exact as a float.
    const auto odd = static_cast<std::int32_t>((random >> 40) << 1 | 1);
    out[f] = static_cast<float>(odd - (1 << 24)) * (bound / static_cast<float>(1 << 24));
  }
}

HOPFEED_EACH_PROCESSOR void adam_step(const AdamStep& step, const float* __restrict__ gradient,
                                      std::int64_t width, float* __restrict__ row) {
  float* __restrict__ mean = row + width;
  float* __restrict__ square = row + 2 * width;
  for (std::int64_t f = 0; f < width; ++f) {
    const float g = gradient[f];
    mean[f] += (g - mean[f]) * step.mean_share;
    square[f] += (g * g - square[f]) * step.square_share;
    row[f] -= step.size * (mean[f] / (std::sqrt(square[f]) + step.epsilon));
  }
}

}  // namespace hopfeed
