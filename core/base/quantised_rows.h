// Quantised rows are whole numbers with a scale for each row: float32 where a quarter or an eighth of the
// bytes is enough. The bytes are the same on every machine.
//
//   offset   size          what
//   0        4             scale, float32, little-endian
//   4        n             int8_scaled: an int8 for each of the n elements, -127 to 127
//   4        (n + 1) / 2   int4_scaled: two elements a byte, the earlier in its lower half, each -7 to 7 in
//                          two's complement; the upper half behind an odd n is 0
//
// The rule, every step rounded to nearest, ties to even, in float32:
//
//   scale = the largest |x| of the row / 127 (int4: / 7)
//   q     = x / scale, rounded to a whole number: never beyond 127 (7), so nothing is cut off
//   value = q * scale: what is read again
//
// Two ends of the range are special. Where the scale would be below the smallest normal number, 2^-126, it is
// 0 and the row all zeros: so no value is a denormal, which processors may be told to flush. Where 127 *
// scale would be no finite number (the largest float32 alone), the scale is the next smaller one. A -0
// becomes 0. NaN and infinity have no scale: whoever quantises refuses them before.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/base/element_type.h"

namespace hopfeed {

/// Returns the largest element of a type with a scale.
constexpr int largest_element(ElementType type) { return type == ElementType::kInt4Scaled ? 7 : 127; }

/// Returns the largest scale whose product with the largest element is finite.
constexpr float largest_scale(ElementType type) {
  return type == ElementType::kInt4Scaled ? 0x1.249248p+125F : 0x1.020406p+121F;
}

/// Returns the scale of a row whose largest |x| is `largest`, a finite number.
constexpr float scale_of(ElementType type, float largest) {
  const float scale = largest / static_cast<float>(largest_element(type));
  if (scale < std::numeric_limits<float>::min()) return 0;
  return std::min(scale, largest_scale(type));
}

/// Returns the element that stands for `value` in a row of this scale, which is that of a row with the value
/// in it.
constexpr int element_of(float value, float scale) {
  if (scale == 0) return 0;
  constexpr float kWhole = 0x1.8p23F;  // a float of this size has no fraction, so that the sum is rounded
  return static_cast<int>((value / scale + kWhole) - kWhole);
}

/// Writes the quantised row. `row` has quantised_row_bytes(type, values.size()) bytes. It throws nothing; the
/// values are finite.
void quantise_row(ElementType type, std::span<const float> values, std::byte* row);
/// Returns whether the rule can give the row: its scale is 0 or a normal, positive number, and no element is
/// beyond the largest.
bool is_quantised_row(ElementType type, std::int64_t elements, const std::byte* row);

/// QuantisedRows views rows where they lie, in a block or in a mapped file.
struct QuantisedRows {
  ElementType type = ElementType::kInt8Scaled;
  std::int64_t elements = 0;  // of a row
  std::int64_t stride_bytes = 0;
  std::int64_t count = 0;
  const std::byte* rows = nullptr;  // need not be aligned

  QuantisedRows part(std::int64_t begin, std::int64_t end) const {
    return {.type = type,
            .elements = elements,
            .stride_bytes = stride_bytes,
            .count = end - begin,
            .rows = rows + begin * stride_bytes};
  }
};

/// Writes the values, count * elements of them, in vector lanes.
void dequantise(const QuantisedRows& rows, float* out);

}  // namespace hopfeed
