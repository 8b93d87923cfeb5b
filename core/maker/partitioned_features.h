// Features of a machine that has some partitions: its own rows are copied from the mapped array, those of
// others are asked of the machines that have them, from prepare() on, so that they come while others of the
// batch are sampled.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/maker/feature_source.h"
#include "core/partition/peer_rows.h"

namespace hopfeed {

class PartitionedFeatures final : public FeatureSource {
 public:
  /// `dataset`, which has peers, must outlive it. Throws kNotFound naming the attributes that exist.
  PartitionedFeatures(const Dataset& dataset, const FeatureName& feature);

  /// Throws what PartitionPeers throws, as gather() does.
  std::size_t prepare(std::span<const std::int64_t> ids) override;
  void gather(std::size_t rows, std::byte* out) override;
  void drop() override;
  /// Own rows count as of memory, others as of machines.
  TierCounts counts() const override { return counts_; }

 private:
  const AttrView attr_;
  PeerRows others_;
  std::vector<const std::byte*> rows_;  // of the batch; those of others null until they are taken
  std::vector<std::int64_t> asked_;
  std::vector<std::size_t> at_;  // of the asked ones in the batch
  bool taken_ = false;
  std::size_t given_ = 0;
  TierCounts counts_;
};

}  // namespace hopfeed
