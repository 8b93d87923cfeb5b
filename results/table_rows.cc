// See table_rows.h.
#include "results/table_rows.h"

namespace hopfeed {

TableRows::TableRows(const Dataset& dataset, int node_type, const std::string& attribute) {
  const AttrView attr = dataset.attr(node_type, attribute);
  row_bytes_ = attr.row_bytes;
  rows_.type = attr.type;
  rows_.width = attr.row_elements;
  for (int part = 0; part < dataset.meta().partitions; ++part)
    arrays_.push_back(reinterpret_cast<std::uintptr_t>(attr.parts[static_cast<std::size_t>(part)]));
  rows_.table = {.starts = dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets,
                 .arrays = arrays_,
                 .stride = static_cast<std::size_t>(attr.stride_bytes)};
}

TableRows::TableRows(const Dataset& dataset, int node_type, const RunFolder& folder, const LayerName& name,
                     std::int64_t width)
    : arrays_(static_cast<std::size_t>(dataset.meta().partitions)),
      row_bytes_(width * static_cast<std::int64_t>(sizeof(float))) {
  rows_.width = width;
  rows_.table = {.starts = dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets,
                 .arrays = arrays_,
                 .stride = static_cast<std::size_t>(row_bytes_)};
  for (const int part : dataset.partitions()) {
    const auto p = static_cast<std::size_t>(part);
    own_.push_back(
        std::make_unique<PartitionRows>(folder.layers(), name, part, rows_.table.height(p), row_bytes_));
    arrays_[p] = reinterpret_cast<std::uintptr_t>(own_.back()->data());
  }
}

void TableRows::add_boundary(const RunFolder& folder, const LayerName& name, const RankedSet& boundary) {
  elsewhere_ = std::make_unique<PartitionRows>(folder.boundary(), name, 0, boundary.size(), row_bytes_);
  rows_.table.elsewhere = &boundary;
  rows_.table.elsewhere_rows = elsewhere_->data();
  rows_.table.elsewhere_stride = static_cast<std::size_t>(row_bytes_);
}

std::int64_t TableRows::count() const {
  const RowTable& table = rows_.table;
  std::int64_t count = table.elsewhere == nullptr ? 0 : table.elsewhere->size();
  for (std::size_t p = 0; p < table.arrays.size(); ++p)
    if (table.arrays[p] != 0) count += table.height(p);
  return count;
}

}  // namespace hopfeed
