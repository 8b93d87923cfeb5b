// See table_rows.h.
#include "results/table_rows.h"

namespace hopfeed {

TableRows::TableRows(const Dataset& dataset, int node_type, const std::string& attribute) {
  const AttrView attr = dataset.attr(node_type, attribute);
  const auto partitions = static_cast<std::size_t>(dataset.meta().partitions);
  row_bytes_ = attr.row_bytes;
  rows_.type = attr.type;
  rows_.width = attr.row_elements;
  rows_.offsets = dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  rows_.parts.assign(attr.parts.begin(), attr.parts.begin() + static_cast<std::ptrdiff_t>(partitions));
  rows_.stride = attr.stride_bytes;
}

TableRows::TableRows(const Dataset& dataset, int node_type, const RunFolder& folder, const LayerName& name,
                     std::int64_t width)
    : row_bytes_(width * static_cast<std::int64_t>(sizeof(float))) {
  rows_.width = width;
  rows_.offsets = dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  rows_.parts.resize(static_cast<std::size_t>(dataset.meta().partitions));
  rows_.stride = row_bytes_;
  for (const int part : dataset.partitions()) {
    const auto p = static_cast<std::size_t>(part);
    own_.push_back(std::make_unique<PartitionRows>(folder.layers(), name, part,
                                                   rows_.offsets[p + 1] - rows_.offsets[p], row_bytes_));
    rows_.parts[p] = own_.back()->data();
  }
}

void TableRows::add_boundary(const RunFolder& folder, const LayerName& name, const RankedSet& boundary) {
  elsewhere_ = std::make_unique<PartitionRows>(folder.boundary(), name, 0, boundary.size(), row_bytes_);
  rows_.boundary = &boundary;
  rows_.boundary_rows = elsewhere_->data();
  rows_.boundary_stride = row_bytes_;
}

std::int64_t TableRows::count() const {
  std::int64_t count = rows_.boundary == nullptr ? 0 : rows_.boundary->size();
  for (std::size_t p = 0; p < rows_.parts.size(); ++p)
    if (rows_.parts[p] != nullptr) count += rows_.offsets[p + 1] - rows_.offsets[p];
  return count;
}

}  // namespace hopfeed
