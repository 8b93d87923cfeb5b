// See element_type.h.
#include "core/base/element_type.h"

#include <limits>

#include "core/base/error.h"

namespace hopfeed {
namespace {

struct Row {
  ElementType type;
  std::size_t bytes;
  const char* name;
  const char* descr;
};

constexpr Row kRows[] = {
    {ElementType::kUint8, 1, "uint8", "|u1"},
    {ElementType::kInt8, 1, "int8", "|i1"},
    {ElementType::kInt16, 2, "int16", "<i2"},
    {ElementType::kInt32, 4, "int32", "<i4"},
    {ElementType::kInt64, 8, "int64", "<i8"},
    {ElementType::kFloat16, 2, "float16", "<f2"},
    {ElementType::kBfloat16, 2, "bfloat16", "<u2"},
    {ElementType::kFloat32, 4, "float32", "<f4"},
    {ElementType::kFloat64, 8, "float64", "<f8"},
    {ElementType::kBool, 1, "bool", "|b1"},
    {ElementType::kUint32, 4, "uint32", "<u4"},
    {ElementType::kInt8Scaled, 1, "int8_scaled", "|u1"},
    {ElementType::kInt4Scaled, 1, "int4_scaled", "|u1"},
};

const Row* find(ElementType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

std::optional<std::int64_t> product(std::int64_t number, std::span<const std::int64_t> shape) {
  for (const std::int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(number, dim, &number)) return {};
  return number;
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  const Row* row = find(type);
  return row ? row->bytes : 0;
}

std::optional<std::int64_t> bytes_of_row(ElementType type, std::span<const std::int64_t> shape) {
  const std::optional<std::int64_t> bytes = product(static_cast<std::int64_t>(element_bytes(type)), shape);
  if (!has_scale(type) || !bytes) return bytes;
  if (*bytes > std::numeric_limits<std::int64_t>::max() - kScaleBytes) return {};
  return quantised_row_bytes(type, *bytes);  // elements: each counts as one
}

std::optional<std::int64_t> bytes_of_array(ElementType type, std::span<const std::int64_t> shape) {
  if (!has_scale(type)) return bytes_of_row(type, shape);
  const std::optional<std::int64_t> row = shape.empty() ? std::nullopt : bytes_of_row(type, shape.subspan(1));
  return row ? product(*row, shape.first(1)) : row;
}

const char* to_string(ElementType type) {
  const Row* row = find(type);
  return row ? row->name : "?";
}

const char* npy_descr(ElementType type) {
  const Row* row = find(type);
  return row ? row->descr : "?";
}

ElementType element_type_from(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.type;
  }
  throw Error(ErrorCode::kInvalid, "unknown element type '" + std::string(name) + "'");
}

}  // namespace hopfeed
