// See attr_column.h.
#include "partition_tool/tables/attr_column.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/limits.h"

namespace hopfeed {

std::size_t attr_column(const ArrowStream& stream, const AttrMeta& attr) {
  const std::size_t column = stream.column(attr.name);
  const ArrowType& type = stream.type(column);
  const bool fits = type.kind == ArrowType::Kind::kNumbers && type.element == attr.type &&
                    type.width == attr.row_elements() && type.is_list == !attr.shape.empty();
  require_valid(
      fits,
      fmt::format("column '{}' holds {} in each row, and {} is wanted", attr.name, to_string(type),
                  to_string(ArrowType{
                      .element = attr.type, .width = attr.row_elements(), .is_list = !attr.shape.empty()})));
  return column;
}

void require_time_bounds(const std::string& time, std::span<const std::int64_t> bounds) {
  require_valid(bounds.size() <= kMaxTimeBounds && std::ranges::is_sorted(bounds),
                fmt::format("bounds of time '{}' are more than {}, or out of order", time, kMaxTimeBounds));
}

}  // namespace hopfeed
