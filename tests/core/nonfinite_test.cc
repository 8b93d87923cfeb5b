// Which bits are NaN or infinity, for every type that has them.
#include "core/batch/nonfinite.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace hopfeed {
namespace {

template <class T>
std::int64_t count(ElementType type, const std::vector<T>& values) {
  return count_nonfinite(type, std::as_bytes(std::span(values)), 0);
}

template <class T>
std::vector<T> borderline() {
  using Limits = std::numeric_limits<T>;
  return {0,
          -T{0},
          Limits::max(),
          Limits::lowest(),
          Limits::denorm_min(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          -Limits::quiet_NaN(),
          Limits::signaling_NaN()};
}

TEST(Nonfinite, FiveOfTheBorderlineValuesAreCounted) {
  EXPECT_EQ(count(ElementType::kFloat32, borderline<float>()), 5);
  EXPECT_EQ(count(ElementType::kFloat64, borderline<double>()), 5);
}

TEST(Nonfinite, HalvesAreKnownByTheirBits) {
  const std::vector<std::uint16_t> bits{0x0000, 0x8000, 0x7BFF, 0x7C00, 0xFC00, 0x7E01,
                                        0x7F7F, 0x7F80, 0xFF80, 0x7FC1, 0x3C00};
  EXPECT_EQ(count(ElementType::kFloat16, bits), 7);   // all from 0x7C00 to 0x7FFF, with either sign
  EXPECT_EQ(count(ElementType::kBfloat16, bits), 3);  // all from 0x7F80 on
}

TEST(Nonfinite, WholeNumbersHaveNone) {
  EXPECT_EQ(count(ElementType::kInt32, std::vector<std::int32_t>{-1, 0x7F800000}), 0);
  EXPECT_EQ(count(ElementType::kInt64, std::vector<std::int64_t>{-1}), 0);
}

TEST(Nonfinite, OfRowsWithAScale_TheScaleIsLookedAt) {
  // Three rows of two elements: bytes that would be no finite float behind a scale of 1, infinity, and -NaN.
  const std::vector<std::uint8_t> rows{0,    0, 0x80, 0x3F, 0xFF, 0xFF, 0,    0, 0x80,
                                       0x7F, 1, 2,    1,    0,    0x80, 0xFF, 0, 0};
  EXPECT_EQ(count_nonfinite(ElementType::kInt8Scaled, std::as_bytes(std::span(rows)), 6), 2);
  EXPECT_EQ(count_nonfinite(ElementType::kInt4Scaled, std::as_bytes(std::span(rows).first(12)), 6), 1);
}

TEST(Nonfinite, ValuesNeedNoAlignment) {
  std::vector<std::byte> bytes(9);
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(bytes.data() + 1, &infinity, sizeof infinity);
  EXPECT_EQ(count_nonfinite(ElementType::kFloat32, std::span(bytes).subspan(1), 0), 1);
}

}  // namespace
}  // namespace hopfeed
