// See partition_features.h.
#include "cache/partition_features.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "cache/file_features.h"
#include "cache/remote_ranks.h"
#include "core/base/prefetch.h"
#include "core/dataset/dataset.h"
#include "core/maker/mapped_features.h"
#include "core/maker/partitioned_features.h"

namespace hopfeed {
namespace {

/// So many own rows are asked for before they are copied.
constexpr std::size_t kRowsAhead = 16;
/// So many bytes of a long row are asked for: the processor goes on by itself.
constexpr std::size_t kBytesAhead = 1'024;

}  // namespace

PartitionFeatures::PartitionFeatures(const AttrView& attr, int own, std::unique_ptr<FeatureSource> others)
    : attr_(attr),
      own_begin_(attr.partition_offsets[static_cast<std::size_t>(own)]),
      own_end_(attr.partition_offsets[static_cast<std::size_t>(own) + 1]),
      own_rows_(attr.parts[static_cast<std::size_t>(own)]),
      others_(std::move(others)) {}

std::size_t PartitionFeatures::prepare(std::span<const std::int64_t> ids) {
  rows_.clear();
  asked_.clear();
  given_ = 0;
  for (const std::int64_t id : ids) {
    const bool own = id >= own_begin_ && id < own_end_;
    rows_.push_back(own ? own_rows_ + (id - own_begin_) * attr_.stride_bytes : nullptr);
    if (!own) asked_.push_back(id);
  }
  [[maybe_unused]] const std::size_t coming = others_->prepare(asked_);
  assert(coming == asked_.size());
  return ids.size();
}

void PartitionFeatures::gather(std::size_t rows, std::byte* out) {
  const auto row_bytes = static_cast<std::size_t>(attr_.row_bytes);
  const std::span<const std::byte* const> now = std::span(rows_).subspan(given_, rows);
  const auto others = static_cast<std::size_t>(std::ranges::count(now, nullptr));
  const std::byte* next = out + (rows - others) * row_bytes;
  others_->gather(others, out + (rows - others) * row_bytes);
  for (std::size_t i = 0; i < rows; ++i, out += row_bytes) {
    if (i + kRowsAhead < rows && now[i + kRowsAhead] != nullptr)
      for (std::size_t at = 0; at < std::min(row_bytes, kBytesAhead); at += 64)
        prefetch_line(now[i + kRowsAhead] + at);
    if (now[i] != nullptr) {
      std::memcpy(out, now[i], row_bytes);
      continue;
    }
    if (next != out) std::memcpy(out, next, row_bytes);  // whole rows apart
    next += row_bytes;
  }
  given_ += rows;
  counts_.memory_rows += static_cast<std::int64_t>(rows - others);
  counts_.memory_bytes += static_cast<std::int64_t>((rows - others) * row_bytes);
}

TierCounts PartitionFeatures::counts() const {
  TierCounts sum = others_->counts();
  sum += counts_;
  return sum;
}

FeatureSourceFactory partition_features(std::int64_t own, FeatureSourceFactory others) {
  return [own, others = std::move(others)](const Dataset& dataset,
                                           const FeatureName& feature) -> std::unique_ptr<FeatureSource> {
    require_partition(dataset, own, "local_partition");
    const AttrView attr = feature.store == Store::kNode ? dataset.attr(feature.type, feature.name)
                                                        : dataset.edge_attr(feature.type, feature.name);
    return std::make_unique<PartitionFeatures>(attr, static_cast<int>(own), others(dataset, feature));
  };
}

FeatureSourceFactory tier_sources(const FeatureTiers& tiers, DynamicCache* cache, AnnounceTurn* turn) {
  if (tiers.from == FeaturesFrom::kMemory && cache != nullptr)
    return
        [cache, turn](const Dataset& dataset, const FeatureName& feature) -> std::unique_ptr<FeatureSource> {
          std::unique_ptr<CachedRows> rows = dataset.whole() ? nullptr : cache->open(feature);
          if (!rows) return mapped_features(dataset, feature);
          return std::make_unique<PartitionedFeatures>(dataset, feature, std::move(rows), turn);
        };
  FeatureSourceFactory sources = feature_sources(tiers.from, cache);
  return tiers.local_partition < 0 ? sources : partition_features(tiers.local_partition, std::move(sources));
}

}  // namespace hopfeed
