// The element types by their numbers, apart from the rest of element_type.h: C++17, since the compiler of
// kernels reads it too. The numbers are part of formats: append, never renumber.
#pragma once
#include <cstddef>
#include <cstdint>

namespace hopfeed {

enum class ElementType : std::uint16_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kBfloat16 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kBool = 10,
  kUint32 = 11,
  kInt8Scaled = 12,  // rows with a scale each: quantised_rows.h
  kInt4Scaled = 13,
};

/// Whether each row has a scale before its elements, so that the row, and not the element, is what is read.
constexpr bool has_scale(ElementType type) {
  return type == ElementType::kInt8Scaled || type == ElementType::kInt4Scaled;
}
/// Bytes of one element; 0 for a number that is no ElementType. Of types with a scale 1: their rows are bytes
/// to whoever moves them.
std::size_t element_bytes(ElementType type);
/// "int64", "bfloat16", ...: the names in meta.json; "?" for a number that is no ElementType.
const char* to_string(ElementType type);

}  // namespace hopfeed
