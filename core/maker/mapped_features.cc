// See mapped_features.h.
#include "core/maker/mapped_features.h"

#include "core/dataset/row_gather.h"
#include "core/maker/partitioned_features.h"

namespace hopfeed {

std::size_t MappedFeatures::prepare(std::span<const std::int64_t> ids) {
  left_ = ids;
  return ids.size();
}

void MappedFeatures::gather(std::size_t rows, std::byte* out) {
  gather_rows(attr_, left_.first(rows), out);
  left_ = left_.subspan(rows);
  counts_.memory_rows += static_cast<std::int64_t>(rows);
  counts_.memory_bytes += static_cast<std::int64_t>(rows) * attr_.row_bytes;
}

std::unique_ptr<FeatureSource> mapped_features(const Dataset& dataset, const FeatureName& feature) {
  if (!dataset.whole()) return std::make_unique<PartitionedFeatures>(dataset, feature);
  return std::make_unique<MappedFeatures>(feature.store == Store::kNode
                                              ? dataset.attr(feature.type, feature.name)
                                              : dataset.edge_attr(feature.type, feature.name));
}

}  // namespace hopfeed
