// Reads an id of an array of ids, which are of 4 or 8 bytes.
#pragma once
#include <cstdint>

#include "core/base/element_type.h"

namespace hopfeed {

/// `type` is int32 or int64.
inline std::int64_t id_at(const void* ids, ElementType type, std::int64_t i) {
  return type == ElementType::kInt32 ? static_cast<const std::int32_t*>(ids)[i]
                                     : static_cast<const std::int64_t*>(ids)[i];
}

}  // namespace hopfeed
