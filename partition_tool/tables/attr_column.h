// Finds the columns of a stream that arrays are made of, and refuses those of another type.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/dataset/dataset_meta.h"
#include "partition_tool/tables/arrow_stream.h"

namespace hopfeed {

/// Returns the number of the column that an attribute's rows are in. Throws kNotFound where there is none,
/// kInvalid where it holds something else.
std::size_t attr_column(const ArrowStream& stream, const AttrMeta& attr);
/// Returns that of one number for each row.
inline std::size_t number_column(const ArrowStream& stream, const std::string& name, ElementType type) {
  return attr_column(stream, {.name = name, .type = type});
}

/// Throws kInvalid unless bounds of a time are in order and not too many (core/dataset/time_codes.h).
void require_time_bounds(const std::string& time, std::span<const std::int64_t> bounds);

}  // namespace hopfeed
