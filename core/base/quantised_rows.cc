// See quantised_rows.h. This file is compiled once per instruction set (Highway's foreach_target) and chosen
// at run time. A product of two floats is the same in every lane of every processor.
#include "core/base/quantised_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/base/quantised_rows.cc"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hopfeed {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Ints = hn::RebindToSigned<Floats>;
using Bytes = hn::Rebind<std::int8_t, Ints>;
using Unsigned = hn::Rebind<std::uint8_t, Ints>;

HWY_INLINE float scale_at(const std::byte* row) {
  float scale;
  std::memcpy(&scale, row, sizeof scale);
  return scale;
}

void int8_row(const std::byte* row, std::size_t elements, float* out) {
  const Floats d;
  const Ints ints;
  const Bytes bytes;
  const float scale = scale_at(row);
  const auto scales = hn::Set(d, scale);
  const std::size_t lanes = hn::Lanes(d);
  const auto* const from = reinterpret_cast<const std::int8_t*>(row + kScaleBytes);
  const auto write = [&](std::size_t i) HWY_ATTR {
    const auto numbers = hn::PromoteTo(ints, hn::LoadU(bytes, from + i));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, numbers), scales), d, out + i);
  };
  std::size_t i = 0;
  for (; i + lanes <= elements; i += lanes) write(i);
  if (i == elements) return;
  if (elements >= lanes) return write(elements - lanes);  // some a second time: no row is read past its end
  for (; i < elements; ++i) out[i] = static_cast<float>(from[i]) * scale;
}

/// A byte has two elements, so a vector of bytes gives two of floats.
void int4_row(const std::byte* row, std::size_t elements, float* out) {
  const Floats d;
  const Ints ints;
  const Unsigned bytes;
  const float scale = scale_at(row);
  const auto scales = hn::Set(d, scale);
  const std::size_t lanes = hn::Lanes(d), whole = elements / 2;
  const auto* const from = reinterpret_cast<const std::uint8_t*>(row + kScaleBytes);
  const auto write = [&](std::size_t i) HWY_ATTR {
    const auto pairs = hn::BitCast(ints, hn::PromoteTo(ints, hn::LoadU(bytes, from + i)));
    const auto low = hn::ShiftRight<28>(hn::ShiftLeft<28>(pairs)),
               high = hn::ShiftRight<28>(hn::ShiftLeft<24>(pairs));
    hn::StoreInterleaved2(hn::Mul(hn::ConvertTo(d, low), scales), hn::Mul(hn::ConvertTo(d, high), scales), d,
                          out + 2 * i);
  };
  std::size_t i = 0;
  for (; i + lanes <= whole; i += lanes) write(i);
  if (i < whole && whole >= lanes) write(whole - lanes), i = whole;
  const auto element = [&](std::size_t at) {
    const int half = from[at / 2] >> (at % 2 * 4) & 0xF;
    return static_cast<float>((half ^ 8) - 8) * scale;
  };
  for (std::size_t at = 2 * i; at < elements; ++at) out[at] = element(at);
}

void all_rows(const QuantisedRows& rows, float* out) {
  const auto elements = static_cast<std::size_t>(rows.elements);
  const std::byte* row = rows.rows;
  for (std::int64_t i = 0; i < rows.count; ++i, row += rows.stride_bytes, out += elements)
    rows.type == ElementType::kInt4Scaled ? int4_row(row, elements, out) : int8_row(row, elements, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace hopfeed
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hopfeed {

HWY_EXPORT(all_rows);

void dequantise(const QuantisedRows& rows, float* out) { HWY_DYNAMIC_DISPATCH(all_rows)(rows, out); }

void quantise_row(ElementType type, std::span<const float> values, std::byte* row) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const float scale = scale_of(type, largest);
  std::memcpy(row, &scale, sizeof scale);
  row += kScaleBytes;
  if (type == ElementType::kInt8Scaled) {
    for (std::size_t i = 0; i < values.size(); ++i)
      row[i] = static_cast<std::byte>(element_of(values[i], scale));
    return;
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    const int low = element_of(values[i], scale),
              high = i + 1 < values.size() ? element_of(values[i + 1], scale) : 0;
    row[i / 2] = static_cast<std::byte>((low & 0xF) | (high & 0xF) << 4);
  }
}

bool is_quantised_row(ElementType type, std::int64_t elements, const std::byte* row) {
  float scale;
  std::memcpy(&scale, row, sizeof scale);
  if (scale != 0 && !(scale >= std::numeric_limits<float>::min() && std::isfinite(scale))) return false;
  if (std::signbit(scale)) return false;
  const std::byte *const first = row + kScaleBytes, *const end = row + quantised_row_bytes(type, elements);
  if (scale == 0) return std::all_of(first, end, [](std::byte none) { return none == std::byte{0}; });
  if (type == ElementType::kInt8Scaled) return std::find(first, end, std::byte{0x80}) == end;  // -128
  return (elements % 2 == 0 || (end[-1] >> 4) == std::byte{0}) && std::all_of(first, end, [](std::byte both) {
           return (both & std::byte{0xF}) != std::byte{8} && (both >> 4) != std::byte{8};
         });
}

}  // namespace hopfeed
#endif  // HWY_ONCE
