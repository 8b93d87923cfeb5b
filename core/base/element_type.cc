// See element_type.h.
#include "core/base/element_type.h"

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
    {ElementType::kUint8, 1, "uint8", "|u1"},       {ElementType::kInt8, 1, "int8", "|i1"},
    {ElementType::kInt16, 2, "int16", "<i2"},       {ElementType::kInt32, 4, "int32", "<i4"},
    {ElementType::kInt64, 8, "int64", "<i8"},       {ElementType::kFloat16, 2, "float16", "<f2"},
    {ElementType::kBfloat16, 2, "bfloat16", "<u2"}, {ElementType::kFloat32, 4, "float32", "<f4"},
    {ElementType::kFloat64, 8, "float64", "<f8"},   {ElementType::kBool, 1, "bool", "|b1"},
    {ElementType::kUint32, 4, "uint32", "<u4"},
};

const Row* find(ElementType type) {
  for (const Row& row : kRows) {
    if (row.type == type) return &row;
  }
  return nullptr;
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  const Row* row = find(type);
  return row ? row->bytes : 0;
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
