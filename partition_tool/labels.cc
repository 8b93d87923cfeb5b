// See labels.h.
#include "partition_tool/labels.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace hopfeed {

void set_labels(RawNodes& nodes, std::vector<std::int64_t> labels) {
  if (!labels.empty()) nodes.num_classes = *std::max_element(labels.begin(), labels.end()) + 1;
  const auto shared = std::make_shared<const std::vector<std::int64_t>>(std::move(labels));
  nodes.attrs.push_back({.name = "y",
                         .type = ElementType::kInt64,
                         .shape = {},
                         .read_row = [shared](std::int64_t node, std::span<std::byte> row) {
                           std::memcpy(row.data(), &(*shared)[node], sizeof(std::int64_t));
                         }});
}

}  // namespace hopfeed
