// See owned_rows.h.
#include "state/owner/owned_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace hopfeed {

OwnedRows::OwnedRows(const Dataset& dataset, int node_type) : dataset_(dataset), node_type_(node_type) {
  const std::vector<std::int64_t>& offsets =
      dataset.meta().node_types[static_cast<std::size_t>(node_type)].partition_offsets;
  for (const int partition : dataset.partitions()) {
    const auto p = static_cast<std::size_t>(partition);
    ranges_.push_back({.first_id = offsets[p], .end_id = offsets[p + 1], .first_row = count_});
    count_ += offsets[p + 1] - offsets[p];
  }
}

const OwnedRows::Range* OwnedRows::range_of_id(std::int64_t dataset_id) const {
  const auto behind =
      std::ranges::upper_bound(ranges_, dataset_id, {}, [](const Range& range) { return range.first_id; });
  if (behind == ranges_.begin()) return nullptr;
  const Range& range = *(behind - 1);
  return dataset_id < range.end_id ? &range : nullptr;
}

std::int64_t OwnedRows::row_of(std::int64_t dataset_id) const {
  const Range* const range = range_of_id(dataset_id);
  return range == nullptr ? -1 : range->first_row + (dataset_id - range->first_id);
}

std::int64_t OwnedRows::dataset_id(std::int64_t row) const {
  const auto behind =
      std::ranges::upper_bound(ranges_, row, {}, [](const Range& range) { return range.first_row; });
  const Range& range = *(behind - 1);  // of empty ones with the same first row the last, which has it
  return range.first_id + (row - range.first_row);
}

std::int64_t OwnedRows::original_id(std::int64_t row) const {
  return dataset_.checked_original_id(node_type_, dataset_id(row));
}

std::int64_t OwnedRows::row_of_original(std::int64_t original_id) const {
  if (dataset_.has_all_ids()) return row_of(dataset_.dataset_id(node_type_, original_id));
  const std::int64_t nodes = dataset_.num_nodes(node_type_);
  require_valid(original_id >= 0 && original_id < nodes,
                fmt::format("node {} is out of range: there are {}", original_id, nodes));
  std::call_once(inverted_, [this] { invert(); });
  const auto found = std::ranges::lower_bound(by_original_, original_id, {}, &OfOriginal::id);
  return found != by_original_.end() && found->id == original_id ? found->row : -1;
}

// Where ids are sharded another machine may have those of the rows here.
void OwnedRows::invert() const {
  by_original_.reserve(static_cast<std::size_t>(count_));
  for (std::int64_t row = 0; row < count_; ++row)
    by_original_.push_back({.id = original_id(row), .row = row});
  std::ranges::sort(by_original_, {}, &OfOriginal::id);
}

std::vector<std::int64_t> OwnedRows::partitions() const {
  const std::vector<int> here = dataset_.partitions();
  return {here.begin(), here.end()};
}

std::vector<std::int64_t> OwnedRows::rows_of(std::span<const std::int64_t> dataset_ids, Order order) const {
  std::vector<std::int64_t> rows(dataset_ids.size());
  const Range* range = nullptr;
  for (std::size_t i = 0; i < dataset_ids.size(); ++i) {
    const std::int64_t id = dataset_ids[i];
    if (range == nullptr || id < range->first_id || id >= range->end_id) range = range_of_id(id);
    // Messages are made of what is refused alone, here and wherever there are many: one costs more than a
    // row.
    if (range == nullptr)
      throw Error(ErrorCode::kInvalid,
                  fmt::format("node {} (dataset id) is not in a partition of this owner", id));
    if (order == Order::kAscending && i > 0 && id <= dataset_ids[i - 1])
      throw Error(ErrorCode::kInvalid,
                  fmt::format("node {} (dataset id) is there twice, or out of order", id));
    rows[i] = range->first_row + (id - range->first_id);
  }
  return rows;
}

}  // namespace hopfeed
