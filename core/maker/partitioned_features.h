// PartitionedFeatures are features of a machine that has some partitions. Its own rows, and those that halos
// copy, come from mapped arrays; the others are asked of the machines that have them, as soon as the batch is
// sampled, so that they come while other batches are. With a cache in front of them (cached_rows.h) only
// those are asked for that are not there, and what came is offered to it once the batch is whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/maker/announce_order.h"
#include "core/maker/cached_rows.h"
#include "core/maker/feature_source.h"
#include "core/sampler/peer_rows.h"
#include "core/sampler/rows_here.h"

namespace hopfeed {

class PartitionedFeatures final : public FeatureSource {
 public:
  /// `dataset`, which has peers, must outlive it. `cache` is of this attribute, or null. `turn` is the one in
  /// which its rows are announced, and must outlive this; null: at once. Throws kNotFound naming the
  /// attributes that exist.
  PartitionedFeatures(const Dataset& dataset, const FeatureName& feature,
                      std::unique_ptr<CachedRows> cache = nullptr, AnnounceTurn* turn = nullptr);

  /// Prepares the rows, and throws what PartitionPeers throws, as gather() does.
  std::size_t prepare(std::span<const std::int64_t> ids) override;
  void gather(std::size_t rows, std::byte* out) override;
  void drop() override;
  /// Returns counts in which rows that are here are of memory, others of the cache or of machines.
  TierCounts counts() const override { return counts_; }

 private:
  void take_all();
  void keep_hits_of_later_rows(std::size_t until);

  const AttrView attr_;
  const RowsHere here_;
  const std::unique_ptr<CachedRows> cache_;
  AnnounceTurn* const turn_;
  PeerRows peers_;
  std::vector<const std::byte*> rows_;  // of the batch; those that are not here null until they are taken
  std::vector<std::int64_t> others_;    // ids of the rows that are not here
  std::vector<std::size_t> at_;         // where they are in the batch
  std::vector<char> asked_;             // [others] of its owner; else the cache has it
  std::vector<std::byte> later_;        // hits of rows that a later call writes
  bool taken_ = false;
  std::size_t given_ = 0;
  TierCounts counts_;
};

}  // namespace hopfeed
