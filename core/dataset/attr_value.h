// Reads one value of an attribute.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/base/element_type.h"
#include "core/dataset/graph_view.h"

namespace hopfeed {

/// Returns whether each row is a single number.
inline bool is_scalar(const AttrView& attr) {
  return attr.row_bytes == static_cast<std::int64_t>(element_bytes(attr.type));
}

/// Returns the value of a node, by dataset id in range; T is the attribute's type.
template <class T>
T attr_value(const AttrView& attr, std::int64_t node) {
  const int p = attr.parts.size() == 1 ? 0 : partition_of(attr.partition_offsets, node);
  T value;
  std::memcpy(&value, attr.parts[p] + (node - attr.partition_offsets[p]) * attr.stride_bytes, sizeof(value));
  return value;
}

}  // namespace hopfeed
