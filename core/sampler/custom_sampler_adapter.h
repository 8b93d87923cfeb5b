// A CustomSamplerAdapter makes a Sampler of a CustomSampler: it owns the builder, and gives errors that are
// not hopfeed's a name.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "core/sampler/custom_sampler.h"

namespace hopfeed {

/// Calls `call`, a part of a custom sampler; what it throws and is no hopfeed::Error becomes kInvalid with
/// the sampler's name.
void name_errors(const std::string& sampler, const std::function<void()>& call);

class CustomSamplerAdapter : public Sampler {
 public:
  /// `name` is for errors.
  CustomSamplerAdapter(std::string name, const Dataset& dataset, const BatchOptions& options,
                       std::unique_ptr<CustomSampler> custom);
  /// Throws what the custom sampler throws; what is no hopfeed::Error becomes kInvalid with the sampler's
  /// name. Throws kInvalid where it ended other than num_hops() hops.
  const Sample& sample(const SampleRequest& request) override;
  /// Throws kInvalid for bounds that are not one count per type.
  SampleBounds bounds(SeedCounts seeds) const override;
  std::size_t num_hops() const override { return num_hops_; }
  std::size_t scratch_bytes() const override { return builder_.scratch_bytes() + custom_->scratch_bytes(); }
  /// Returns what the scratch comes to at most; where batches exclude edges, with what the custom sampler
  /// finds out about rows by one ExcludedRows.
  std::size_t max_scratch_bytes(SeedCounts seeds) const override;

 private:
  /// A custom sampler holds so many rows together; of ours walk_sampler.h has most, two for each walk of a
  /// group.
  static constexpr std::size_t kRowsTogether = 128;

  const std::string name_;
  const Dataset& dataset_;
  const bool excludes_;
  SampleBuilder builder_;
  const std::unique_ptr<CustomSampler> custom_;
  const std::size_t node_types_, edge_types_;
  std::size_t num_hops_ = 0;
};

}  // namespace hopfeed
