// ElementType is the type of arrays' elements on disk and in a batch block. The numbers are part of both
// formats: append, never renumber.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

/// Returns whether each row has a scale before its elements, so that the row, and not the element, is what is
/// read.
constexpr bool has_scale(ElementType type) {
  return type == ElementType::kInt8Scaled || type == ElementType::kInt4Scaled;
}
inline constexpr std::int64_t kScaleBytes = 4;  // a float32 before the elements
/// Returns the bytes of a row of `elements` elements of a type with a scale, which is included.
constexpr std::int64_t quantised_row_bytes(ElementType type, std::int64_t elements) {
  return kScaleBytes + (type == ElementType::kInt4Scaled ? elements / 2 + elements % 2 : elements);
}
/// Returns the bytes of one element; 0 for a number that is no ElementType, and 1 for types with a scale:
/// their rows are bytes to whoever moves them.
std::size_t element_bytes(ElementType type);
/// Returns the bytes of a row of this shape (of one element where it is empty), and of an array of rows;
/// nothing where no number holds them or a dimension is negative, and for an array without rows of a type
/// with a scale.
std::optional<std::int64_t> bytes_of_row(ElementType type, std::span<const std::int64_t> shape);
std::optional<std::int64_t> bytes_of_array(ElementType type, std::span<const std::int64_t> shape);
/// Returns the name in meta.json ("int64", "bfloat16", ...); "?" for a number that is no ElementType.
const char* to_string(ElementType type);
/// Returns the type of a name, as to_string() gives it; throws kInvalid for an unknown name.
ElementType element_type_from(std::string_view name);
/// Returns NumPy's type string ("<i8"). What NumPy lacks is named in meta.json: bfloat16 is stored as "<u2",
/// rows with a scale as "|u1".
const char* npy_descr(ElementType type);
/// Returns the number at an address, of type float32, float64, int32 or int64: what weights are stored as.
inline double number_at(const std::byte* at, ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return *reinterpret_cast<const float*>(at);
    case ElementType::kFloat64:
      return *reinterpret_cast<const double*>(at);
    case ElementType::kInt32:
      return *reinterpret_cast<const std::int32_t*>(at);
    default:
      return static_cast<double>(*reinterpret_cast<const std::int64_t*>(at));
  }
}

template <class T>
inline constexpr ElementType element_type_of = ElementType{0};
template <>
inline constexpr ElementType element_type_of<std::uint8_t> = ElementType::kUint8;
template <>
inline constexpr ElementType element_type_of<std::int8_t> = ElementType::kInt8;
template <>
inline constexpr ElementType element_type_of<std::int16_t> = ElementType::kInt16;
template <>
inline constexpr ElementType element_type_of<std::int32_t> = ElementType::kInt32;
template <>
inline constexpr ElementType element_type_of<std::uint32_t> = ElementType::kUint32;
template <>
inline constexpr ElementType element_type_of<std::int64_t> = ElementType::kInt64;
template <>
inline constexpr ElementType element_type_of<float> = ElementType::kFloat32;
template <>
inline constexpr ElementType element_type_of<double> = ElementType::kFloat64;
template <>
inline constexpr ElementType element_type_of<bool> = ElementType::kBool;

}  // namespace hopfeed
