// See partitioned_features.h.
#include "core/maker/partitioned_features.h"

#include <algorithm>
#include <cstring>

#include "core/base/prefetch.h"

namespace hopfeed {
namespace {

constexpr std::size_t kRowsAhead = 16;
constexpr std::size_t kBytesAhead = 1'024;  // of a long row: the processor goes on by itself

AttrView view_of(const Dataset& dataset, const FeatureName& feature) {
  return feature.store == Store::kNode ? dataset.attr(feature.type, feature.name)
                                       : dataset.edge_attr(feature.type, feature.name);
}

}  // namespace

PartitionedFeatures::PartitionedFeatures(const Dataset& dataset, const FeatureName& feature)
    : attr_(view_of(dataset, feature)), others_(dataset, feature.store, feature.type, feature.name) {}

std::size_t PartitionedFeatures::prepare(std::span<const std::int64_t> ids) {
  drop();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto p = static_cast<std::size_t>(partition_of(attr_.partition_offsets, ids[i]));
    const std::byte* const part = attr_.parts[p];
    rows_.push_back(part == nullptr ? nullptr
                                    : part + (ids[i] - attr_.partition_offsets[p]) * attr_.stride_bytes);
    if (part != nullptr) continue;
    asked_.push_back(ids[i]);
    at_.push_back(i);
  }
  others_.ask(asked_, at_);
  return ids.size();
}

void PartitionedFeatures::gather(std::size_t rows, std::byte* out) {
  const auto row_bytes = static_cast<std::size_t>(attr_.row_bytes);
  if (!taken_) {
    others_.take([&](std::size_t at, const std::byte* row) { rows_[at] = row; });
    const auto others = static_cast<std::int64_t>(asked_.size()), own = std::ssize(rows_) - others;
    counts_.memory_rows += own;
    counts_.memory_bytes += own * attr_.row_bytes;
    counts_.peer_rows += others;
    counts_.peer_bytes += others * attr_.row_bytes;
    taken_ = true;
  }
  const std::span<const std::byte* const> now = std::span(rows_).subspan(given_, rows);
  for (std::size_t i = 0; i < rows; ++i, out += row_bytes) {
    if (i + kRowsAhead < rows)
      for (std::size_t at = 0; at < std::min(row_bytes, kBytesAhead); at += 64)
        prefetch_line(now[i + kRowsAhead] + at);
    std::memcpy(out, now[i], row_bytes);
  }
  given_ += rows;
}

void PartitionedFeatures::drop() {
  others_.drop();
  rows_.clear();
  asked_.clear();
  at_.clear();
  taken_ = false;
  given_ = 0;
}

}  // namespace hopfeed
