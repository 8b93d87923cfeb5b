// float16 and bfloat16 against a search over all of their numbers: the nearest one, ties to the even bits.
#include "core/base/half_floats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

namespace hopfeed {
namespace {

struct Format {
  std::uint16_t (*to)(float);
  float (*from)(std::uint16_t);
  std::uint16_t infinity;
};
const Format kFloat16{float16_from, from_float16, 0x7C00}, kBfloat16{bfloat16_from, from_bfloat16, 0x7F80};

/// The nearest half float of a finite value that is not negative: by bisection over the finite numbers,
/// which rise with their bits.
std::uint16_t nearest(const Format& format, float value) {
  std::uint16_t below = 0, above = format.infinity;  // from(below) <= value
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>(below + (above - below) / 2);
    (format.from(middle) <= value ? below : above) = middle;
  }
  // Beyond the largest finite number the next one would be twice its step away.
  const double low = format.from(below),
               high = above == format.infinity ? 2 * low - format.from(static_cast<std::uint16_t>(below - 1))
                                               : static_cast<double>(format.from(above)),
               to_low = value - low, to_high = high - value;
  if (to_low != to_high) return to_low < to_high ? below : above;
  return below % 2 == 0 ? below : above;
}

void expect_nearest(const Format& format, float value) {
  const std::uint16_t expected = nearest(format, value);
  ASSERT_EQ(format.to(value), expected) << value;
  ASSERT_EQ(format.to(-value), expected | 0x8000) << -value;
}

class HalfFloats : public ::testing::TestWithParam<Format> {};

TEST_P(HalfFloats, EveryNumberIsItselfThereAndBack) {
  const Format& format = GetParam();
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if ((half & 0x7FFF) > format.infinity) continue;  // NaN
    ASSERT_EQ(format.to(format.from(half)), half) << bits;
  }
}

TEST_P(HalfFloats, AnyNumberBecomesTheNearest_TiesTheEven) {
  const Format& format = GetParam();
  std::mt19937 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7FFFFFFF);
    if (std::isfinite(value)) expect_nearest(format, value);
  }
  // Between any two neighbours, and beside that.
  for (std::uint32_t bits = 1; bits < format.infinity; ++bits) {
    const float low = format.from(static_cast<std::uint16_t>(bits)),
                high = bits + 1 == format.infinity
                           ? 2 * low - format.from(static_cast<std::uint16_t>(bits - 1))
                           : format.from(static_cast<std::uint16_t>(bits + 1)),
                tie = low / 2 + high / 2;
    if (!std::isfinite(high)) continue;
    for (const float value : {tie, std::nextafter(tie, low), std::nextafter(tie, high)})
      expect_nearest(format, value);
  }
}

TEST_P(HalfFloats, NaNsAreQuietAndKeepTheirSign) {
  const Format& format = GetParam();
  for (const std::uint32_t bits : {0x7F800001U, 0x7FBFFFFFU, 0x7FC00000U, 0x7FFFFFFFU}) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const std::uint16_t half = format.to(std::bit_cast<float>(bits | sign));
      EXPECT_GT(half & 0x7FFF, format.infinity);
      EXPECT_EQ(half & 0x8000, static_cast<int>(sign >> 16));
      const std::uint32_t quiet = format.infinity == 0x7C00 ? 0x0200 : 0x0040;
      EXPECT_NE(half & quiet, 0U);
      EXPECT_TRUE(std::isnan(format.from(half)));
    }
  }
}

TEST_P(HalfFloats, InfinitiesStay_AndTheTooLargeBecomesOne) {
  const Format& format = GetParam();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(format.to(infinity), format.infinity);
  EXPECT_EQ(format.to(-infinity), format.infinity | 0x8000);
  EXPECT_EQ(format.from(format.infinity), infinity);
  EXPECT_EQ(format.to(std::numeric_limits<float>::max()), format.infinity);
}

INSTANTIATE_TEST_SUITE_P(Formats, HalfFloats, ::testing::Values(kFloat16, kBfloat16), [](const auto& info) {
  return info.param.infinity == 0x7C00 ? "Float16" : "Bfloat16";
});

TEST(Float16, KnownNumbers) {
  EXPECT_EQ(float16_from(1.0F), 0x3C00);
  EXPECT_EQ(float16_from(-2.0F), 0xC000);
  EXPECT_EQ(float16_from(65504.0F), 0x7BFF);
  EXPECT_EQ(float16_from(65519.996F), 0x7BFF);
  EXPECT_EQ(float16_from(65520.0F), 0x7C00);
  EXPECT_EQ(float16_from(0x1p-24F), 0x0001);
  EXPECT_EQ(float16_from(0x1p-25F), 0x0000);  // a tie: zero is even
  EXPECT_EQ(float16_from(0x1.8p-24F), 0x0002);
  EXPECT_EQ(float16_from(0.1F), 0x2E66);
  EXPECT_EQ(bfloat16_from(1.0F), 0x3F80);
  EXPECT_EQ(bfloat16_from(0.1F), 0x3DCD);
}

}  // namespace
}  // namespace hopfeed
