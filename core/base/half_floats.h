// Converts float16 and bfloat16 by their bits, the same on every machine: values are rounded to the nearest,
// ties to even; what is too large becomes infinite; a NaN keeps its sign and the upper bits of its payload,
// and is quiet. The other way is exact.
#pragma once
#include <bit>
#include <cstdint>

namespace hopfeed {

constexpr std::uint16_t bfloat16_from(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<std::uint16_t>(bits >> 16 | 0x0040);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

constexpr float from_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

constexpr std::uint16_t float16_from(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<std::uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
  if (magnitude >= 0x47800000) return static_cast<std::uint16_t>(sign | 0x7C00);  // 65536 and more
  if (magnitude >= 0x38800000) {                                                  // 2^-14 and more: normal
    const std::uint32_t rebased = magnitude - 0x38000000;  // the exponent counts from -14 instead of -126
    return static_cast<std::uint16_t>(sign | (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13);
  }
  if (magnitude < 0x33000000) return static_cast<std::uint16_t>(sign);  // below half of the smallest, 2^-25
  // A subnormal is the significand, with its leading one, in units of 2^-24.
  const std::uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000, shift = 126 - (magnitude >> 23);
  const std::uint32_t whole = significand >> shift, rest = significand & ((1U << shift) - 1),
                      half = 1U << (shift - 1);
  return static_cast<std::uint16_t>(sign | (whole + (rest > half || (rest == half && (whole & 1) != 0))));
}

constexpr float from_float16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, exponent = half >> 10 & 0x1F, fraction = half & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000 | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // exact
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace hopfeed
