// Rows with a scale, to the bit: against a serial oracle in integers, at the ends of the range, and every way
// of reading them the same.
#include "core/base/quantised_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace hopfeed {
namespace {

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;
constexpr float kLargest = std::numeric_limits<float>::max(), kNormal = std::numeric_limits<float>::min(),
                kDenormal = std::numeric_limits<float>::denorm_min();

__extension__ using Wide = unsigned __int128;

/// A finite float as a whole number, so that no rounding hides in what is done with it.
struct Exact {
  std::uint64_t significand;
  int exponent;  // value = significand * 2^(exponent - 149)
};
Exact exact(float magnitude) {
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t exponent = bits >> 23, fraction = bits & 0x7FFFFF;
  return exponent == 0 ? Exact{fraction, 0} : Exact{fraction | 0x800000, static_cast<int>(exponent) - 1};
}

/// The float nearest to a / b * 2^(exponent - 149), ties to even, where it is normal; else 0.
float nearest_quotient(std::uint64_t a, std::uint64_t b, int exponent) {
  constexpr int kUp = 40;  // so that the quotient has more bits than the 24 of a float
  const Wide numerator = Wide{a} << kUp;
  int down = 0;
  while (numerator / (Wide{b} << down) >= 1 << 24) ++down;
  const Wide unit = Wide{b} << down, rest = numerator % unit;
  auto rounded = static_cast<std::uint64_t>(numerator / unit);
  if (2 * rest > unit || (2 * rest == unit && rounded % 2 == 1)) ++rounded;
  const double value = std::ldexp(static_cast<double>(rounded), exponent - 149 - kUp + down);
  return value < static_cast<double>(kNormal) ? 0 : static_cast<float>(value);
}

struct Quantised {
  float scale;
  std::vector<int> elements;
};

/// The rule as the header has it, every quotient from whole numbers.
Quantised oracle(int most, const Floats& values) {
  float largest = 0;
  for (const float value : values)
    if (std::fabs(value) > largest) largest = std::fabs(value);
  const Exact of_largest = exact(largest);
  Quantised row{.scale = nearest_quotient(of_largest.significand, static_cast<std::uint64_t>(most),
                                          of_largest.exponent),
                .elements = {}};
  if (static_cast<double>(row.scale) * most > static_cast<double>(kLargest) * (1 + 0x1p-25))
    row.scale = std::nextafter(row.scale, 0.0F);
  for (const float value : values) {
    int element = 0;
    if (row.scale > 0) {
      // The quotient as a float, then to a whole number: both rounded.
      const double quotient = static_cast<double>(
          static_cast<float>(static_cast<double>(std::fabs(value)) / static_cast<double>(row.scale)));
      const double below = std::floor(quotient), rest = quotient - below;
      element = static_cast<int>(below);
      if (rest > 0.5 || (rest == 0.5 && element % 2 == 1)) ++element;
      if (value < 0) element = -element;
    }
    row.elements.push_back(element);
  }
  return row;
}

Quantised read(ElementType type, const Bytes& row, std::size_t count) {
  Quantised read;
  std::memcpy(&read.scale, row.data(), 4);
  for (std::size_t i = 0; i < count; ++i) {
    if (type == ElementType::kInt8Scaled) {
      read.elements.push_back(static_cast<std::int8_t>(row[4 + i]));
      continue;
    }
    const int half = std::to_integer<int>(row[4 + i / 2]) >> (i % 2 == 0 ? 0 : 4) & 15;
    read.elements.push_back(half > 7 ? half - 16 : half);
  }
  return read;
}

Bytes quantised(ElementType type, const Floats& values) {
  Bytes row(static_cast<std::size_t>(quantised_row_bytes(type, std::ssize(values))), std::byte{0xA5});
  quantise_row(type, values, row.data());
  return row;
}

Floats dequantised(ElementType type, const Bytes& row, std::size_t count) {
  Floats values(count);
  dequantise({.type = type,
              .elements = static_cast<std::int64_t>(count),
              .stride_bytes = std::ssize(row),
              .count = 1,
              .rows = row.data()},
             values.data());
  return values;
}

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

class QuantisedRowsOf : public ::testing::TestWithParam<ElementType> {
 protected:
  const ElementType type_ = GetParam();
  const int most_ = largest_element(type_);

  void expect_rule(const Floats& values) const {
    const Bytes row = quantised(type_, values);
    const Quantised expected = oracle(most_, values), got = read(type_, row, values.size());
    ASSERT_TRUE(same_bits(got.scale, expected.scale)) << got.scale << ", expected " << expected.scale;
    ASSERT_EQ(got.elements, expected.elements);
    ASSERT_TRUE(is_quantised_row(type_, std::ssize(values), row.data()));
    const Floats back = dequantised(type_, row, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(same_bits(back[i], static_cast<float>(expected.elements[i]) * expected.scale)) << i;
      ASSERT_TRUE(std::isfinite(back[i]));
      // Half a step away at most, but for what two roundings add.
      ASSERT_LE(std::fabs(static_cast<double>(back[i]) - values[i]),
                expected.scale == 0 ? kNormal * most_ : expected.scale * 0.50001);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Types, QuantisedRowsOf,
                         ::testing::Values(ElementType::kInt8Scaled, ElementType::kInt4Scaled),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(QuantisedRowsOf, EveryWidth_IsWhatTheOracleSays) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (std::size_t width = 0; width <= 140; ++width) {
    for (const float size : {1.0F, 1e-30F, 3e33F}) {
      Floats values(width);
      std::ranges::generate(values, [&] { return normal(random) * size; });
      expect_rule(values);
    }
  }
}

TEST_P(QuantisedRowsOf, AnyBits_AreWhatTheOracleSays) {
  std::mt19937 random(6);
  for (int i = 0; i < 20'000; ++i) {
    Floats values;
    while (values.size() < 5) {
      const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      if (std::isfinite(value)) values.push_back(value);
    }
    expect_rule(values);
  }
}

TEST_P(QuantisedRowsOf, TiesGoToTheEvenElement) {
  for (int low = 0; low < most_; ++low) {
    const auto most = static_cast<float>(most_), tie = static_cast<float>(low) + 0.5F;  // the scale is 1
    const Quantised row = read(type_, quantised(type_, {tie, -tie, most}), 3);
    const int even = low % 2 == 0 ? low : low + 1;
    EXPECT_EQ(row.elements, (std::vector<int>{even, -even, most_}));
    expect_rule({std::nextafter(tie, 0.0F), std::nextafter(tie, most), most});
  }
}

TEST_P(QuantisedRowsOf, ZerosHaveNoScale_AndNegativeOnesBecomePlain) {
  const Bytes row = quantised(type_, {0.0F, -0.0F, 0.0F});
  EXPECT_TRUE(std::ranges::all_of(row, [](std::byte byte) { return byte == std::byte{0}; }));
  for (const float value : dequantised(type_, row, 3)) EXPECT_TRUE(same_bits(value, 0));
  for (const float value : dequantised(type_, quantised(type_, {-0.0F, 1}), 1))
    EXPECT_TRUE(same_bits(value, 0));
}

TEST_P(QuantisedRowsOf, TheSmallest_AreZeros_AndNoValueIsADenormal) {
  const float first = kNormal * static_cast<float>(most_);  // the least that has a scale
  expect_rule({kDenormal, -kNormal, std::nextafter(first, 0.0F)});
  const Bytes none = quantised(type_, {kDenormal, -kNormal});
  EXPECT_TRUE(std::ranges::all_of(none, [](std::byte byte) { return byte == std::byte{0}; }));
  expect_rule({first, -kNormal, kDenormal});
  for (const float value : dequantised(type_, quantised(type_, {first, -kNormal, kDenormal}), 3))
    EXPECT_TRUE(value == 0 || std::isnormal(value)) << value;
}

TEST_P(QuantisedRowsOf, TheLargest_StayFinite) {
  float value = kLargest;
  for (int i = 0; i < 1'000; ++i, value = std::nextafter(value, 0.0F))
    expect_rule({value, -value, 1, kDenormal});
  const Floats back = dequantised(type_, quantised(type_, {kLargest, -kLargest}), 2);
  EXPECT_NEAR(back[0] / kLargest, 1, 1e-6);
  EXPECT_EQ(back[0], -back[1]);
  EXPECT_TRUE(std::isfinite(largest_scale(type_) * static_cast<float>(most_)));
  EXPECT_FALSE(std::isfinite(std::nextafter(largest_scale(type_), kLargest) * static_cast<float>(most_)));
}

TEST_P(QuantisedRowsOf, OneElement_IsItself_WithinRounding) {
  for (const float value : {1.0F, -1.0F, 0.1F, 1e30F, -3e-36F}) {
    const Bytes row = quantised(type_, {value});
    EXPECT_EQ(row.size(), 5U);
    EXPECT_EQ(read(type_, row, 1).elements.front(), value > 0 ? most_ : -most_);
    EXPECT_NEAR(dequantised(type_, row, 1).front() / value, 1, 1e-6);
  }
}

TEST_P(QuantisedRowsOf, WhatIsRead_BecomesTheSameRow) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 2'000; ++i) {
    Floats values(33);
    std::ranges::generate(values, [&] { return normal(random) * std::ldexp(1.0F, i % 200 - 100); });
    const Bytes row = quantised(type_, values), again = quantised(type_, dequantised(type_, row, 33));
    // The largest of a row is read within a rounding of itself, so the scale may move by one step.
    EXPECT_EQ(read(type_, again, 33).elements, read(type_, row, 33).elements);
  }
}

TEST_P(QuantisedRowsOf, RowsOfAnyStrideAndPlace_AreReadAlike) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (const std::int64_t width : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 100, 101, 512}) {
    const std::int64_t bytes = quantised_row_bytes(type_, width), stride = bytes + 7, count = 9;
    Bytes memory(static_cast<std::size_t>(stride * count) + 1);
    Floats expected;
    for (std::int64_t i = 0; i < count; ++i) {
      Floats values(static_cast<std::size_t>(width));
      std::ranges::generate(values, [&] { return normal(random); });
      const Bytes row = quantised(type_, values);
      std::ranges::copy(row, memory.begin() + 1 + i * stride);
      const Quantised read_row = read(type_, row, values.size());
      for (const int element : read_row.elements)
        expected.push_back(static_cast<float>(element) * read_row.scale);
    }
    const QuantisedRows rows{
        .type = type_, .elements = width, .stride_bytes = stride, .count = count, .rows = memory.data() + 1};
    Floats whole(expected.size(), -1), parts(expected.size(), -1);
    dequantise(rows, whole.data());
    EXPECT_EQ(whole, expected) << width;
    dequantise(rows.part(0, 4), parts.data());
    dequantise(rows.part(4, count), parts.data() + 4 * width);
    EXPECT_EQ(parts, expected) << width;
  }
}

TEST_P(QuantisedRowsOf, RowsThatTheRuleCannotGive_AreKnown) {
  const Bytes row = quantised(type_, {1, -2, 3});
  const auto with_scale = [&](float scale) {
    Bytes other = row;
    std::memcpy(other.data(), &scale, sizeof scale);
    return is_quantised_row(type_, 3, other.data());
  };
  EXPECT_TRUE(with_scale(1));
  EXPECT_TRUE(with_scale(kNormal));
  for (const float scale : {0.0F, -0.0F, -1.0F, kDenormal, std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()})
    EXPECT_FALSE(with_scale(scale)) << scale;
  Bytes beyond = row;
  beyond[4] = type_ == ElementType::kInt8Scaled ? std::byte{0x80} : std::byte{0x18};
  EXPECT_FALSE(is_quantised_row(type_, 3, beyond.data()));
  if (type_ == ElementType::kInt4Scaled) {
    Bytes spare = row;
    spare[5] |= std::byte{0x10};
    EXPECT_FALSE(is_quantised_row(type_, 3, spare.data()));
    EXPECT_TRUE(is_quantised_row(type_, 4, spare.data()));
  }
}

TEST(QuantisedRows, KnownBytes) {
  const auto hex = [](const Bytes& row) {
    std::string text;
    for (const std::byte byte : row) text += fmt::format("{:02x}", std::to_integer<int>(byte));
    return text;
  };
  EXPECT_EQ(hex(quantised(ElementType::kInt8Scaled, {127, -127, 1, -1, 0.5F, 1.5F, -0.0F})),
            "0000803f"
            "7f8101ff000200");
  EXPECT_EQ(hex(quantised(ElementType::kInt4Scaled, {7, -7, 1, -1, 0.5F, 1.5F, -2})),
            "0000803f"
            "97f1200e");
}

TEST(QuantisedRows, TheirBytesFollowFromTheShape) {
  using enum ElementType;
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(bytes_of_row(kInt8Scaled, Shape{100}), 104);
  EXPECT_EQ(bytes_of_row(kInt4Scaled, Shape{100}), 54);
  EXPECT_EQ(bytes_of_row(kInt4Scaled, Shape{3, 5}), 12);
  EXPECT_EQ(bytes_of_row(kInt8Scaled, Shape{}), 5);
  EXPECT_EQ(bytes_of_row(kFloat16, Shape{3, 5}), 30);
  EXPECT_EQ(bytes_of_array(kInt4Scaled, Shape{7, 3}), 42);
  EXPECT_EQ(bytes_of_array(kInt8Scaled, Shape{0, 3}), 0);
  EXPECT_EQ(bytes_of_array(kInt64, Shape{}), 8);
  EXPECT_EQ(bytes_of_array(kInt8Scaled, Shape{}), std::nullopt);
  EXPECT_EQ(bytes_of_array(kInt8Scaled, Shape{-1, 3}), std::nullopt);
  for (const ElementType type : {kInt8Scaled, kInt4Scaled, kFloat32}) {
    EXPECT_EQ(bytes_of_array(type, Shape{std::int64_t{1} << 62, 4}), std::nullopt);
    EXPECT_EQ(bytes_of_array(type, Shape{2, std::numeric_limits<std::int64_t>::max()}), std::nullopt);
    EXPECT_EQ(bytes_of_array(type, Shape{4, std::int64_t{1} << 62, std::int64_t{1} << 62}), std::nullopt);
  }
}

}  // namespace
}  // namespace hopfeed
