// Features of a machine that stands in for one with one partition: its rows are in memory (mapped), those of
// all other partitions come from their files (file_features.h, with the dynamic cache in front), as they come
// from other machines where these have them (core/maker/partitioned_features.h).
//
//   prepare(ids)    own rows: where each lies      others: told to `others`, which begins to fetch
//   gather(n, out)  `others` writes its rows to the end of `out`, then one pass from the front puts own rows
//                   and those in the order of the ids: what is read lies never before what is written
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/dynamic_cache.h"
#include "core/batch/feature_tiers.h"
#include "core/dataset/graph_view.h"
#include "core/maker/announce_order.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

class PartitionFeatures final : public FeatureSource {
 public:
  /// Rows of partition `own` are taken from `attr`, whose memory outlives the source; all others are asked of
  /// `others`, which has to give every row that it is asked for.
  PartitionFeatures(const AttrView& attr, int own, std::unique_ptr<FeatureSource> others);

  std::size_t prepare(std::span<const std::int64_t> ids) override;
  void gather(std::size_t rows, std::byte* out) override;
  void drop() override { others_->drop(); }
  /// Own rows count as of memory, the rest as `others` has it.
  TierCounts counts() const override;

 private:
  const AttrView attr_;
  const std::int64_t own_begin_, own_end_;  // ids of the partition
  const std::byte* const own_rows_;
  const std::unique_ptr<FeatureSource> others_;
  std::vector<const std::byte*> rows_;  // of the batch: an own row, or null
  std::vector<std::int64_t> asked_;     // ids of the batch's other rows
  std::size_t given_ = 0;               // rows that earlier calls of gather() wrote
  TierCounts counts_;                   // of own rows
};

/// Sources of a machine that has partition `own`, where `others` makes those of all other partitions. Throws
/// kInvalid where the dataset has no such partition.
FeatureSourceFactory partition_features(std::int64_t own, FeatureSourceFactory others);

/// What the options say: feature_sources(), and where a partition is at hand its rows from memory. `cache` as
/// there; `turn` as of PartitionedFeatures.
FeatureSourceFactory tier_sources(const FeatureTiers& tiers, DynamicCache* cache = nullptr,
                                  AnnounceTurn* turn = nullptr);

}  // namespace hopfeed
