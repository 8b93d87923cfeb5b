// MappedFeatures are features from the dataset's mapped arrays: a read of memory for each row, many under way
// at once (core/dataset/row_gather.h).
#pragma once
#include <memory>

#include "core/dataset/graph_view.h"
#include "core/maker/feature_source.h"

namespace hopfeed {

class MappedFeatures : public FeatureSource {
 public:
  /// The mapping must outlive the source.
  explicit MappedFeatures(const AttrView& attr) : attr_(attr) {}
  std::size_t prepare(std::span<const std::int64_t> ids) override;
  void gather(std::size_t rows, std::byte* out) override;
  TierCounts counts() const override { return counts_; }

 private:
  const AttrView attr_;
  std::span<const std::int64_t> left_;  // of the batch, to be gathered
  TierCounts counts_;
};

/// Makes MappedFeatures, or PartitionedFeatures where partitions lie on other machines. Throws kNotFound
/// naming the attributes that exist.
std::unique_ptr<FeatureSource> mapped_features(const Dataset& dataset, const FeatureName& feature);

}  // namespace hopfeed
