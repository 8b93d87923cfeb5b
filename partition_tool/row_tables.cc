// See row_tables.h.
#include "partition_tool/row_tables.h"

#include <cstring>

namespace hopfeed {
namespace {

template <class T>
void widen(std::span<const std::byte> bytes, std::vector<double>& out) {
  out.resize(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
}

}  // namespace

void weights_to_doubles(ElementType type, std::span<const std::byte> bytes, std::vector<double>& out) {
  switch (type) {
    case ElementType::kFloat32:
      return widen<float>(bytes, out);
    case ElementType::kFloat64:
      return widen<double>(bytes, out);
    case ElementType::kInt32:
      return widen<std::int32_t>(bytes, out);
    default:  // meta.json and check_weights_and_times let no other through
      return widen<std::int64_t>(bytes, out);
  }
}

}  // namespace hopfeed
